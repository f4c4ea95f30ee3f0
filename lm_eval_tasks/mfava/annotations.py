"""mFAVA's annotations: tagged text as people and GPT-4 wrote it, aligned to the text that was annotated.

``parse(annotated) -> (text, spans)`` reads tagged text (see :mod:`custom_metrics.reading.tagged_text`);
:func:`annotate` carries the spans over to the document's own text, from which the annotated copy often differs in white
space or a few characters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from custom_metrics.reading.spans import CATEGORIES, Span
from custom_metrics.reading.tagged_text import Alignment, ParseReport, align, parse, render, tag_counts

__all__ = [
    "CATEGORIES",
    "Alignment",
    "AnnotationReport",
    "ParseReport",
    "Span",
    "align",
    "annotate",
    "parse",
    "render",
    "tag_counts",
]


@dataclass
class AnnotationReport:
    """Counts from reading the annotations of some documents.

    Attributes:
        parsed: repairs of the tags.
        kinds: documents by :class:`Alignment` kind.
        tags: opening tags as the paper counted them (Table 2).
        carried: spans that stand on the documents' texts in the end.
    """

    parsed: ParseReport = field(default_factory=ParseReport)
    kinds: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    carried: int = 0

    @property
    def aligned_share(self) -> float:
        """Share of the documents whose annotations could be brought onto their text; ``nan`` without documents."""
        documents = sum(self.kinds.values())
        return 1 - self.kinds["lost"] / documents if documents else float("nan")

    def __str__(self) -> str:
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.kinds.most_common())
        repaired = ", ".join(f"{number} {what}" for what, number in self.parsed.repaired.most_common()) or "nothing"
        return (
            f"annotated texts: {kinds}; {self.aligned_share:.2%} aligned; {sum(self.tags.values())} opening tags as the "
            f"paper counts them, {self.carried} spans; repaired: {repaired}"
        )


def annotate(annotated: str | None, text: str, report: AnnotationReport) -> list[Span] | None:
    """Spans of a tagged text, in characters of the text that was annotated.

    Args:
        annotated: the tagged copy.
        text: what was given to the annotators.
        report: what was repaired and how the copy fits is counted here.

    Returns:
        The spans; ``None`` where the copy has next to nothing in common with the text.
    """
    copy, spans = parse(annotated, report.parsed)
    alignment = align(copy, spans, text)
    report.kinds[alignment.kind] += 1
    report.tags.update(tag_counts(annotated))
    if alignment.kind == "lost":
        return None
    report.carried += len(alignment.spans)
    return alignment.spans
