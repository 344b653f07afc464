"""For those who type `Consumer("orders", bootstrap_servers=...)`, as other clients have it: what to write here instead.

Rule: of what was given only topics and addresses are repeated; anything else may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def refuse_direct(
    first: type[object], client: str, method: str, given: Sequence[object], options: Mapping[str, object]
) -> None:
    """Raises `TypeError` unless the first thing given is what a client gives to what it makes."""
    if given and isinstance(given[0], first):
        return
    servers = options.get("bootstrap_servers", options.get("bootstrap.servers", "localhost:9092"))
    arguments = [repr(topic) for topic in given if isinstance(topic, str)]
    if len(options) > ("bootstrap_servers" in options):
        arguments.append("...")
    raise TypeError(
        f"a {method} is made by a client, which others may share: {client}({servers!r}).{method}({', '.join(arguments)})"
    )
