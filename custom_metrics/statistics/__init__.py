"""Statistics of scores: intervals, paired comparisons."""
