"""Documents as a model's inputs: the forms in which detectors read reference and answer, the tokens they become, windows
over texts longer than a model reads, what the windows say of each token together, and the spans that follow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.reading.spans import Span, without_space
from custom_metrics.usage import shipped_yaml
from custom_metrics.usage.printable import SURROGATE
from detector_plugin.detector import UnusableDetector

Ints = NDArray[np.int64]
Part = tuple[int, int]

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

    def window(self, reference: Part, answer: Part) -> Ints:
        """Places of the tokens of a window, in order, which has some of the reference's tokens and of the answer's."""
        return np.sort(np.concatenate([self.fixed, self.reference[slice(*reference)], self.answer[slice(*answer)]]))


def prompt(form: str, question: str | None, language: str | None) -> tuple[str, str]:
    """The prompt before and after the reference, in one of `FORMS`. LettuceDetect's exist in eight languages."""
    if form == "lettucedetect-v2":
        return (f"User request: {question}\n\n" if question else ""), ""
    if form != "lettucedetect":
        return "", ""
    prompts = shipped_yaml("detector_plugin.transformers", "lettucedetect_prompts.yaml")
    template = prompts.get({"yue": "zh", "cn": "zh"}.get(language or "", language or ""), prompts["en"])
    before, after = template["question" if question else "summary"].split("{context}")
    before = before.replace("{passages}", "1").replace("{question}", question or "")  # last: it is not ours
    return f"{before}{template['passage']} 1: ", after


class Encoder:
    """Turns documents into tokens, with a fast tokenizer and in one of `FORMS`. `max_length` of an input, in tokens, limits
    the question, no more. The form ``paper`` needs a separator token, or one that ends a text; UnusableDetector without."""

    def __init__(self, tokenizer: Any, form: str, max_length: int) -> None:
        self.tokenizer = tokenizer
        self.form = form
        self.longest_question = max_length // _QUESTION_SHARE
        if form == "paper":
            tokens = tokenizer("a", verbose=False)  # the special tokens before and after a text
            inner = [index for index, text_number in enumerate(tokens.sequence_ids(0)) if text_number is not None]
            self._before, self._after = tokens["input_ids"][: inner[0]], tokens["input_ids"][inner[-1] + 1 :]
            number = tokenizer.eos_token_id if tokenizer.sep_token_id is None else tokenizer.sep_token_id
            if number is None:
                raise UnusableDetector(
                    "form=paper: the tokenizer has neither a separator token nor one that ends a text"
                )
            self._separator = [number]

    def encode(self, reference: str, answer: str, question: str | None, language: str | None) -> Encoded:
        """The tokens of a document of any length; where all fits into one window, just what the model was trained on."""
        return self.encode_all([(reference, answer, question, language)])[0]

    def encode_all(self, documents: Sequence[tuple[str, str, str | None, str | None]]) -> list[Encoded]:
        """The tokens of several documents, each a reference, an answer, a question and a language."""
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
        rows = []
        tokens = zip(firsts["input_ids"], seconds["input_ids"], seconds["offset_mapping"], strict=True)
        for first, second, offsets in tokens:
            texts = [self._before, first, self._separator, second, self._after]
            parts = np.repeat([0, 1, 0, 2, 0], [len(ids) for ids in texts])
            rows.append(Encoded.from_parts([*chain(*texts)], np.zeros_like(parts), parts, np.array(offsets, np.int64)))
        return rows

    def _question(self, question: str | None) -> str | None:
        question = SURROGATE.sub("\ufffd", (question or "").strip())
        if not question:
            return question
        tokens = self.tokenizer(question, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = tokens["offset_mapping"]
        return question[: offsets[self.longest_question][0]] if len(offsets) > self.longest_question else question


_SMALLEST_ROOM = 16  # tokens of reference and answer that a window must hold at the least
_OVERLAP = 4  # windows share a quarter of their tokens with the next


def room_for(encoded: Encoded, max_length: int) -> int:
    """Tokens of reference and answer in a window of a document; UnusableDetector where there is too little room."""
    room = max_length - len(encoded.fixed)
    if room < _SMALLEST_ROOM:
        raise UnusableDetector(
            f"of max_length={max_length} tokens, prompt and question take {len(encoded.fixed)}; reference and answer need "
            "more room"
        )
    return room


def window_bounds(reference: int, answer: int, room: int) -> tuple[list[Part], list[tuple[Part, Part]]]:
    """The windows' parts of the reference; and of the answer, each with the part of it that it decides. Every part of the
    one is read with every part of the other. Where two parts of the answer overlap, each decides the half of the overlap it
    has more context for. All arguments are numbers of tokens, `room` of those of a window; two long texts share it."""
    size = min(answer, max(room // 2, room - reference))
    answer_cuts = _even_windows(answer, size)
    middles = [(this[1] + following[0]) // 2 for this, following in pairwise(answer_cuts)]
    decided = zip([0, *middles], [*middles, answer], strict=True)
    return _even_windows(reference, room - size), list(zip(answer_cuts, decided, strict=True))


def _even_windows(length: int, size: int) -> list[Part]:
    """As few windows of a size as overlap by a quarter, at even distances; one where all fits."""
    if length <= size:
        return [(0, length)]
    overlap = size // _OVERLAP
    number = -(-(length - overlap) // (size - overlap))
    return [(start, start + size) for start in (index * (length - size) // (number - 1) for index in range(number))]


class Piece(NamedTuple):
    """A part of an answer that is read against the reference by itself: all of it, or a sentence."""

    start: int  # first and end character of the answer
    end: int
    encoded: Encoded


class Document:
    """One answer on its way, in its pieces. `by_piece`: a model gives classes to inputs, not to their tokens."""

    def __init__(
        self,
        index: int,
        pieces: Sequence[Piece],
        categories: Sequence[str | None],
        max_length: int,
        by_piece: bool = False,
    ) -> None:
        self.index = index
        self.pieces = pieces
        self._first = [0, *accumulate(len(piece.encoded.answer) for piece in pieces)]  # token of each piece
        self.best = np.zeros((self._first[-1], len(categories)), np.float32)  # the most favourable reading so far
        self._by_piece = by_piece
        self._supported = [category is None for category in categories]
        self._best_support = np.full(len(self.best), -1, np.float32)
        self.windows: list[Window] = []  # to be read
        for (_, _, encoded), first in zip(pieces, self._first, strict=False):
            room = room_for(encoded, max_length)
            of_reference, of_answer = window_bounds(len(encoded.reference), len(encoded.answer), room)
            for answer_part, (start, end) in of_answer:
                decided = slice(first + start, first + end), encoded.answer[start:end]
                for reference_part in of_reference:
                    self.windows.append(Window(self, *decided, encoded, encoded.window(reference_part, answer_part)))
        self.windows_left = len(self.windows)

    def update(self, window: Window, probabilities: NDArray[np.float32]) -> None:
        """For each token that a window decides, keep the reading in which it is most likely borne out. `probabilities` are
        those of the classes of the window's tokens, or of the window as a whole (one row)."""
        decided = window.decided
        rows = np.broadcast_to(probabilities, (len(window.row), len(self._supported)))
        rows = rows[np.searchsorted(window.row, window.answer)]
        support = rows[:, self._supported].sum(1)
        better = support > self._best_support[decided]
        self._best_support[decided][better] = support[better]
        self.best[decided][better] = rows[better]

    def units(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """What was classified, tokens or pieces: (units, 2) first and end characters, (units, classes) probabilities. Of a
        piece longer than a window, the part that is least likely borne out counts."""
        if not self._by_piece:
            offsets = [piece.encoded.offsets + piece.start for piece in self.pieces]
            return np.concatenate(offsets or [np.zeros((0, 2), np.int64)]), self.best
        read = [
            (piece[:2], first + int(self._best_support[first:end].argmin()))
            for piece, first, end in zip(self.pieces, self._first, self._first[1:], strict=False)
            if first < end
        ]
        return np.array([place for place, _ in read]).reshape(-1, 2), self.best[[token for _, token in read]]


class Window(NamedTuple):
    """One window of a document: tokens that are read at once."""

    document: Document
    decided: slice  # of the document's tokens, those that it decides
    answer: NDArray[np.int64]  # places of these in the piece
    encoded: Encoded  # the piece
    row: NDArray[np.int64]  # places of its tokens in the piece, in order

    @property
    def ids(self) -> NDArray[np.int64]:
        return self.encoded.ids[self.row]

    @property
    def types(self) -> NDArray[np.int64]:
        """0 for tokens of the first text, 1 for those of the second."""
        return self.encoded.types[self.row]


def spans_of(
    answer: str,
    offsets: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    categories: Sequence[str | None],
    threshold: float,
    joined: bool = True,
) -> list[Span]:
    """Spans of neighbouring tokens of one category, without white space at their ends; one each where not `joined`. A
    span's probability is the mean of its tokens', each weighed by its characters, to four decimals. A token is flagged
    where the categories of its classes, of which several may share one, together have the threshold's probability."""
    kinds = sorted({category for category in categories if category is not None})
    by_kind = np.stack([probabilities[:, [category == kind for category in categories]].sum(1) for kind in kinds], 1)
    groups: list[list[Span]] = []  # of the tokens of each span
    flagged = by_kind.sum(1)
    for index in np.flatnonzero(flagged >= threshold):
        start, end = without_space(answer, *map(int, offsets[index]))
        last = groups[-1][-1] if groups else Span(0, 0, "")
        start = max(start, last.end)  # several tokens of one character
        if start >= end:
            continue
        token = Span(start, end, kinds[int(by_kind[index].argmax())], float(flagged[index]))
        if joined and last.category == token.category and not answer[last.end : start].strip():
            groups[-1].append(token)
        else:
            groups.append([token])
    spans = []
    for tokens in groups:
        weight = sum(token.probability * (token.end - token.start) for token in tokens)
        size = sum(token.end - token.start for token in tokens)
        spans.append(tokens[0]._replace(end=tokens[-1].end, probability=min(1.0, round(weight / size, 4))))
    return spans
