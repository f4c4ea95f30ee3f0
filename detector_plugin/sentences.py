"""The sentences of an answer, for detectors that judge each by itself."""

from __future__ import annotations

from itertools import pairwise

from custom_metrics.reading.spans import without_space
from custom_metrics.reading.words import words


def sentence_bounds(answer: str, language: str | None) -> list[tuple[int, int]]:
    """First and end character of each sentence of an answer that is not blank, without white space at its ends."""
    from detector_plugin.lexical.text import Layout  # with numpy, which tables of benchmarks do without

    places = words(answer, language)
    starts = Layout(answer, places).sentence_starts.tolist() if places else [0]
    edges = [0, *(places[word][0] for word in starts[1:]), len(answer)]
    return [without_space(answer, *edge) for edge in pairwise(edges)]
