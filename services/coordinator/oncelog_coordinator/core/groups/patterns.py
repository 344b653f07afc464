"""Patterns of topic names: regular expressions that match in linear time, whatever was written (decision 0061).

A pattern is read as an automaton with one place per character of the pattern (Glushkov). A name is matched in one pass
that remembers the set of places in one integer, so there is nothing to go back to, and a pattern that would make a
backtracking engine run for years costs as much as any other of its length.

Rule 1: a pattern matches whole names: `^` at its beginning and `$` at its end may be there and say nothing.
Rule 2: supported are characters, `.`, `[a-z]`, `[^a-z]`, `(...)`, `(?:...)`, `|`, `*`, `+`, `?`, and a backslash before a
        character, `d` or `w`. Everything else, as `{2,3}` or `(?=...)`, is refused by name and never read as something
        else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from oncelog.errors import InvalidRegularExpressionError

CHARACTERS_MAX: Final = 256
_DEPTH_MAX: Final = 20
_STEPS_KEPT: Final = 10_000
_NAME_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
_ALL: Final = frozenset(_NAME_CHARACTERS)
_CLASSES: Final = {"d": frozenset("0123456789"), "w": _ALL - frozenset(".-")}
_SPECIAL: Final = frozenset("\\.[]{}()*+?|^$")


class _Part(NamedTuple):
    """A piece of the pattern: whether it may be empty, and the places where it begins and ends, as bits."""

    is_empty: bool
    first: int
    last: int


_NOTHING: Final = _Part(True, 0, 0)


@dataclass(slots=True)
class Pattern:
    """An automaton. Place 0 is the beginning; `follows[i]` are the places that may come after place i."""

    accepted: dict[str, int]
    """Character -> the places that take it."""
    follows: list[int]
    final: int
    _steps: dict[tuple[int, str], int] = field(default_factory=dict)

    def matches(self, name: str) -> bool:
        """True when the whole name matches."""
        places = 1
        for character in name:
            places = self._step(places, character)
            if not places:
                return False
        return bool(places & self.final)

    def _step(self, places: int, character: str) -> int:
        known = self._steps.get((places, character))
        if known is not None:
            return known
        if len(self._steps) >= _STEPS_KEPT:
            self._steps.clear()
        reached, rest = 0, places
        while rest:
            lowest = rest & -rest
            reached |= self.follows[lowest.bit_length() - 1]
            rest ^= lowest
        found = self._steps[places, character] = reached & self.accepted.get(character, 0)
        return found


@lru_cache(maxsize=1_000)
def parse_pattern(text: str) -> Pattern:
    """Returns the automaton. Raises `InvalidRegularExpressionError` that says what cannot be read, and where."""
    if not text or len(text) > CHARACTERS_MAX:
        raise InvalidRegularExpressionError(f"a pattern has 1 to {CHARACTERS_MAX} characters", characters=len(text))
    return _Parser(text).parse()


class _Parser:
    """Reads one pattern by recursive descent; the depth of parentheses is bounded."""

    def __init__(self, text: str) -> None:
        self._text = text
        begin = 1 if text.startswith("^") else 0
        end = len(text) - 1 if text.endswith("$") and not text.endswith("\\$") else len(text)
        self._at, self._end = begin, max(begin, end)
        self._depth = 0
        self._takes: list[frozenset[str]] = [frozenset()]
        self._follows: list[int] = [0]

    def parse(self) -> Pattern:
        """Reads all of it."""
        whole = self._alternatives()
        if self._at < self._end:
            raise self._refused("there is no parenthesis to close")
        self._follows[0] = whole.first
        accepted = {
            character: sum(1 << place for place, taken in enumerate(self._takes) if character in taken)
            for character in _NAME_CHARACTERS
        }
        return Pattern(accepted, self._follows, whole.last | (1 if whole.is_empty else 0))

    def _refused(self, why: str) -> InvalidRegularExpressionError:
        return InvalidRegularExpressionError(
            f"the pattern of topics cannot be read: {why}; supported are characters, `.`, `[a-z]`, `(a|b)`, `*`, `+`, `?` "
            "and a backslash before a special character",
            pattern=self._text,
            at=self._at,
        )

    def _peek(self) -> str:
        return self._text[self._at] if self._at < self._end else ""

    def _take(self) -> str:
        character = self._peek()
        self._at += 1
        return character

    def _alternatives(self) -> _Part:
        found = self._sequence()
        while self._peek() == "|":
            self._take()
            other = self._sequence()
            found = _Part(found.is_empty or other.is_empty, found.first | other.first, found.last | other.last)
        return found

    def _sequence(self) -> _Part:
        found = _NOTHING
        while self._peek() not in ("", "|", ")"):
            part = self._repeated(self._one())
            self._join(found.last, part.first)
            found = _Part(
                found.is_empty and part.is_empty,
                found.first | (part.first if found.is_empty else 0),
                part.last | (found.last if part.is_empty else 0),
            )
        return found

    def _repeated(self, part: _Part) -> _Part:
        if (sign := self._peek()) in ("*", "+", "?"):
            self._take()
            if sign != "?":
                self._join(part.last, part.first)
            part = part._replace(is_empty=part.is_empty or sign != "+")
        if self._peek() in ("*", "+", "?", "{"):
            raise self._refused("a piece has one of `*`, `+` and `?` behind it, and no counts")
        return part

    def _join(self, ends: int, begins: int) -> None:
        while ends:
            lowest = ends & -ends
            self._follows[lowest.bit_length() - 1] |= begins
            ends ^= lowest

    def _one(self) -> _Part:
        character = self._take()
        if character == "(":
            return self._inside()
        if character == "[":
            return self._place(self._class())
        if character == ".":
            return self._place(_ALL)
        if character == "\\":
            return self._place(self._escaped())
        if character in _SPECIAL:
            raise self._refused(f"`{character}` stands where a character is needed")
        return self._place(frozenset(character))

    def _inside(self) -> _Part:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._refused(f"there are more than {_DEPTH_MAX} parentheses inside of each other")
        if self._peek() == "?":
            self._take()
            if self._take() != ":":
                raise self._refused("of the groups with `(?` only `(?:...)` is supported")
        found = self._alternatives()
        if self._take() != ")":
            raise self._refused("a parenthesis is not closed")
        self._depth -= 1
        return found

    def _place(self, taken: frozenset[str]) -> _Part:
        self._takes.append(taken)
        self._follows.append(0)
        bit = 1 << (len(self._takes) - 1)
        return _Part(False, bit, bit)

    def _escaped(self) -> frozenset[str]:
        character = self._take()
        if character in _CLASSES:
            return _CLASSES[character]
        if not character or character.isalnum():
            raise self._refused(f"`\\{character}` is not supported")
        return frozenset(character)

    def _class(self) -> frozenset[str]:
        is_inverted = self._peek() == "^"
        if is_inverted:
            self._take()
        found: set[str] = set()
        while self._peek() != "]" or not found:
            found |= self._range()
        self._take()
        return _ALL - found if is_inverted else frozenset(found)

    def _range(self) -> frozenset[str]:
        if self._at >= self._end:
            raise self._refused("a `[` is not closed")
        low = self._take()
        if low == "\\":
            return self._escaped()
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return frozenset(low)
        self._take()
        high = self._take()
        if not high or high < low:
            raise self._refused(f"the range {low}-{high} has no characters")
        return frozenset(c for c in _NAME_CHARACTERS if low <= c <= high) | {low, high}
