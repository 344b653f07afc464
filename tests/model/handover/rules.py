"""The rules of the hand-over, each of which can be taken out to see what it is good for.

Rules of this file: one boolean per rule, true as the project builds it; a field says what the rule demands and what a
careless build does instead.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Rules:
    """How careful the build is."""

    waits_for_release: bool = True
    """A partition is given to a member when no other one has it.  Else it is given as soon as it is in the target."""

    silence_releases_nothing: bool = True
    """What has to be let go is its owner's until it says that it did.  Else its next heartbeat counts as that."""

    keeps_what_stays: bool = True
    """What is owned and in the target stays assigned.  Else everything is taken back first, and given again."""

    only_own_epoch_moves: bool = True
    """Only a heartbeat in the member's own epoch moves it on.  Else a late copy of an older one does."""

    join_copy_says_nothing: bool = True
    """A copy of a join says nothing of what was let go.  Else it says that a member that begins reads nothing."""

    previous_epoch_counts: bool = True
    """The epoch before is the member's too, since the answer with the new one may be lost.  Else it is fenced."""

    id_is_used_once: bool = True
    """The id of an ended membership never joins again.  Else a late copy of its join brings it back."""

    def without(self, *names: str) -> Rules:
        """These rules with some taken out."""
        return replace(self, **dict.fromkeys(names, False))

    def off(self) -> tuple[str, ...]:
        """The names of the rules that are taken out."""
        return tuple(field.name for field in fields(self) if not getattr(self, field.name))


ALL_RULES = Rules()
