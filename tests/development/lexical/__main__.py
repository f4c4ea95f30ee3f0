"""Train the detector ``lexical`` anew: weights and calibration, from every annotated answer of a mirror.

``make train-lexical`` replaces what the package ships. With ``-o trained`` the folder ``trained`` also gets the weights
without a family of models, which only figures need. It takes a quarter of an hour, and the same mirror gives the same
bytes.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from detector_plugin import calibration, lexical
from detector_plugin.detector import describe
from detector_plugin.labelled import REAL, LabelledAnswer, is_unreadable
from lm_eval_tasks.data import whole_file
from lm_eval_tasks.detection.labelled_answers import labelled_answers, readable
from tests.development.lexical import held_out, training

log = logging.getLogger(__name__)

DATA = ("mfava-gold", "mfava-silver", "mushroom")
"""Collections that the detector learns from."""

NOTE = (
    "Measured with weights that were trained without any document of the language and, for real answers, without any of "
    "the model's family (held_out). The shipped weights were trained on these documents too."
)


def train_lexical(mirror: str | None, output: Path | None) -> None:
    """Train, measure, and write ``weights/`` and ``calibration.json`` into a folder, by default the package's own."""
    documents = readable(labelled_answers(mirror, DATA))
    log.info("training on %d documents of %d languages", len(documents), len({d.language for d in documents}))
    weights = training.train_all(documents, processes=os.cpu_count() or 1)
    target = lexical.WEIGHTS if output is None else output / "weights"
    with TemporaryDirectory() as scratch:
        for name, content in weights.items():
            without_family = name.count(".") > 1
            for folder in (Path(scratch), *(() if output is None and without_family else (target,))):
                with whole_file(folder / name) as partial:
                    partial.write_bytes(content)
        shipped = Path(calibration.__file__).parent / "calibrations" / "lexical.json"
        with whole_file(shipped if output is None else output / "calibration.json") as partial:
            _calibrate(labelled_answers(mirror), Path(scratch)).save(partial)


def _calibrate(documents: Sequence[LabelledAnswer], folder: Path) -> calibration.Calibration:
    """The calibration of trained weights, measured with weights that saw neither the language nor the model's family."""
    groups: dict[tuple[str, str], list[tuple[LabelledAnswer, Sequence[int]]]] = defaultdict(list)
    for document, prediction in zip(documents, held_out.predictions(documents, folder), strict=True):
        groups[document.language, document.annotations].append((document, prediction.counts))
    languages: dict[str, dict[str, calibration.LanguageCalibration]] = {}
    for (language, kind), group in groups.items():
        answers = [document for document, _ in group]
        if sum(is_unreadable(document.reference) for document in answers) > len(answers) / 2:
            log.warning("%s %s: no calibration, as most of its references are unreadable", language, kind)
            continue
        source = f"mushroom_{language}" if kind == REAL else f"mfava_detection_{language}_{kind}"
        models = [document.model for document in answers] if kind == REAL else ()
        texts = [document.article or document.reference for document in answers]
        errors = calibration.from_counts([counts for _, counts in group], source, models, texts)
        languages.setdefault(language, {})[kind] = errors
    return calibration.Calibration(describe(lexical.LexicalDetector(weights=folder)), languages, note=NOTE)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.development.lexical", description=__doc__)
    parser.add_argument("--mirror", metavar="DIR", help="of the public files (default: LM_EVAL_GROUNDED_MIRROR)")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: replaces the package's own files")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    train_lexical(options.mirror, options.output)


if __name__ == "__main__":
    main()
