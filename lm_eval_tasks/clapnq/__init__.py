"""CLAPnq: long answers grounded in a passage, with the gold passage or with retrieval (Rosenthal et al. 2025)."""
