"""Harness models without a language model: reference points (`baseline`), stored answers (`replay`), and `detector`."""
