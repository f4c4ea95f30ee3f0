"""Reading of model output: its final answer, tags, words, and text that is no answer."""
