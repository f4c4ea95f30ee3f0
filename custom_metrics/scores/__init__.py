"""Scores of answers: one measure a file, from strings and labels to numbers."""
