"""Who reaches which port by the network policies of a rendering, as a plugin that enforces them would decide.

Rule 1: a pod that no policy selects for a direction is open in it; one that some select is open to what any of them allows.
Rule 2: both ends must allow it: what the source may connect to, and who may connect to the target.
Rule 3: blocks of addresses and selectors of namespaces match nothing here: every pod is in the release's own namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.chart import pods
from tests.chart.tools import Document

Labels = Mapping[str, str]
OUTSIDE: Labels = {"app": "a-pod-of-somebody-else"}


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of one rendering."""

    documents: list[Document]

    def labels(self, component: str) -> Labels:
        """Labels of the pods of a component, jobs among them."""
        for document in pods.of_kind(self.documents, *pods.WORKLOADS):
            found: dict[str, str] = pods.pod_template(document)["metadata"]["labels"]
            if found.get("app.kubernetes.io/component") == component:
                return found
        raise KeyError(component)

    def allow(self, source: Labels, target: Labels, port: int) -> bool:
        """A connection is let through at both ends."""
        return self._open("Egress", "egress", "to", source, target, port) and self._open(
            "Ingress", "ingress", "from", target, source, port
        )

    def may_leave(self, source: Labels, port: int) -> bool:
        """A connection to an address outside of the cluster is let out."""
        return self._open("Egress", "egress", "to", source, {}, port)

    def _open(self, kind: str, rules: str, peers: str, own: Labels, other: Labels, port: int) -> bool:
        selecting = [
            policy["spec"]
            for policy in pods.of_kind(self.documents, "NetworkPolicy")
            if kind in policy["spec"]["policyTypes"] and _fits(policy["spec"]["podSelector"], own)
        ]
        if not selecting:
            return True
        return any(_allows(rule, peers, other, port) for spec in selecting for rule in spec.get(rules) or ())


def _allows(rule: Mapping[str, Any], peers: str, other: Labels, port: int) -> bool:
    ports = rule.get("ports")
    if ports and not any(item.get("port") == port and item.get("protocol", "TCP") == "TCP" for item in ports):
        return False
    named = rule.get(peers)
    return not named or any("podSelector" in peer and _fits(peer["podSelector"], other) for peer in named)


def _fits(selector: Mapping[str, Any], labels: Labels) -> bool:
    wanted = selector.get("matchLabels", {})
    expressions = selector.get("matchExpressions", [])
    assert all(expression["operator"] == "In" for expression in expressions)
    return wanted.items() <= labels.items() and all(labels.get(e["key"]) in e["values"] for e in expressions)
