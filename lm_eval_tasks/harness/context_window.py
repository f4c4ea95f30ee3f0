"""The context window of a model, and the prompts of a run that its backend would cut.

The harness's backends keep room for the longest answer, and cut what is over from a prompt, with a line in the log at most:
its beginning, where the instruction stands. `local-completions` takes 2,048 tokens where nobody says more, and where the
longest answer is longer than the window, some prompts arrive empty. Here each backend is read as its code in 0.4.13 and
0.5.0.dev1 has it, from the model that was made (:func:`window_of`) or from its arguments (:func:`planned_window`).
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import shorten
from lm_eval_tasks.definition import ALLOW, CUT_PROMPTS

_ANSWER_BOUNDS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # the first one given counts
_NORMALISES = {"HFLM", "VLLM", "TRTLLM"}  # the others know the first of them only
_CUTS = {"TemplateLM", "MegatronLMEval", "NeMoLM"}
_CUTS_NOT = {"LocalChatCompletion", "_ONNXLMBase", "WindowsML"}  # messages go out whole; ONNX shortens the answer
_ARGUMENTS = {"VLLM": "max_model_len", "SGLangLM": "max_model_len", "MegatronLMEval": "seq_length"}
_ARGUMENTS |= {"TRTLLM": "max_input_len"}
_SIDES = {"left": "beginning", "right": "end", "middle": "middle"}
_UNKNOWN = 10**9  # tokenizers without a limit say 10**30
DEFAULT_ANSWER = 256  # tokens; the property of HFLM
_SPECIAL = 16  # tokens that a tokenizer may add to those of the text, of which each has a byte at least


class Window(NamedTuple):
    """What a backend keeps of a prompt."""

    size: int  # tokens of a prompt and its answer together; of the prompt alone where `bounds` is empty
    answer: int  # tokens of the longest answer, where a request names none
    bounds: tuple[str, ...] = _ANSWER_BOUNDS  # generation options that name it; the first one given counts
    argument: str = "max_length"  # the model argument that sets `size`
    spare: int = 0  # tokens by which that argument is larger than `size`
    longest_prompt: int | None = None  # tokens that the tokenizer keeps (``truncation=True``), where it cuts too
    side: str = "beginning"  # the end of a prompt that is cut

    def longest_answer(self, options: Mapping[str, Any]) -> int:
        """Tokens that a request with these generation options keeps free for its answer."""
        if not self.bounds:
            return 0
        return int(next((options[name] for name in self.bounds if options.get(name) is not None), self.answer))

    def room(self, options: Mapping[str, Any]) -> int:
        """Tokens that a prompt may have in such a request; 0 or less where nothing of any prompt is left."""
        of_server = options.get("truncate_prompt_tokens")  # of vLLM, and of servers of its kind
        limits = [self.longest_prompt, of_server if isinstance(of_server, int) and of_server > 0 else None]
        return min([self.size - self.longest_answer(options), *(limit for limit in limits if limit is not None)])


class Cut(NamedTuple):
    """How many prompts of a task are cut: `cut` of `of`; tokens of the longest one, of an answer, and of the window."""

    cut: int
    of: int
    longest: int
    max_gen_toks: int
    window: int


def window_of(model: Any) -> Window | None:
    """The window of a model of the harness; ``None`` for one that cuts no prompts, or of which nothing is known."""
    model = vars(model).get("lm", model)  # `--use_cache` wraps it
    return _window({kind.__name__ for kind in type(model).__mro__}, lambda name: getattr(model, name, None))


def planned_window(kind: type | None, given: Mapping[str, Any], settings: Any, tokenizer: Any) -> Window | None:
    """The window that a model will have, by its class (if None, it is known by its tokenizer alone), its arguments, as
    `given` or as the signatures of its class have them, and its configuration and tokenizer of Hugging Face, if on this
    machine."""
    kinds = [] if kind is None else [each for each in kind.__mro__ if "__init__" in vars(each)]

    def argument(name: str) -> Any:
        if given.get(name) is not None:
            return given[name]
        parameters = (inspect.signature(vars(each)["__init__"]).parameters for each in kinds)
        value = next((of[name].default for of in parameters if name in of), None)
        return None if value is inspect.Parameter.empty else value

    names = {each.__name__ for each in kind.__mro__} if kind else {"TemplateLM", "HFLM"}
    if "TemplateAPI" in names:
        has_tokens = argument("tokenizer_backend") not in (None, "None", "none") and argument("tokenized_requests")
        api = {"tokenized_requests": has_tokens, "max_length": int(argument("max_length")) - 1}
        return _window(names, {**api, "_max_gen_toks": argument("max_gen_toks")}.get)
    sizes = (argument(name) for name in ("max_length", "max_model_len", "context_length", "seq_length"))
    known = settings is not None or tokenizer is not None
    size = next((size for size in sizes if size), None) or (_longest(settings, tokenizer, kind) if known else None)
    is_pair = bool(getattr(settings, "is_encoder_decoder", False)) or given.get("backend") == "seq2seq"
    made = {"max_length": size, "tokenizer": tokenizer, "backend": "seq2seq" if is_pair else "causal"}
    made |= {name: argument(name) for name in ("truncation", "truncation_side", "max_input_len", "max_output_len")}
    return _window(names, {**made, "max_gen_toks": argument("max_gen_toks")}.get)


def _longest(settings: Any, tokenizer: Any, kind: type | None) -> int | None:
    """Tokens that a model of Hugging Face takes, as the harness looks them up."""
    settings = getattr(settings, "text_config", None) or settings
    sizes = [getattr(settings, name, None) for name in ("n_positions", "max_position_embeddings", "n_ctx")]
    sizes += [getattr(tokenizer, "model_max_length", None), getattr(kind, "_DEFAULT_MAX_LENGTH", None)]
    return next((size for size in sizes if isinstance(size, int) and 0 < size < _UNKNOWN), None)


def _window(kinds: set[str], of_model: Callable[[str], Any]) -> Window | None:
    """The window of a model whose class and bases have these names, by its attributes."""
    if not kinds & _CUTS or kinds & _CUTS_NOT:
        return None
    if "TemplateAPI" in kinds:  # a text is the server's to cut
        size, answer = of_model("max_length"), of_model("_max_gen_toks")
        return Window(int(size), int(answer), _ANSWER_BOUNDS[:1], spare=1) if of_model("tokenized_requests") else None
    size = of_model("max_length")
    if "TRTLLM" in kinds:
        size = (of_model("max_input_len") or 0) + (of_model("max_output_len") or 0)
    if not isinstance(size, int) or not 0 < size < _UNKNOWN:
        return None
    bounds = _ANSWER_BOUNDS if kinds & _NORMALISES else _ANSWER_BOUNDS[:1]
    longest = getattr(of_model("tokenizer"), "model_max_length", None) if of_model("truncation") is True else None
    longest = longest if isinstance(longest, int) and longest < _UNKNOWN else None
    return Window(
        size,
        int(of_model("max_gen_toks") or DEFAULT_ANSWER),
        () if of_model("backend") == "seq2seq" else bounds,
        next((_ARGUMENTS[name] for name in sorted(kinds & _ARGUMENTS.keys())), "max_length"),
        longest_prompt=longest,
        side=_SIDES[of_model("truncation_side") or "left"] if longest is None else _SIDES["right"],
    )


def length_of(model: Any) -> Callable[[Any], int]:
    """Counts the tokens of a prompt as a model's backend does; each text once."""
    model = vars(model).get("lm", model)
    known: dict[str, int] = {}

    def length(prompt: Any) -> int:
        key = prompt if isinstance(prompt, str) else json.dumps(prompt, default=str)
        if key not in known:  # a chat for a server's tokenizer is a list of turns
            known[key] = len(model.tok_encode(prompt) if isinstance(prompt, str) else model.tok_encode((prompt,))[0])
        return known[key]

    return length


_CHARACTERS_A_TOKEN = (("\x00-\x7f", 4.0), ("\x80-\u07ff", 3.0), ("\u0800-\u10ff", 2.0), ("\u1100-\U0010ffff", 1.05))
"""By script: ASCII; other Latin, Cyrillic, Arabic and their neighbours; Indic scripts and Thai; Chinese, Japanese, Korean.
Of NoMIRACL's passages in Mistral's Tekken (131,072 tokens): at most 20 % off, but for Finnish, Swahili and Yoruba, which
have 25, 32 and 50 % more tokens."""
_OF_SCRIPT = [(re.compile(f"[{span}]"), size) for span, size in _CHARACTERS_A_TOKEN]


def estimated_length(text: Any) -> int:
    """An estimate of a text's tokens by its scripts, where no tokenizer is at hand."""
    text = str(text)
    return round(sum((len(text) - len(script.sub("", text))) / size for script, size in _OF_SCRIPT))


def count_cut(window: Window | None, requests: Iterable[Any], length: Callable[[Any], int]) -> Cut | None:
    """Count the prompts that a window cuts among the requests of a task; ``None`` where it cuts none."""
    lengths, of, answer = [], 0, 0
    if window is None:
        return None
    for request in requests:
        if request.request_type != "generate_until":
            continue
        prompt, options = request.args[:2]
        of += 1
        room = window.room(options)
        if len(str(prompt).encode("utf-8", "replace")) + _SPECIAL > room and (tokens := length(prompt)) > room:
            lengths.append(tokens)
            answer = max(answer, window.longest_answer(options))
    return Cut(len(lengths), of, max(lengths), answer, window.size) if lengths else None


def refusal(cuts: Mapping[str, Cut], window: Window, estimated: bool = False) -> str:
    """What is wrong with a run whose prompts are cut, and what to set; by task."""
    cut, of = sum(each.cut for each in cuts.values()), sum(each.of for each in cuts.values())
    longest, answer = (max(each[place] for each in cuts.values()) for place in (2, 3))
    count = f"{cut} of {of} prompts would lose their {window.side}"
    if answer >= window.size:
        count = f"nothing of {cut} of {of} prompts would be left"
    longest_is = f"the longest has {longest} tokens{' by an estimate' if estimated else ''}"
    needed = f"{window.argument}={longest + answer + window.spare}"
    sizes = f"an answer up to {answer} (max_gen_toks), and the model takes {window.size} in all"
    if window.longest_prompt is not None:
        sizes += f", its tokenizer {window.longest_prompt} (truncation=True)"
    return (
        f"{shorten(list(cuts))}: {count}: {longest_is}, {sizes}. "
        f"Set --model_args {needed}, if the model reads as many, or a smaller --gen_kwargs max_gen_toks=N; with --metadata "
        f'\'{{"{CUT_PROMPTS}": "{ALLOW}"}}\' the run goes on, and every page doubts it'
    )


class PromptCheck:
    """Counts the prompts of a run that its model would cut, once the requests of all tasks are built."""

    def __init__(self, model: Any, tasks: Sequence[Any]) -> None:
        self.model = model
        self.tasks = {id(task): task for task in tasks}
        self.waiting = set(self.tasks)

    def built(self, task: Any) -> None:
        """The requests of a task are built. With the last one, tasks get their counts (``note_cut_prompts``); a
        UsageError where prompts are cut, and a task does not allow it."""
        self.waiting.discard(id(task))
        if self.waiting or (window := window_of(self.model)) is None:
            return
        length, tasks = length_of(self.model), [*self.tasks.values()]
        counts = self._of_all_processes([count_cut(window, each.instances, length) for each in tasks], tasks)
        cuts = [(each, cut) for each, cut in zip(tasks, counts, strict=True) if cut is not None and cut.cut]
        refused = {each.config.task: cut for each, cut in cuts if not each.may_cut_prompts}
        if refused:
            raise UsageError(refusal(refused, window))
        for each, cut in cuts:
            each.note_cut_prompts(cut)

    def _of_all_processes(self, counts: Sequence[Cut | None], tasks: Sequence[Any]) -> Sequence[Cut | None]:
        """The counts of all processes together: each has a part of the requests, and all end with the same error."""
        if (processes := getattr(self.model, "world_size", 1)) == 1:
            return counts
        import torch

        own = [cut or Cut(0, len(task.instances), 0, 0, 0) for cut, task in zip(counts, tasks, strict=True)]
        gathered = self.model.all_gather(torch.tensor(own, device=self.model.device).flatten())
        of_process = gathered.cpu().reshape(processes, len(tasks), len(Cut._fields))
        sums, most = of_process.sum(0).tolist(), of_process.max(0).values.tolist()
        return [Cut(*total[:2], *largest[2:]) for total, largest in zip(sums, most, strict=True)]
