"""The user's command on real backends with a tiny model made on the spot."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from tests.conftest import figures_of, results_of, run
from tests.miniature import MINIATURE

TASKS, JUDGES = "nomiracl_de,clapnq_rag,mfava_de", ("clapnq_judge", "clapnq_judge_pairs")


def check(folder: Path, questions: dict[str, int]) -> None:
    """Every document was answered and scored under every metric."""
    results = results_of(folder)
    assert {task: n["effective"] for task, n in results["n-samples"].items()} == questions
    nomiracl, clapnq = results["results"]["nomiracl_de"], results["results"]["clapnq_rag"]
    assert nomiracl["accuracy,robust"] + nomiracl["invalid_rate,robust"] <= 1
    assert 0 <= clapnq["rougeL,answer"] <= 1
    assert clapnq["length,answer"] > 0
    mfava = results["results"]["mfava_de"]
    assert mfava["response_words,answer"] > 0
    figures = figures_of(results, "mfava_de")
    low = figures["detected_rate"]["low"]  # none where every word of every answer is flagged
    assert 0 <= (0 if low is None else low) <= mfava["detected_rate,answer"] <= 1
    corrected = mfava.get("rogan_gladen_rate,answer", 0.0)  # absent where it is not measurable
    assert 0 <= corrected <= figures["rogan_gladen_rate"]["high"] <= 1
    assert results["configs"]["mfava_de"]["metadata"]["provenance"]["detector"]["name"] == "lexical"
    if questions["clapnq_rag"] == 32:
        # The retriever's, whatever the model: one gold passage shares no word with its question, and is the ninth of those.
        assert clapnq["ndcg@10,answer"] == pytest.approx((17 + 1 / math.log2(10)) / 18)
    for task, number in questions.items():
        (samples,) = folder.rglob(f"samples_{task}_2*.jsonl")
        rows = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
        assert len({row["doc_id"] for row in rows}) == number
        assert all(isinstance(row["resps"][0][0], str) for row in rows)


@pytest.mark.slow("generates with a tiny Llama")
@pytest.mark.parametrize("chat", [False, True], ids=["plain", "chat template"])
def test_hf(llama: Path, tmp_path: Path, chat: bool) -> None:
    run(
        [
            *(sys.executable, "-m", "lm_eval", "--tasks", TASKS, "--model", "hf"),
            *("--model_args", f"pretrained={llama}"),
            *("--device", "cpu", "--batch_size", "4", "--limit", "4", "--gen_kwargs", "max_gen_toks=16"),
            *("--metadata", f"mirror={MINIATURE}", "--log_samples", "--output_path", str(tmp_path / "out")),
            *(["--apply_chat_template"] if chat else []),
        ],
        tmp_path,
    )
    check(tmp_path / "out", {"nomiracl_de": 4, "clapnq_rag": 4, "mfava_de": 4})


@pytest.mark.vllm
def test_vllm(llama: Path, minilm: str, tmp_path: Path) -> None:
    """The README's first command on vLLM itself, full RAG by BM25 and by MiniLM; then vLLM as the judge of its answers."""
    arguments = f"pretrained={llama},dtype=bfloat16,max_model_len=8192,enforce_eager=True"
    lm_eval = [sys.executable, "-m", "lm_eval", "--model", "vllm", "--model_args", arguments, "--log_samples"]
    metadata = ["--metadata", f"mirror={MINIATURE}", f"minilm={minilm}"]
    short = ["--gen_kwargs", "max_gen_toks=32", "--output_path", str(tmp_path / "out")]  # random weights never end
    run([*lm_eval, "--tasks", f"{TASKS},clapnq_rag_minilm", *metadata, *short], tmp_path)
    check(tmp_path / "out", {"nomiracl_de": 8, "clapnq_rag": 32, "clapnq_rag_minilm": 32, "mfava_de": 9})
    results = results_of(tmp_path / "out")
    dense = results["results"]["clapnq_rag_minilm"]
    assert (dense["ndcg@10,answer"], dense["gold_retrieved,answer"]) == (pytest.approx(1.0), 1)
    retrieval = results["configs"]["clapnq_rag_minilm"]["metadata"]["provenance"]["retrieval"]
    assert retrieval["model"] == "sentence-transformers/all-MiniLM-L6-v2"

    (samples,) = (tmp_path / "out").rglob("samples_clapnq_rag_minilm_2*.jsonl")
    metadata = ["--metadata", f"samples={samples}", "judge_reference=true"]
    short = ["--gen_kwargs", "max_gen_toks=16", "--output_path", str(tmp_path / "judged")]
    run([*lm_eval, "--tasks", ",".join(JUDGES), "--apply_chat_template", *metadata, *short], tmp_path)
    judged = results_of(tmp_path / "judged")
    assert {task: n["effective"] for task, n in judged["n-samples"].items()} == dict.fromkeys(JUDGES, 36)
    # random weights talk nonsense, and it is counted
    assert judged["results"]["clapnq_judge"]["unread_rate,rating"] > 0.5
