"""What is asked: harness tasks, prompts, data, retrieval, and their registration with lm-evaluation-harness.

Importing this package loads nothing.
"""
