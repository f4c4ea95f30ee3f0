"""Lines of a samples file that cannot be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_eval_tasks.data.samples import read_samples
from lm_eval_tasks.data.sources import CorruptSource

SAMPLE = '{"doc_id": 1, "doc": {}, "resps": [["a"]]}\n'


@pytest.mark.parametrize("number", ["Infinity", "NaN", "null", '"x"', "[]"])
def test_a_number_of_a_document_that_is_none_is_refused(tmp_path: Path, number: str) -> None:
    path = tmp_path / "samples_x_2026-01-01T00-00-00.jsonl"
    path.write_text(SAMPLE.replace("1", number, 1) + SAMPLE, "utf-8")
    with pytest.raises(CorruptSource, match="line 1: no sample"):
        list(read_samples(path))
