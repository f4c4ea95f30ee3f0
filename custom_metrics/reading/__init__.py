"""Reading of model output: its final answer, tags, verdicts, words, and text that is no answer."""
