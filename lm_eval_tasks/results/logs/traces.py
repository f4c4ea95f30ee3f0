"""Traces: records of a run that share its name, of which some have passages and others the answer.

An answer has the passages of all retrievers below it, else below the same parent, since the last answer before it; where
none came since, those of that answer. A retriever within a retriever adds nothing.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_TRACES = 1000  # that are open at a time: the one that is silent longest is read when another begins
Line = tuple[int, dict[str, Any]]
"""The number of a record, and its values by role. ``left_out`` says why it is none."""


def joined(lines: Iterable[Line]) -> Iterator[Line]:
    """The records with an answer, each with the passages of its trace; records without a trace as they are."""
    traces = OrderedDict[str, list[Line]]()
    for line in lines:
        if "trace" not in line[1]:
            yield line
            continue
        name = str(line[1]["trace"])
        traces.setdefault(name, []).append(line)
        traces.move_to_end(name)
        if len(traces) > _TRACES:
            yield from _of_trace(traces.popitem(last=False)[1])
    yield from sorted((line for spans in traces.values() for line in _of_trace(spans)), key=lambda line: line[0])


def _of_trace(lines: list[Line]) -> list[Line]:
    spans = [values for _, values in lines]
    if all("time" in span for span in spans):
        spans.sort(key=lambda span: str(span["time"]))
    elif "answer" in spans[0] and _lends(spans[-1]):
        spans.reverse()  # the newest first
    parents = {_name(span): str(span["parent"]) for span in spans if "parent" in span}
    above = {id(span): _above(_name(span), parents) for span in spans}
    retrievers = {_name(span) for span in spans if _lends(span)}
    lending = {id(span) for span in spans if _lends(span) and retrievers.isdisjoint(above[id(span)])}

    def given_to(span: dict[str, Any], scope: str) -> list[dict[str, Any]]:
        """The retrievers below a scope (of the whole trace: an empty one) since the last answer there; below the answer
        itself all."""
        given, is_new, is_own = list[dict[str, Any]](), False, scope == _name(span)
        for each in spans:
            if each is span and not is_own:
                break
            if scope and scope not in above[id(each)]:
                continue
            if id(each) in lending:
                given, is_new = [each] if is_new else [*given, each], False
            elif "answer" in each and not is_own and _name(each) not in above[id(span)]:
                is_new = True
        return given

    for span in [span for span in spans if "answer" in span and "passages" not in span] if lending else ():
        given = next(filter(None, (given_to(span, scope) for scope in (_name(span), *above[id(span)], ""))), None)
        if given is None:
            span["left_out"] = "an answer before the passages of its trace"
            continue
        span["passages"] = [*{tuple(each.items()): each for one in given for each in one["passages"]}.values()]
        span.setdefault("question", given[-1].get("question", ""))
    seen: dict[str, list[dict[str, Any]]] = {}
    for span in (values for _, values in lines if "answer" in values and "left_out" not in values):
        same = seen.setdefault(json.dumps([span["answer"], span.get("passages")]), [])
        for earlier in same:  # two questions may be one, if one is within the other, as in a prompt
            asked, other = (str(each.get("question", "")) for each in (span, earlier))
            if asked in other or other in asked or _name(earlier) in above[id(span)]:
                span["left_out"] = "the same answer of a trace again"
        same.append(span)
    return [line for line in lines if not _lends(line[1])]


def _lends(span: Mapping[str, Any]) -> bool:
    return "passages" in span and "answer" not in span


def _name(span: Mapping[str, Any]) -> str:
    return str(span.get("span", id(span)))


def _above(name: str, parents: Mapping[str, str]) -> list[str]:
    """The names of the spans around one, the nearest first."""
    names = list[str]()
    while (name := parents.get(name, "")) and name not in names:
        names.append(name)
    return names
