"""The delivery presets `at_most_once`, `at_least_once` and `exactly_once`: what each sets, and what contradicts it.

Rule 1: a preset sets the options that its promise rests on. An option that says otherwise is refused by name, never overruled.
Rule 2: options on which the promise does not rest stay the caller's.
Rule 3: without a preset nothing is set and nothing is refused.
docs/delivery.md has the promises, with a test for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from oncelog.errors import ConfigError

AT_MOST_ONCE: Final = "at_most_once"
AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE: Final = "exactly_once"
PRESETS: Final = (AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE)


@dataclass(frozen=True, slots=True)
class Preset:
    """One preset, and its demands on the options of a producer or of a consumer."""

    sets: Mapping[str, object]
    """Option -> the only value that agrees with the preset."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """Option that has to be given -> why, and what to give."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """Option that has to be left at its default, or out -> why, and what to do instead."""


_NO_TRANSACTIONS: Final = {
    "transactional_id": "it writes without transactions; leave transactional_id out, or take delivery='exactly_once'"
}
_GROUP: Final = {"group_id": "a group keeps the offsets that it commits; give the consumer a group_id"}
_NO_LOSS: Final = {"skip_lost_transactions": False}

OF_PRODUCERS: Final[Mapping[str, Preset]] = {
    AT_MOST_ONCE: Preset({"acks": 0, "enable_idempotence": False}, refuses=_NO_TRANSACTIONS),
    AT_LEAST_ONCE: Preset({"acks": "all"}, refuses=_NO_TRANSACTIONS),
    EXACTLY_ONCE: Preset(
        {"acks": "all", "enable_idempotence": True},
        needs={
            "transactional_id": "it writes in transactions; give a transactional_id that stays the same when this instance"
            " is started again"
        },
    ),
}
OF_CONSUMERS: Final[Mapping[str, Preset]] = {
    AT_MOST_ONCE: Preset({"enable_auto_commit": True}, needs=_GROUP),
    AT_LEAST_ONCE: Preset({"enable_auto_commit": True, **_NO_LOSS}, needs=_GROUP),
    EXACTLY_ONCE: Preset(
        {"enable_auto_commit": False, "isolation_level": "read_committed", **_NO_LOSS},
        needs={"group_id": "a transaction commits its offsets for a group; give the consumer a group_id"},
    ),
}


class HasDelivery(Protocol):
    """A configuration of a producer or of a consumer."""

    @property
    def delivery(self) -> str:
        """The name of the preset; empty: none."""
        ...


def completed(presets: Mapping[str, Preset], given: Mapping[str, object]) -> dict[str, object]:
    """The options with those that their preset sets, where they are not given."""
    preset = presets.get(str(given.get("delivery", "")))
    return dict(given) if preset is None else {**preset.sets, **given}


def check(presets: Mapping[str, Preset], config: HasDelivery) -> None:
    """Raises `ConfigError` that names the first option which contradicts the preset of this configuration."""
    if config.delivery == "":
        return
    if config.delivery not in presets:
        raise ConfigError(f"`delivery` is {config.delivery!r}, and must be one of {', '.join(PRESETS)}")
    preset = presets[config.delivery]
    for name, value in preset.sets.items():
        if not _is_same(getattr(config, name), value):
            raise _contradiction(config, name, f"means {name}={value!r}; leave {name} out, or choose another delivery")
    for name, why in preset.refuses.items():
        if getattr(config, name) is not None:
            raise _contradiction(config, name, f"refuses {name}: {why}")
    for name, why in preset.needs.items():
        if getattr(config, name) is None:
            raise _contradiction(config, name, f"needs a {name}: {why}")


def _contradiction(config: HasDelivery, name: str, text: str) -> ConfigError:
    return ConfigError(f"delivery={config.delivery!r} {text}", **{name: getattr(config, name)})


def _is_same(given: object, wanted: object) -> bool:
    """True also for another spelling: acks are numbers or text, and -1 is "all"."""
    return given == wanted or str(given).replace("-1", "all") == str(wanted)
