"""Benchmarks as tables, and the YAML files and loaders that are made of them."""
