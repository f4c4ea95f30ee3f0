"""Find the patterns of phrase tables in a text.

One Aho-Corasick automaton holds the words of all patterns, so a text is read once, whatever the number of patterns. Each
word that can end a pattern is then followed back to the pattern's first word: most words begin some pattern, few end one.

Terms: a *literal* is a string of the automaton; a *class* is the set of literals that fit at one place of a pattern
(`patterns.py`); the *borders* of a literal say whether a word of the text begins and ends with it; a *joint* is what
stands between two places: nothing, a space, or a gap. The patterns form a trie, last place first. A *state* is a set of
its nodes that a text has reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unicodedata import category

from custom_metrics.abstention.folding import BEGINS, ENDS, boundaries, is_word
from custom_metrics.abstention.patterns import GAP, JOINED, SPACE, Pattern, WordClass, WordClasses

__all__ = ["Found", "Hits", "Matcher", "Place", "Script", "search", "sources"]

LONGEST = 40  # characters that an open end of a word may have; this bounds the time for each word of a text
_CLAUSE_STARTS = frozenset(".,:;!?¿¡\"'([-،、。؛।\n")
_REST = re.compile(rf"[\w{''.join(c for c in map(chr, range(0x300, 0x1B00)) if category(c)[0] == 'M')}]*")
_KEPT = frozenset(("bare", "openers", "except"))  # an exception does not spare these

Hits = dict[str, list[tuple[int, int]]]
"""Kind of phrase to the (start, end) of those found, in order of their ends."""


class Script(NamedTuple):
    """How a table's language is written."""

    spaces: bool  # words stand between spaces
    gap: int  # characters that " ... " may stand for


class Place(NamedTuple):
    """Where a literal stands in a text."""

    start: int
    end: int
    literal: str


Found = tuple[Pattern, tuple[Place, ...], tuple[WordClass, ...]]
"""A pattern, the places of its literals in the text, and the class of each."""


class _Edge(NamedTuple):
    """A step of the trie: the class of a place, and how that place stands to its neighbours."""

    words: WordClass
    joint: str  # to the place before
    first: bool  # no place stands before
    joined_behind: bool  # the joint to the place behind is empty
    starts_clause: bool
    script: Script


@dataclass(slots=True, eq=False)
class _Node:
    """A node of the trie: all patterns that share their last places."""

    begun: list[tuple[Pattern, tuple[WordClass, ...]]] = field(default_factory=list)
    """Patterns that are whole here: they have no place before."""
    steps: dict[_Edge, _Node] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _State:
    """Nodes that a literal of a text leads to, all with the same joint to the place before."""

    nodes: tuple[_Node, ...]
    joint: str
    least: int  # fewest characters between the literal and the one before
    most: int
    starts_clause: bool  # the literal counts only at the start of a clause
    grows_left: bool  # the literal stands inside a word of the text, all of which counts, from its beginning
    grows_right: bool  # to its end
    kinds: tuple[str, ...]  # of the patterns that are whole
    before: frozenset[str]  # literals that may stand before
    reach: int  # most characters between the literal and the end of one before


class _Plan(NamedTuple):
    """What :func:`search` does with a literal that has certain borders."""

    kinds: tuple[str, ...]  # of the patterns that are this literal alone, wherever it stands
    leads: bool  # some pattern has a literal behind it
    conditional: tuple[_State, ...]  # as `kinds`, but only at the start of a clause, or with the rest of the word
    before: frozenset[str]  # literals that may stand before it
    states: tuple[_State, ...]  # of the patterns that end with it


@dataclass(slots=True, eq=False)
class _Entry:
    """A literal of the automaton."""

    literal: str
    bound_left: bool  # every pattern wants a word of the text to begin with it
    bound_right: bool  # or to end with it
    leads: bool = False  # some pattern has a literal behind it
    plans: list[_Plan | tuple[()] | None] = field(default_factory=list)
    """By borders: the plan, `()` until a text needs it, `None` where no pattern takes these borders."""
    before: tuple[dict[_State, tuple[_State, ...]], ...] = ()
    """By borders and the state behind it: the states that it leads to; filled when a text needs them."""


_UNMADE: dict[tuple[bool, bool], tuple[tuple[()] | None, ...]] = {
    (bound_left, bound_right): tuple(
        None if (bound_left and not borders & BEGINS) or (bound_right and borders < ENDS) else ()
        for borders in range(4)
    )
    for bound_left in (False, True)
    for bound_right in (False, True)
}
"""The plans of a literal before any text: by whether it is bound at the left and at the right, see :class:`_Entry`."""

_Seen = tuple[int, int, _Entry, int]  # start, end, what it is, and its borders
_Found = tuple[int, int, str]  # a :class:`Place`; a bare tuple takes a third of the time


class Matcher:
    """A compiled set of patterns, for :func:`search`.

    Plans and states are made when a text first needs them, so compiling costs little more than listing the literals.
    """

    __slots__ = ("_root", "_states", "automaton")

    def __init__(self, patterns: Iterable[tuple[Pattern, Script]]) -> None:
        """Compile patterns, each with the script of its table."""
        import ahocorasick

        self._root = _Node()
        self._states: dict[Any, _State] = {}
        entries: dict[str, _Entry] = {}
        entered: set[_Edge] = set()
        led: set[WordClass] = set()
        classes = WordClasses()
        for pattern, script in patterns:
            for row in classes.rows(pattern):
                node = self._root
                joined = False
                for place in range(len(row) - 1, -1, -1):
                    joint, words = row[place]
                    edge = _Edge(words, joint, not place, joined, pattern.starts_clause and not place, script)
                    joined = joint == JOINED
                    if edge not in entered:
                        entered.add(edge)
                        _enter(edge, entries)
                    if node is not self._root and words not in led:
                        led.add(words)
                        for literal in words.literals:
                            entries[literal].leads = True
                    after = node.steps.get(edge)
                    if after is None:
                        after = node.steps[edge] = _Node()
                    node = after
                node.begun.append((pattern, tuple(words for _, words in row)))
        self.automaton = ahocorasick.Automaton()
        for literal, entry in entries.items():
            entry.plans = [*_UNMADE[entry.bound_left, entry.bound_right]]
            self.automaton.add_word(literal, (len(literal), *boundaries(literal), entry.plans, entry))
        self.automaton.make_automaton()

    def states_before(self, state: _State | None, entry: _Entry, borders: int) -> tuple[_State, ...]:
        """The states that a literal leads to.

        Args:
            state: the one behind the literal; `None` at the end of a pattern.
            entry: the literal.
            borders: :data:`BEGINS` where a word of the text begins with it, plus :data:`ENDS` where one ends with it.
        """
        left, right = bool(borders & BEGINS), borders >= ENDS
        reached: dict[tuple[str, int, bool, bool, bool], dict[_Node, None]] = {}
        for node in state.nodes if state else (self._root,):
            for edge, after in node.steps.items():
                if entry.literal not in edge.words.literals:
                    continue
                bound_left, bound_right = _bounds(entry.literal, edge)
                if (left or not bound_left) and (right or not bound_right):
                    grows_left, grows_right = _grows(edge)
                    key = (
                        edge.joint,
                        edge.script.gap,
                        edge.starts_clause,
                        not left and grows_left,
                        not right and grows_right,
                    )
                    reached.setdefault(key, {})[after] = None
        states = tuple(self._state(key, tuple(nodes)) for key, nodes in reached.items())
        if state is not None:
            entry.before[borders][state] = states
        return states

    def plan(self, entry: _Entry, borders: int) -> _Plan:
        """The plan of a literal; see :meth:`states_before` for the borders."""
        states = self.states_before(None, entry, borders)
        if not entry.before:
            entry.before = ({}, {}, {}, {})
        conditional = tuple(s for s in states if s.kinds and (s.starts_clause or s.grows_left or s.grows_right))
        plan = _Plan(
            tuple(dict.fromkeys(kind for s in states if s not in conditional for kind in s.kinds)),
            entry.leads,
            conditional,
            frozenset().union(*(s.before for s in states)),
            states,
        )
        entry.plans[borders] = plan
        return plan

    def _state(self, key: tuple[str, int, bool, bool, bool], nodes: tuple[_Node, ...]) -> _State:
        state = self._states.get((key, nodes))
        if state is None:
            joint, gap, starts_clause, grows_left, grows_right = key
            least, most = (0, gap) if joint == GAP else (len(joint), len(joint))
            edges = [edge for node in nodes for edge in node.steps]
            state = self._states[key, nodes] = _State(
                nodes,
                joint,
                least,
                most,
                starts_clause,
                grows_left,
                grows_right,
                kinds=tuple(dict.fromkeys(pattern.kind for node in nodes for pattern, _ in node.begun)),
                before=frozenset().union(*(edge.words.literals for edge in edges)),
                reach=most + (LONGEST if any(_grows(edge)[1] for edge in edges) else 0),
            )
        return state


def _enter(edge: _Edge, entries: dict[str, _Entry]) -> None:
    """Add the literals of a class to those of the automaton."""
    for literal in edge.words.literals:
        left, right = _bounds(literal, edge)
        entry = entries.get(literal)
        if entry is None:
            entries[literal] = _Entry(literal, left, right)
        else:
            entry.bound_left &= left
            entry.bound_right &= right


def _grows(edge: _Edge) -> tuple[bool, bool]:
    """Whether a word of the text may begin before a literal of a class, and end behind it."""
    joined = edge.joint == JOINED and not edge.first
    return (
        edge.script.spaces and edge.words.open_left and not joined,
        edge.script.spaces and edge.words.open_right and not edge.joined_behind,
    )


def _bounds(literal: str, edge: _Edge) -> tuple[bool, bool]:
    """Whether a word of the text must begin and end with a literal of a class. A mark at its end stands beside any word."""
    if not edge.script.spaces:
        return False, False
    joined = edge.joint == JOINED and not edge.first
    return (
        not edge.words.open_left and not joined and is_word(literal[0]),
        not edge.words.open_right and not edge.joined_behind and is_word(literal[-1]),
    )


def search(text: str, matcher: Matcher, trace: list[Found] | None = None) -> Hits:
    """Find the patterns in a folded text.

    Args:
        text: folded as the patterns are, see :meth:`custom_metrics.abstention.phrases.Lexicon.fold`.
        matcher: the patterns.
        trace: filled with every pattern found and its literals, for explanations.

    Returns:
        The places of each kind of pattern.
    """
    hits: Hits = {}
    words: list[_Seen] = []
    literals: set[str] = set()
    padded = text + " "  # so that there is a character at both ends
    for last, (size, lefts, rights, plans, entry) in matcher.automaton.iter(text):
        borders = lefts[padded[last - size]] + rights[padded[last + 1]]
        plan = plans[borders]
        if plan is None:
            continue
        kinds, leads, conditional, before, states = plan or matcher.plan(entry, borders)
        end = last + 1
        start = end - size
        for kind in kinds:
            if kind in hits:
                hits[kind].append((start, end))
            else:
                hits[kind] = [(start, end)]
        for state in conditional:
            if not state.starts_clause or _at_clause_start(text, start, hits):
                begin, stop = _grown(text, start, end, state)
                for kind in state.kinds:  # of a turn that is the end of a word ("없지만"), the word itself may abstain
                    hits.setdefault(kind, []).append((start if kind == "but" else begin, stop))
        if trace is not None:
            for state in states:
                if not state.starts_clause or _at_clause_start(text, start, hits):
                    trace += _whole(state, ((*_grown(text, start, end, state), entry.literal),))
        if not before.isdisjoint(literals):
            for state in states:
                if not state.before.isdisjoint(literals):
                    _look_back(
                        text, (*_grown(text, start, end, state), entry.literal), state, words, matcher, hits, trace
                    )
        if leads:
            words.append((start, end, entry, borders))
            literals.add(entry.literal)
    if "except" in hits:
        _spare(hits)
    return hits


def _grown(text: str, start: int, end: int, state: _State) -> tuple[int, int]:
    """A place, with the rest of the word of the text where the pattern takes any beginning or ending."""
    return _word_start(text, start) if state.grows_left else start, _word_end(text, end) if state.grows_right else end


def _look_back(
    text: str,
    place: _Found,
    state: _State,
    words: list[_Seen],
    matcher: Matcher,
    hits: Hits,
    trace: list[Found] | None,
) -> None:
    """Find the patterns of several places that end with a literal, and add them to `hits` and `trace`.

    Before a gap, only the nearest place of each literal counts, so the time is linear in the text's length.

    Args:
        text: the folded text.
        place: of the literal.
        state: that it leads to.
        words: the literals before it that have one behind them in some pattern, in order of their ends.
        matcher, hits, trace: of :func:`search`.
    """
    last = place[1]
    found: set[str | tuple[str, int]] = set()
    seen: set[tuple[_State, int, str]] = set()
    todo: list[tuple[_State, tuple[_Found, ...]]] = [(state, (place,))]
    while todo:
        behind, places = todo.pop()
        edge = places[0][0]
        nearest, furthest = edge - behind.least, edge - behind.reach
        tried: set[str] = set()
        for start, end, entry, borders in reversed(words):
            if end < furthest:
                break
            literal = entry.literal
            if end > nearest or literal not in behind.before or literal in tried:
                continue
            states = entry.before[borders].get(behind)
            for before in matcher.states_before(behind, entry, borders) if states is None else states:
                begin = _word_start(text, start) if before.grows_left else start
                stop = _word_end(text, end) if before.grows_right else end
                if before.starts_clause and not _at_clause_start(text, start, hits):
                    continue
                if not before.kinds and before.joint != GAP and not _follows(words, begin, before):
                    continue  # a dead end, such as an ending that no stem stands before: a farther place may do
                if behind.joint == GAP:
                    tried.add(literal)
                if not behind.least <= edge - stop <= behind.most or (behind.joint == SPACE and text[stop] != " "):
                    continue
                path = ((begin, stop, literal), *places)
                if before.kinds:
                    for kind in before.kinds:
                        # one is enough, but where the whole sentence must be one
                        place_of = (kind, begin) if kind in _KEPT else kind
                        if place_of not in found:
                            found.add(place_of)
                            hits.setdefault(kind, []).append((begin, last))
                    if trace is not None:
                        trace += _whole(before, path)
                if before.before and (before, start, literal) not in seen:
                    seen.add((before, start, literal))
                    todo.append((before, path))


def _follows(words: list[_Seen], edge: int, state: _State) -> bool:
    """Whether a literal that the state takes ends where the state wants it, or stands inside a word that may end there.

    Args:
        words: of :func:`_look_back`.
        edge: where the state's own literal begins.
        state: one whose joint is no gap.
    """
    nearest = edge - state.least
    for _, end, entry, borders in reversed(words):
        if end < edge - state.reach:
            break
        if (end == nearest or (end < nearest and borders < ENDS)) and entry.literal in state.before:
            return True
    return False


def _whole(state: _State, found: tuple[_Found, ...]) -> Iterator[Found]:
    places = tuple(map(Place._make, found))
    return ((pattern, places, classes) for node in state.nodes for pattern, classes in node.begun)


def sources(found: Found) -> Iterator[tuple[str, str]]:
    """The part of the table, and the item in it, of every word that a pattern was found by."""
    _, places, classes = found
    for place, words in zip(places, classes, strict=True):
        yield from words.sources(place.literal)


def _word_end(text: str, end: int) -> int:
    """Where the word of the text ends that goes on at a place, at most :data:`LONGEST` characters behind it."""
    rest = _REST.match(text, end, end + LONGEST)
    return rest.end() if rest else end


def _word_start(text: str, start: int) -> int:
    """Where the word of the text begins that goes on at a place, at most :data:`LONGEST` characters before it."""
    for at in range(start, max(0, start - LONGEST), -1):
        if not is_word(text[at - 1]):
            return at
    return max(0, start - LONGEST)


def _at_clause_start(text: str, start: int, hits: Hits) -> bool:
    """Whether a clause starts there: behind a mark, or behind an opener."""
    end = start
    while end and text[end - 1] == " ":
        end -= 1
    if not end or text[end - 1] in _CLAUSE_STARTS:
        return True
    for _, stop in reversed(hits.get("openers", ())):
        if stop == end:
            return True
        if stop < end - LONGEST:  # earlier ones end earlier: only the rest of a word can put them out of order
            return False
    return False


def _spare(hits: Hits) -> None:
    """Drop what lies within an exception."""
    spared = hits["except"]
    for kind in list(hits):
        if kind not in _KEPT:
            kept = [hit for hit in hits[kind] if not any(a <= hit[0] and hit[1] <= b for a, b in spared)]
            if kept:
                hits[kind] = kept
            else:
                del hits[kind]
