"""Keys of the harness's request cache (``--cache_requests``) that depend on a task's documents and prompts.

The harness's own keys are the task's name, shots and chat template. With these alone it would reuse requests of other
options, another mirror or another version of the prompt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["told_apart"]


def told_apart(options: Mapping[str, Any], first: Iterable[Any], docs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The options of ``build_all_requests``, with a tokenizer's name that holds a digest of what is asked.

    The harness uses that name for the cache's key only.

    Args:
        options: of the run.
        first: the requests of the first document: template, shots, system prompt, generation settings.
        docs: all documents.
    """
    digest = hashlib.sha256(
        json.dumps([[request.arguments for request in first], options.get("samples")], default=str).encode()
    )
    for doc in docs:
        digest.update(json.dumps(doc, sort_keys=True, default=str).encode())
    return {**options, "tokenizer_name": f"{options.get('tokenizer_name', '')}-content{digest.hexdigest()[:32]}"}
