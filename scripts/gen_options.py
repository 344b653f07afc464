"""Write sdk/oncelog/option_types.py from the configuration classes of `oncelog.config`, or check that it is up to date.

    python -m scripts.gen_options [--check]

Rule: the classes are the only place of a name, a type and a default; type checkers see names and types through this file.
`--check` writes nothing and exits 1 when the file is not what would be written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from oncelog.config import CHANNEL_OPTIONS, ClientConfig, ConsumerConfig, ProducerConfig, WorkerConfig
from scripts.written import ROOT, write_or_check

FILE: Final = ROOT / "sdk" / "oncelog" / "option_types.py"

_HEAD: Final = '''"""What type checkers know of `**config`: a misspelt or ill-typed option is found before the program runs.

Written by scripts/gen_options.py from `oncelog.config`, where meanings, defaults and ranges stand; not to be edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypedDict

from oncelog.value_types import ReadKey, ReadValue, SentKey, SentValue

if TYPE_CHECKING:
    from oncelog.config import Partitioner, TokenProvider
    from oncelog.value_types import Deserializer, Serializer
'''
_NAMED_ITSELF: Final = ("bootstrap_servers", "client_id")
"""Parameters of `Client` with a name of their own."""
_OF_PRODUCERS_ALONE: Final = ("delivery", "transactional_id")
"""Options that a writer of a shared transaction does not take."""
_TYPES_OF: Final = {
    "key_serializer": "Serializer[SentKey] | None",
    "value_serializer": "Serializer[SentValue] | None",
    "key_deserializer": "Deserializer[ReadKey] | None",
    "value_deserializer": "Deserializer[ReadValue] | None",
}
"""Options that say what keys and values are: the types of producer or consumer follow from them."""


def page() -> str:
    """The file."""
    return "\n\n".join([_HEAD, *_classes()])


def _classes() -> Iterator[str]:
    yield _one(
        "ClientOptions", "TypedDict", "Of `Client`; see `oncelog.ClientConfig`.", _fields(ClientConfig, *_NAMED_ITSELF)
    )
    shared = {"client_id": "str"}
    yield _one(
        "ParticipantOptions",
        "ClientOptions, Generic[SentKey, SentValue]",
        "Of `Client.join_transaction`; see `oncelog.ProducerConfig`. Options of the client are for this one alone.",
        shared | _fields(ProducerConfig, *_OF_PRODUCERS_ALONE),
    )
    yield _one(
        "ProducerOptions",
        "ParticipantOptions[SentKey, SentValue]",
        "Of `Client.producer`; see `oncelog.ProducerConfig`.",
        {name: _fields(ProducerConfig)[name] for name in _OF_PRODUCERS_ALONE},
    )
    yield _whatever("WritingOptions", "ProducerOptions")
    yield _one(
        "ConsumerOptions",
        "ClientOptions, Generic[ReadKey, ReadValue]",
        "Of `Client.consumer`; see `oncelog.ConsumerConfig`. Options of the client are for this one alone.",
        shared | _fields(ConsumerConfig),
    )
    yield _whatever("ReadingOptions", "ConsumerOptions")
    of_client = {n: kind for n, kind in _fields(ClientConfig, *_NAMED_ITSELF).items() if n not in _fields(WorkerConfig)}
    yield _one(
        "WorkerOptions",
        "TypedDict, Generic[ReadKey, ReadValue]",
        "Of `Client.worker`; see `oncelog.WorkerConfig`. Options of the client are for this one alone.",
        shared | of_client | _fields(WorkerConfig),
    )
    given = {
        name: kind.removesuffix(" | None") for name, kind in _fields(WorkerConfig).items() if name in CHANNEL_OPTIONS
    }
    yield _one(
        "ChannelOptionsGiven",
        "TypedDict",
        "Of `create_channel` and `alter_channel`; see `oncelog.WorkerConfig`.",
        given,
    )


def _whatever(name: str, options: str) -> str:
    """An alias of options whose keys and values may be of any type."""
    return f'{name} = {options}[Any, Any]\n"""`{options}` with keys and values of any type."""\n'


def _fields(kind: type[Any], *without: str) -> dict[str, str]:
    return {item.name: _TYPES_OF.get(item.name, str(item.type)) for item in fields(kind) if item.name not in without}


def _one(name: str, base: str, text: str, types: dict[str, str]) -> str:
    lines = [f"class {name}({base}, total=False):", f'    """{text}"""', ""]
    return "\n".join([*lines, *(f"    {option}: {kind}" for option, kind in types.items()), ""])


def main(arguments: list[str] | None = None) -> int:
    """Writes the file, or says that it is not what it should be. Returns the exit code."""
    return write_or_check({FILE: page()}, "the option types of the SDK", "python -m scripts.gen_options", arguments)


if __name__ == "__main__":
    sys.exit(main())
