"""A network of namespaces on one bridge, and how it is cut, slowed and made lossy.

Rule 1: a node has an address of its own for its whole life; a restarted process has the old one.
Rule 2: a cut is dropped packets, at the receiver: nobody is told, as when a cable is pulled. One way is one rule.
Rule 3: the harness itself has an address on the bridge, which no fault touches: what it asks says how the cluster is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from tests.blackbox.evidence import packets_dropped, packets_held
from tests.blackbox.host import BRIDGE, PREFIX, run

_NET: Final = "10.77.0"
_FIRST: Final = 10
_LOSS_CHAIN: Final = "olt-loss"
_CUT_CHAIN: Final = "olt-cut"


class Network:
    """`names`: every node. Without namespaces (`is_real` False) they have addresses of the loopback device; nothing is cut."""

    def __init__(self, names: Sequence[str], *, is_real: bool = True) -> None:
        self.is_real = is_real
        base = _NET if is_real else "127.77.0"
        self.addresses = {name: f"{base}.{_FIRST + number}" for number, name in enumerate(names)}
        self._rules: dict[tuple[str, str], list[str]] = {}
        """What stands in the chains of each node: only what changes is written, so a cut begins everywhere at once."""

    def make(self) -> None:
        """Makes bridge, namespaces and links."""
        if not self.is_real:
            return
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{_NET}.1/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for number, (name, address) in enumerate(self.addresses.items()):
            space, end = PREFIX + name, f"{PREFIX}{number}"
            run("ip", "netns", "add", space)
            run("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", space)
            run("ip", "link", "set", end, "master", BRIDGE, "up")
            run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")
            rules = f"*filter\n:{_CUT_CHAIN} -\n:{_LOSS_CHAIN} -\n-A INPUT -j {_CUT_CHAIN}\n-A INPUT -j {_LOSS_CHAIN}\nCOMMIT\n"
            self._inside(name, "iptables-restore", given=rules)

    def entering(self, name: str, command: Sequence[str]) -> list[str]:
        """The command, run where this node is."""
        if not self.is_real:
            return list(command)
        return ["/usr/bin/env", "nsenter", f"--net=/run/netns/{PREFIX}{name}", *command]

    # ------------------------------------------------------------ harm

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """What the first of a pair sends does not reach the second. Replaces the cuts before it."""
        deaf: dict[str, list[str]] = {name: [] for name in self.addresses}
        for sender, receiver in pairs:
            deaf[receiver].append(f"-A {_CUT_CHAIN} -s {self.addresses[sender]} -j DROP")
        for name, rules in deaf.items():
            self._replace(name, _CUT_CHAIN, rules)

    def lose(self, names: Iterable[str], share: float) -> None:
        """Of what arrives at these nodes so much is lost, by chance. Replaces the losses before it."""
        hit = set(names)
        rule = f"-A {_LOSS_CHAIN} -i eth0 -m statistic --mode random --probability {share:.3f} -j DROP"
        for name in self.addresses:
            self._replace(name, _LOSS_CHAIN, [rule] if name in hit else [])

    def slow(self, name: str, kilobits_per_s: int) -> None:
        """What this node sends leaves it so slowly, and waits in a queue of a second."""
        self._inside(
            name, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{kilobits_per_s}kbit",
            "burst", "16kb", "latency", "1000ms",
        )  # fmt: skip

    def quicken(self, name: str) -> None:
        """Ends `slow`."""
        self._inside(name, "tc", "qdisc", "del", "dev", "eth0", "root", check=False)

    # ------------------------------------------------------------ evidence

    def cut_packets(self) -> int:
        """What the present cuts have dropped."""
        return self._dropped(_CUT_CHAIN)

    def lost_packets(self) -> int:
        """What the present losses have dropped."""
        return self._dropped(_LOSS_CHAIN)

    def held_packets(self, name: str) -> int:
        """How often `slow` made a packet of this node wait."""
        return packets_held(self._inside(name, "tc", "-s", "qdisc", "show", "dev", "eth0"))

    def _dropped(self, chain: str) -> int:
        hit = [name for (name, where), rules in self._rules.items() if where == chain and rules]
        return sum(packets_dropped(self._inside(name, "iptables", "-L", chain, "-n", "-v", "-x")) for name in hit)

    # ------------------------------------------------------------ inside

    def _replace(self, name: str, chain: str, rules: Sequence[str]) -> None:
        if self._rules.get((name, chain), []) == list(rules):
            return
        self._rules[name, chain] = list(rules)
        text = "\n".join(["*filter", f":{chain} -", *rules, "COMMIT", ""])
        self._inside(name, "iptables-restore", "--noflush", given=text)

    def _inside(self, name: str, *words: str, given: str = "", check: bool = True) -> str:
        assert self.is_real, "a network of the loopback device is not cut"
        assert os.path.exists(f"/run/netns/{PREFIX}{name}"), f"{name} has no namespace"
        return run("nsenter", f"--net=/run/netns/{PREFIX}{name}", *words, given=given, check=check)
