"""What the same answers say by three readings: ``python -m tests.benchmarks.readings [MIRROR]``.

Of each language of Mu-SHROOM a row: the share of words that `lexical` flags, by weights that never saw the language; the
same, corrected by its errors in the other languages; and the rate by people's marks of fifty answers, the first draw.
"""

from __future__ import annotations

import sys

from custom_metrics.statistics.figures import Figure
from tests.benchmarks.marks import annotated_answers, drawn_answers, estimates, of_draw, table

MARKS = 50


def _text(figure: Figure, truth: float) -> str:
    """Value and bounds in percent; in italics where the bounds miss the truth."""
    text = f"{100 * figure.value:.0f} [{100 * figure.low:.0f}, {100 * figure.high:.0f}]"
    return text if figure.low <= truth <= figure.high else f"*{text}*"


def main() -> None:
    answers = annotated_answers(sys.argv[1] if len(sys.argv) > 1 else "../shared/hub", ["mushroom"])
    rows = []
    for language, kind in answers:
        own = answers[language, kind]
        share, rates = own.words / own.words.sum(), estimates(answers, language, kind)
        truth = float(share @ own.marked)
        marked = of_draw(own, own.expected, drawn_answers(share, MARKS, 0)).figure
        read = (_text(figure, truth) for figure in (rates.detected, rates.rogan_gladen, marked))
        rows.append([language, len(own.words), f"{100 * truth:.0f}", *read])
    print(*table(f"answers; number; people mark; flagged; corrected; by {MARKS} marks", rows), sep="\n")


if __name__ == "__main__":
    main()
