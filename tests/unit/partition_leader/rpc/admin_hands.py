"""What services for operators need of a controller, and calls by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oncelog.errors import NotControllerError
from oncelog.v1 import types_pb2
from oncelog_runtime.serving.once import Once
from oncelog_runtime.serving.signpost import Signpost
from tests.unit.partition_leader.cluster_place import Place

TERM = 5


def controller(place: Place, **parts: Any) -> Any:
    """One in its term, unless `is_controller` is cleared."""
    signpost = Signpost(place.view, client_listener=False)
    return SimpleNamespace(is_controller=True, term=TERM, signpost=signpost, **parts)


def once() -> Once:
    return Once(lambda: NotControllerError("another term"))


def named(nonce: str = "", term: int = TERM) -> types_pb2.CallIdentity:
    """The identity of a call."""
    return types_pb2.CallIdentity(nonce=nonce, term=term)
