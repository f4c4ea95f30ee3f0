"""vLLM's protocol of ``/pooling`` and ``/v1/models``: requests, and what answers mean; no socket is opened here."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Garbage", "Served", "addresses", "logits_of", "message_of", "request_for", "seconds_of", "served_in"]


class Garbage(ValueError):
    """A body that is no answer of this protocol. The message says what is wrong with it."""


class Served(NamedTuple):
    """A model that a server has: the name by which it is asked for, where it was loaded from, and the tokens of an input,
    ``None`` where the server does not say."""

    name: str
    root: str
    longest: int | None


def addresses(option: Any) -> list[str]:
    """The servers' addresses: one, several in a list, or several with ``+`` or white space between them. What an OpenAI
    client would add (``/v1``, ``/pooling``) is taken off. ValueError where one of them is no http address.
    """
    said = [str(one) for one in option] if isinstance(option, (list, tuple)) else [str(option or "")]
    parts = [part.strip() for one in said for part in re.split(r"[\s+|]+(?=https?://)", one) if part.strip()]
    for part in parts:
        if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", part):
            raise ValueError(f"{part!r} is no address such as http://localhost:8000")
    return [re.sub(r"(/v1|/pooling)*/*$", "", part.rstrip("/")) for part in dict.fromkeys(parts)]


def request_for(model: str, ids: Sequence[int]) -> dict[str, Any]:
    """The body that asks for the logits of each token of one input, as numbers of four bytes."""
    return {
        "model": model,
        "task": "token_classify",
        "input": list(ids),
        "use_activation": False,
        "encoding_format": "base64",
        "embed_dtype": "float32",
        "endianness": "little",
    }


def logits_of(body: bytes, model: str, tokens: int, classes: int) -> NDArray[np.float32]:
    """The logits in an answer, one row a token; Garbage where the body does not hold those of so many tokens and classes,
    or is of another model."""
    content = _object(body)
    if content.get("model") not in (None, model):
        raise Garbage(f"it is of the model {str(content['model'])[:100]!r}")
    try:
        (item,) = content["data"]
        data = item["data"]
        found = (
            np.frombuffer(base64.b64decode(data, validate=True), "<f4")
            if isinstance(data, str)
            else np.array(data, np.float32).ravel()
        )
    except (KeyError, TypeError, ValueError, binascii.Error, OverflowError) as error:
        raise Garbage(f"it has no data of one input ({type(error).__name__})") from error
    if found.size != tokens * classes:
        raise Garbage(f"it has {found.size} numbers for {tokens} tokens of {classes} classes")
    if not np.isfinite(found).all():
        raise Garbage("not all of its numbers are finite")
    return found.reshape(tokens, classes)


def served_in(body: bytes) -> list[Served]:
    """The models in an answer of ``/v1/models``; Garbage where it is none."""
    content = _object(body)
    try:
        return [
            Served(
                str(model["id"]),
                str(model.get("root") or model["id"]),
                int(model["max_model_len"]) if model.get("max_model_len") else None,
            )
            for model in content["data"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Garbage(f"it lists no models ({type(error).__name__})") from error


def message_of(body: bytes) -> str:
    """What an error's body says, in one line of at most 300 characters."""
    try:
        content = _object(body)
        error = content.get("error", content)
        text = str(error.get("message") or error.get("detail") or error) if isinstance(error, dict) else str(error)
    except Garbage:
        text = body[:2000].decode("utf-8", "replace")
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())[:300]


def seconds_of(retry_after: str | None, now: float) -> float | None:
    """The seconds that a header ``Retry-After`` asks for (RFC 9110, 10.2.3: a whole number of them, or a date); 0 for a
    date that has passed, ``None`` where there is no header or it says neither. `now` is in seconds since 1970."""
    said = (retry_after or "").strip()
    if re.fullmatch(r"[0-9]{1,12}", said):
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - now)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _object(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Garbage(f"it is no JSON ({len(body)} bytes)") from error
    if not isinstance(content, dict):
        raise Garbage("it is no JSON object")
    return content
