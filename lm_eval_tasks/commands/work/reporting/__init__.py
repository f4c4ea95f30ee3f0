"""The work of the command ``report``: headlines, plots, documents and pages of runs."""
