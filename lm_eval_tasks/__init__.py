"""What is asked: harness tasks, prompts, data, retrieval, and their registration with lm-evaluation-harness.

Importing this package loads nothing: it is imported at every start of Python by the import hook (`autoload.py`).
"""
