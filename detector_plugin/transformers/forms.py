"""The forms in which detectors read reference and answer, and the tokens they become."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

from custom_metrics.usage.printable import SURROGATE
from detector_plugin.detector import UnusableDetector

Ints = NDArray[np.int64]

FORMS = {
    "lettucedetect": "LettuceDetect's prompt of question and numbered passage, paired with the answer",
    "lettucedetect-v2": "'User request: ', question and reference, as LettuceDetect's v2 models know it, with the answer",
    "pair": "reference, paired with the answer",
    "paper": "one sequence of reference, separator and answer, as the mFAVA paper's detector",
}
# Of the input, so that reference and answer keep most of it; no benchmark's question comes near.
_QUESTION_SHARE = 4


class Encoded(NamedTuple):
    """The tokens of one document."""

    ids: Ints
    types: Ints  # 0 for the first text, 1 for the second, as BERT wants it
    fixed: Ints  # places in `ids` of special tokens and prompt: part of every window
    reference: Ints  # places of the reference's tokens
    answer: Ints  # places of the answer's tokens
    offsets: Ints  # first and end character of each token in `answer`

    @classmethod
    def from_parts(cls, ids: Sequence[int], types: Ints, parts: Ints, offsets: Ints) -> Encoded:
        """From the part that each token is of: 1 for the reference, 2 for the answer, 0 for what is fixed."""
        fixed, reference, answer = (np.flatnonzero(parts == number) for number in range(3))
        return cls(np.array(ids, np.int64), types, fixed, reference, answer, offsets.reshape(-1, 2))

    def window(self, reference: tuple[int, int], answer: tuple[int, int]) -> Ints:
        """Places of the tokens of a window, in order, which has some of the reference's tokens and of the answer's."""
        return np.sort(np.concatenate([self.fixed, self.reference[slice(*reference)], self.answer[slice(*answer)]]))


def prompt(form: str, question: str | None, language: str | None) -> tuple[str, str]:
    """The prompt's text before and after the reference, in one of `FORMS`. LettuceDetect's prompts exist in eight
    languages; the English one serves all others."""
    if form == "lettucedetect-v2":
        return (f"User request: {question}\n\n" if question else ""), ""
    if form != "lettucedetect":
        return "", ""
    prompts = _prompts()
    template = prompts.get({"yue": "zh", "cn": "zh"}.get(language or "", language or ""), prompts["en"])
    before, after = template["question" if question else "summary"].split("{context}")
    before = before.replace("{passages}", "1").replace("{question}", question or "")  # last: it is not ours
    return f"{before}{template['passage']} 1: ", after


@lru_cache(maxsize=1)
def _prompts() -> dict[str, dict[str, str]]:
    text = files("detector_plugin.transformers").joinpath("lettucedetect_prompts.yaml").read_text("utf-8")
    prompts: dict[str, dict[str, str]] = yaml.safe_load(text)
    return prompts


class Encoder:
    """Turns documents into tokens, with a fast tokenizer and in one of `FORMS`. `max_length` of an input, in tokens, limits
    the question, no more. The separator stands between reference and answer in the form ``paper``; it is by default the
    tokenizer's separator token, or the one that ends a text. UnusableDetector where there is neither.
    """

    def __init__(self, tokenizer: Any, form: str, max_length: int, separator: str | None = None) -> None:
        self.tokenizer = tokenizer
        self.form = form
        self.longest_question = max_length // _QUESTION_SHARE
        if form == "paper":
            tokens = tokenizer("a", verbose=False)  # the special tokens before and after a text
            inner = [index for index, text_number in enumerate(tokens.sequence_ids(0)) if text_number is not None]
            self._before, self._after = tokens["input_ids"][: inner[0]], tokens["input_ids"][inner[-1] + 1 :]
            self._separator = self._separator_ids(separator)
        elif separator is not None:
            raise UnusableDetector(f"option separator: only the form paper has one, not {form}")

    def encode(self, reference: str, answer: str, question: str | None, language: str | None) -> Encoded:
        """The tokens of a document of any length; where all fits into one window, just what the model was trained on."""
        return self.encode_all([(reference, answer, question, language)])[0]

    def encode_all(self, documents: Sequence[tuple[str, str, str | None, str | None]]) -> list[Encoded]:
        """The tokens of several documents, each a reference, an answer, a question and a language: the tokenizer has a core
        for each."""
        if not documents:
            return []
        # one character for one: the offsets are those of the answer as it is
        cleaned = [tuple(SURROGATE.sub("\ufffd", text) for text in document[:2]) for document in documents]
        references, answers = (list(texts) for texts in zip(*cleaned, strict=True))
        if self.form == "paper":
            return self._sequences(references, answers)
        prompts = [prompt(self.form, self._question(question), language) for _, _, question, language in documents]
        return self._pairs(references, answers, prompts)

    def _pairs(self, references: list[str], answers: list[str], prompts: list[tuple[str, str]]) -> list[Encoded]:
        first = [before + reference + after for reference, (before, after) in zip(references, prompts, strict=True)]
        tokens = self.tokenizer(first, answers, return_offsets_mapping=True, return_token_type_ids=True, verbose=False)
        encoded = []
        for index, (reference, (before, _)) in enumerate(zip(references, prompts, strict=True)):
            text = np.array(tokens.sequence_ids(index), float)  # 0: prompt, 1: answer; special tokens have none
            offsets = np.array(tokens["offset_mapping"][index], np.int64).reshape(-1, 2)
            # Prompt and reference are tokenised as one text; a token is the reference's where any of its characters is.
            start, end = len(before), len(before) + len(reference)
            within = (text == 0) & (np.maximum(offsets[:, 1], offsets[:, 0] + 1) > start) & (offsets[:, 0] < end)
            types = np.array(tokens["token_type_ids"][index], np.int64)
            parts = np.where(text == 1, 2, within)
            encoded.append(Encoded.from_parts(tokens["input_ids"][index], types, parts, offsets[text == 1]))
        return encoded

    def _sequences(self, references: list[str], answers: list[str]) -> list[Encoded]:
        firsts, seconds = (
            self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            for texts in (references, answers)
        )
        encoded = []
        for first, second, offsets in zip(
            firsts["input_ids"], seconds["input_ids"], seconds["offset_mapping"], strict=True
        ):
            texts = [self._before, first, self._separator, second, self._after]
            parts = np.repeat([0, 1, 0, 2, 0], [len(ids) for ids in texts])
            encoded.append(
                Encoded.from_parts([*chain(*texts)], np.zeros_like(parts), parts, np.array(offsets, np.int64))
            )
        return encoded

    def _question(self, question: str | None) -> str | None:
        question = SURROGATE.sub("\ufffd", (question or "").strip())
        if not question:
            return question
        tokens = self.tokenizer(question, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = tokens["offset_mapping"]
        return question[: offsets[self.longest_question][0]] if len(offsets) > self.longest_question else question

    def _separator_ids(self, separator: str | None) -> list[int]:
        tokenizer = self.tokenizer
        if separator is None:
            number = tokenizer.eos_token_id if tokenizer.sep_token_id is None else tokenizer.sep_token_id
            if number is None:
                raise UnusableDetector(
                    "the tokenizer has neither a separator token nor one that ends a text: say with the option separator "
                    "what stands between reference and answer"
                )
        else:
            number = tokenizer.get_vocab().get(separator)
        if number is not None:
            return [number]
        ids: list[int] = tokenizer(separator, add_special_tokens=False, verbose=False)["input_ids"]
        return ids
