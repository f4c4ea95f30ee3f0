"""Harness models that need no weights: reference points (`baseline`) and stored answers (`replay`)."""
