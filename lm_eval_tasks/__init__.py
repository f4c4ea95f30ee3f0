"""Benchmarks as harness tasks: data, prompts, retrieval, commands, and their registration with lm-evaluation-harness.

Importing this package loads nothing.
"""
