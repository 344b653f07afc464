"""`oncelog user`: a password is typed or read from a file, never a word of the command line."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from oncelog.core import scram
from oncelog.v1 import security_pb2 as pb
from oncelog_cli.main import build_parser
from tests.unit.cli.conftest import Oncelog
from tests.unit.sdk.client.fake_cluster import FakeCluster


@pytest.fixture(autouse=True)
def answers(cluster: FakeCluster) -> None:
    cluster.answers |= {"AlterUser": pb.AlterUserReply(), "DeleteUser": pb.DeleteUserReply(deleted=True)}


@pytest.fixture
def oncelog(oncelog_at_its_pace: Oncelog) -> Oncelog:
    """A password is worked on in a thread."""
    return oncelog_at_its_pace


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def is_set_to(cluster: FakeCluster, password: str) -> bool:
    user = cluster.requests("AlterUser")[-1].user
    return bool(scram.make_credential(password, user.salt).stored_key == user.stored_key)


@pytest.mark.parametrize("verb", ["add", "passwd"])
def test_no_flag_takes_a_password(verb: str) -> None:
    flags = build_parser().parse_args(["user", verb, "ann"])
    assert {name for name in vars(flags) if "password" in name} == {"new_password_file", "password_file"}


def test_the_first_line_of_a_file_is_the_password(cluster: FakeCluster, oncelog: Oncelog, tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("pencil \nnot this\n")
    said = oncelog("user", "add", "ann", "--new-password-file", str(file))
    assert (said.code, said.out) == (0, "ann added\n")
    assert cluster.requests("AlterUser")[0].must_not_exist
    assert is_set_to(cluster, "pencil ")


def test_standard_input_is_a_file_too(cluster: FakeCluster, oncelog: Oncelog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("pencil\n"))
    said = oncelog("user", "passwd", "ann", "--new-password-file", "-")
    assert said.out == "the password of ann was changed\n"
    assert cluster.requests("AlterUser")[0].must_exist
    assert is_set_to(cluster, "pencil")


@pytest.mark.parametrize(("second", "code"), [("pencil", 0), ("pincel", 2)])
def test_a_typed_password_is_typed_twice(
    cluster: FakeCluster, oncelog: Oncelog, monkeypatch: pytest.MonkeyPatch, second: str, code: int
) -> None:
    typed = iter(["pencil", second])
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda _prompt: next(typed))
    said = oncelog("user", "add", "ann")
    assert said.code == code
    assert ("the two passwords differ" in said.err) == (code == 2)
    assert cluster.count("AlterUser") == (code == 0)


@pytest.mark.parametrize("text", ["", "\npencil\n"])
def test_an_empty_password_is_refused(
    cluster: FakeCluster, oncelog: Oncelog, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    said = oncelog("user", "add", "ann", "--new-password-file", "-")
    assert (said.code, cluster.calls) == (2, [])
    assert "the password is empty" in said.err


def test_without_a_terminal_nobody_is_asked(
    cluster: FakeCluster, oncelog: Oncelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("pencil\n"))
    said = oncelog("user", "add", "ann")
    assert (said.code, cluster.calls) == (2, [])
    assert "use --new-password-file FILE" in said.err


def test_users_are_listed(cluster: FakeCluster, oncelog: Oncelog) -> None:
    cluster.answers["ListUsers"] = pb.ListUsersReply(users=[pb.ScramUser(name="ann", iterations=4_096)])
    assert oncelog("user", "list").table == [["USER", "ITERATIONS"], ["ann", "4096"]]


def test_removing_one_who_was_not_there_is_exit_code_1(cluster: FakeCluster, oncelog: Oncelog) -> None:
    cluster.answers["DeleteUser"] = lambda _, request: pb.DeleteUserReply(deleted=request.name == "ann")
    said = oncelog("user", "remove", "ann", "bob", "--yes")
    assert (said.code, said.table[1:]) == (1, [["ann", "yes"], ["bob", "no"]])
    assert oncelog("user", "remove", "ann", "--yes").code == 0
