"""Find the patterns of phrase tables in a text.

All words of all patterns stand in one Aho-Corasick automaton, so a text is read once, whatever the number of
patterns. Patterns are then followed from their last word to the first: most words begin some pattern, few end one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unicodedata import category

from custom_metrics.folding import BEGINS, ENDS, boundaries, is_word
from custom_metrics.patterns import GAP, JOINED, SPACE, Pattern, Word

__all__ = ["Found", "Hits", "Matcher", "Place", "Script", "search", "sources"]

MOST = 200
"""Words that two neighbours may make together. A long word is found for nothing, and costs a microsecond to compile."""
LONGEST = 40  # characters that an open end of a word may have; so no text takes more than linear time
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


Found = tuple[Pattern, tuple[Place, ...], tuple["_Class", ...]]
"""A pattern, the places that it was found by, and the words that fit there."""


@dataclass(slots=True, eq=False)
class _Class:
    """The literals that fit at one place of a pattern: words of a part, or the product of two neighbours."""

    literals: set[str]
    open_left: bool
    open_right: bool
    """Whether a word of a text may go on beyond these ends of a literal; the same for all of a class."""
    words: dict[str, list[Word]] = field(default_factory=dict)
    factors: tuple[_Class, str, _Class] | None = None  # and what stands between them

    def sources(self, literal: str) -> Iterator[tuple[str, str]]:
        """The part and the item of each word that makes a literal."""
        if self.factors is None:
            for word in self.words[literal]:
                yield from word.sources
            return
        first, joint, second = self.factors
        for before in first.literals:
            behind = literal.removeprefix(before + joint)
            if literal == before + joint + behind and behind in second.literals:
                yield from first.sources(before)
                yield from second.sources(behind)


class _Edge(NamedTuple):
    """What leads from one node of the trie to the one before: a class, and how it stands to its neighbours."""

    words: _Class
    joint: str  # to the element before
    first: bool
    joined_behind: bool
    starts_clause: bool
    script: Script


@dataclass(slots=True, eq=False)
class _Node:
    """Where all patterns stand that end with the same elements."""

    begun: list[tuple[Pattern, tuple[_Class, ...]]] = field(default_factory=list)
    """Patterns that have no element before."""
    steps: dict[_Edge, _Node] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _State:
    """The nodes that one place of a text stands at, and what stands between it and the word before."""

    nodes: tuple[_Node, ...]
    joint: str
    least: int  # characters between the words
    most: int
    starts_clause: bool
    grows_left: bool  # the word that led here goes on to its beginning
    grows_right: bool
    kinds: tuple[str, ...]  # of patterns that are whole
    before: frozenset[str]  # literals that may stand before
    reach: int  # characters within which one of these ends


class _Plan(NamedTuple):
    """What follows from a word of a pattern. Laid out for the loop of :func:`search`."""

    kinds: tuple[str, ...]  # of patterns that it makes whole, whatever stands around it
    leads: bool  # some pattern has a word behind it
    conditional: tuple[_State, ...]  # those it makes whole only at the start of a clause, or with the rest of its word
    before: frozenset[str]  # the literals that may stand before it
    states: tuple[_State, ...]


@dataclass(slots=True, eq=False)
class _Entry:
    """What the automaton knows of a literal."""

    literal: str
    bound_left: bool  # every pattern wants a word to begin with it
    bound_right: bool  # or to end
    leads: bool = False  # some pattern has a word behind it
    plans: list[_Plan | tuple[()] | None] = field(default_factory=list)
    """What follows from it, by its borders: `None` where no pattern takes them, `()` until a text asks."""
    before: tuple[dict[_State, tuple[_State, ...]], ...] = ()
    """The states that it leads to before others, by its borders and the state behind it; filled when a text asks."""


_UNMADE: dict[tuple[bool, bool], tuple[tuple[()] | None, ...]] = {
    (bound_left, bound_right): tuple(
        None if (bound_left and not borders & BEGINS) or (bound_right and borders < ENDS) else ()
        for borders in range(4)
    )
    for bound_left in (False, True)
    for bound_right in (False, True)
}
"""Plans of a literal that no text has asked for, by what its patterns want of its borders."""

_Seen = tuple[int, int, _Entry, int]  # start, end, what it is, and its borders
_Found = tuple[int, int, str]  # a :class:`Place`; a bare tuple takes a third of the time


class Matcher:
    """A compiled set of patterns, for :func:`search`.

    States are made when a text first needs them, so compiling costs little more than listing the words.
    """

    __slots__ = ("_root", "_states", "automaton")

    def __init__(self, patterns: Iterable[tuple[Pattern, Script]]) -> None:
        """Compile patterns, each with the script of its table."""
        import ahocorasick

        self._root = _Node()
        self._states: dict[Any, _State] = {}
        entries: dict[str, _Entry] = {}
        entered: set[_Edge] = set()
        led: set[_Class] = set()
        classes = _Classes()
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
        """The states before a word, given the one behind it.

        Args:
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
        """What follows from a word at the end of a pattern; see :meth:`states_before` for the borders."""
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


class _Classes:
    """The classes of a matcher's patterns: one for the words of a part that have the same ends, one for each product."""

    def __init__(self) -> None:
        self._parts: dict[frozenset[Word], tuple[_Class, ...]] = {}
        self._products: dict[tuple[_Class, str, _Class], _Class] = {}

    def rows(self, pattern: Pattern) -> list[tuple[tuple[str, _Class], ...]]:
        """The joints and classes of a pattern, small products of neighbours without a gap written out.

        What a word with an open end goes on with is not known, so it stays apart from what it opens to.
        """
        rows: list[tuple[tuple[str, _Class], ...]] = [()]
        for joint, words in pattern.elements:
            rows = [self._grown(row, joint, part) for row in rows for part in self._part(words)]
        return rows

    def _grown(self, row: tuple[tuple[str, _Class], ...], joint: str, part: _Class) -> tuple[tuple[str, _Class], ...]:
        if not row or joint == GAP or part.open_left:
            return (*row, (joint, part))
        before, last = row[-1]
        if last.open_right or len(last.literals) * len(part.literals) > MOST:
            return (*row, (joint, part))
        return (*row[:-1], (before, self._product(last, joint, part)))

    def _part(self, words: frozenset[Word]) -> tuple[_Class, ...]:
        """The words of an element, by which of their ends are open."""
        found = self._parts.get(words)
        if found is None:
            classes: dict[tuple[bool, bool], _Class] = {}
            for word in words:
                ends = word.open_left, word.open_right
                if ends not in classes:
                    classes[ends] = _Class(set(), *ends)
                classes[ends].literals.add(word.literal)
                classes[ends].words.setdefault(word.literal, []).append(word)
            found = self._parts[words] = tuple(classes.values())
        return found

    def _product(self, first: _Class, joint: str, second: _Class) -> _Class:
        found = self._products.get((first, joint, second))
        if found is None:
            literals = {a + joint + b for a in first.literals for b in second.literals}
            found = _Class(literals, first.open_left, second.open_right, factors=(first, joint, second))
            self._products[first, joint, second] = found
        return found


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
    """Whether a word of the text may begin before a literal, and end behind it."""
    joined = edge.joint == JOINED and not edge.first
    return (
        edge.script.spaces and edge.words.open_left and not joined,
        edge.script.spaces and edge.words.open_right and not edge.joined_behind,
    )


def _bounds(literal: str, edge: _Edge) -> tuple[bool, bool]:
    """Whether a word of the text must begin and end where one of a class does. A mark at its end stands beside any word."""
    if not edge.script.spaces:
        return False, False
    joined = edge.joint == JOINED and not edge.first
    return (
        not edge.words.open_left and not joined and is_word(literal[0]),
        not edge.words.open_right and not edge.joined_behind and is_word(literal[-1]),
    )


def search(text: str, matcher: Matcher, trace: list[Found] | None = None) -> Hits:
    """The patterns in a folded text.

    Args:
        trace: filled with every pattern found and the words it was found by, for explanations.
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
    """A place with the rest of its word, where the pattern takes any beginning or ending."""
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
    """Find the patterns that end with a word, whose earlier words stand before it.

    Before a gap the nearest place of each word counts, so the work stays linear.

    Args:
        words: those that may begin a pattern, in order of their ends.
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
    """Whether a word stands where a state that begins at a place wants one."""
    for _, end, entry, borders in reversed(words):
        if end < edge - state.reach:
            break
        if (end == edge - state.least or borders < ENDS) and entry.literal in state.before:
            return True
    return False


def _whole(state: _State, found: tuple[_Found, ...]) -> Iterator[Found]:
    places = tuple(map(Place._make, found))
    return ((pattern, places, classes) for node in state.nodes for pattern, classes in node.begun)


def sources(found: Found) -> Iterator[tuple[str, str]]:
    """The part and the item of every word that a pattern was found by."""
    _, places, classes = found
    for place, words in zip(places, classes, strict=True):
        yield from words.sources(place.literal)


def _word_end(text: str, end: int) -> int:
    """Where a word ends that goes on at a place."""
    rest = _REST.match(text, end, end + LONGEST)
    return rest.end() if rest else end


def _word_start(text: str, start: int) -> int:
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
        if stop < end - LONGEST:  # those before end before, but for the rest of a word
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
