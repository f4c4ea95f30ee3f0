"""The plugin in the harness: registration, the base task, figures beside its table, warnings about a run."""
