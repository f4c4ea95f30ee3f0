"""``g.LogReader`` and ``g.merge_logs``: batches of a log give what the whole log gives."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lm_eval_grounded as g

PASSAGE = "The bridge over the Elbe was opened in 1893. It is 141 metres long."
GOOD, BAD = "The bridge was opened in 1893.", "Queen Victoria flew to Mars with purple elephants and bought a castle."
ANSWERS = [BAD, GOOD, GOOD, "I don't know.", BAD, "Empty Response", "<think>Hm", GOOD, BAD, GOOD]
RECORDS = [
    {"question": f"{n // 2}?", "answer": answer, "contexts": [] if n == 9 else [PASSAGE, "More."]}
    for n, answer in enumerate(ANSWERS)
]
COLUMNS = {name: [record[name] for record in RECORDS] for name in RECORDS[0]}


def batches(size: int) -> list[dict[str, Any]]:
    return [{name: column[at : at + size] for name, column in COLUMNS.items()} for at in range(0, len(RECORDS), size)]


@pytest.mark.parametrize("size", [3, 10])
def test_batches_add_up_to_the_log(size: int) -> None:
    total = g.detect_log(RECORDS, language="en").summary.total
    merged = g.merge_logs(map(g.LogReader(language="en"), batches(size)))
    assert (merged.answers, merged.declined) == (total.answers, total.abstaining) == (8, 1)
    assert merged.left_out == {"no answer": 1, "the message of a service that failed": 1}
    for one, other in ((merged.flagged_answers, total.flagged_answers), (merged.flagged_words, total.flagged_words)):
        assert one[:3] == pytest.approx(other[:3])
        assert one.n == other.n == 7


def test_frameworks_give_arrays_frames_and_parts_of_frames() -> None:
    from datasets import Dataset

    reader = g.LogReader(language="en")
    expected = reader(COLUMNS)
    arrays = {name: np.array(column, dtype=object) for name, column in COLUMNS.items()}
    assert reader(arrays)["flagged_words"] == expected["flagged_words"]
    frame = reader(pd.DataFrame(COLUMNS))
    assert frame["cluster"].tolist() == expected["cluster"]
    (part,) = reader(iter([pd.DataFrame(COLUMNS)]))
    assert part.equals(frame)
    assert g.merge_logs([frame]).flagged_answers[:3] == g.merge_logs([expected]).flagged_answers[:3]
    mapped = Dataset.from_dict(COLUMNS).map(reader, batched=True, batch_size=4)
    assert mapped["words"] == expected["words"]


def test_ray_maps_it_with_two_workers() -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False)
    read = ray.data.from_items(RECORDS).map_batches(
        g.LogReader, fn_constructor_kwargs={"language": "en"}, concurrency=2, batch_size=5
    )
    merged = g.merge_logs(read.iter_batches())
    assert merged.answers == 8


def test_many_clusters_are_added_up_to_fewer_sums() -> None:
    number = 70_000
    batch = {
        **{"left_out": [""] * number, "declined": [False] * number, "flagged": [0.0, 1.0] * (number // 2)},
        **{"flagged_words": [1] * number, "words": [10] * number, "unsupported_probability": [0.5] * number},
        "cluster": [hashlib.sha256(str(n).encode()).hexdigest()[:16] for n in range(number)],
    }
    merged = g.merge_logs([batch])
    assert (merged.flagged_answers.value, merged.flagged_answers.n) == (0.5, number)
    half = 1.96 * (0.25 / number) ** 0.5
    assert merged.flagged_answers[1:3] == pytest.approx((0.5 - half, 0.5 + half), abs=half / 5)


def test_no_answer_is_an_error() -> None:
    with pytest.raises(g.UsageError, match="no answer was read"):
        g.merge_logs([])
    with pytest.raises(g.UsageError, match="the first batch: no known fields"):
        g.LogReader()({"x": ["y"]})
