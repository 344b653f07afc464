"""The life of a service process: what keeps it from starting is one sentence, a signal drains it, a second one ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog import errors
from oncelog_runtime.config.settings import NodeConfig
from oncelog_runtime.process import process as module
from oncelog_runtime.process.process import _Process, _settle, run_service
from oncelog_runtime.sim import SimClock, SimLoop


class Ended(BaseException):
    """Stands in for the end of the process."""

    def __init__(self, code: int) -> None:
        self.code = code


@pytest.fixture(autouse=True)
def this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests stays as it is."""

    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr("os._exit", end)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _s: None)
    monkeypatch.setattr(module, "tune_malloc", lambda: None)


def process(**settings: Any) -> _Process[NodeConfig]:
    return _Process("toy", NodeConfig(**settings), lambda _config, _ports: pytest.fail("not built"), False)


def run(*argv: str) -> int:
    return run_service("toy", NodeConfig, lambda _config, _ports: pytest.fail("not built"), argv, {})


def test_what_is_loaded_is_not_collected_and_full_collections_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(gc, "collect", lambda: calls.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "get_threshold", lambda: (700, 10, 10))
    monkeypatch.setattr(gc, "set_threshold", lambda *counts: calls.append(counts))
    _settle()
    assert calls == ["collect", "freeze", (700, 10, 100)]


# ------------------------------------------------------------ the start


def test_help_is_an_answer_and_no_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    assert "ONCELOG_TOY_<NAME>" in capsys.readouterr().out


def test_a_wrong_setting_is_one_sentence_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--listen-prot=1") == 1
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith("oncelog toy: ")
    assert "did you mean --listen-port?" in said


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errors.ConfigError("port 1 is in use: choose another"), "port 1 is in use: choose another"),
        (errors.MetadataUnavailableError("no"), "etcd does not answer at a:1: start it, or correct --etcd-endpoints"),
        (
            errors.MetadataUnavailableError("set etcd_tls_ca_file", tls="perhaps"),
            "etcd cannot be used at a:1: set etcd",
        ),
        (KeyError("a bug"), "an unexpected failure, see the log line above"),
    ],
)
def test_what_hinders_the_start_is_one_sentence_that_says_what_to_do(
    error: Exception, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(_process: Any) -> int:
        raise error

    monkeypatch.setattr(_Process, "_run", fail)
    assert asyncio.run(process(etcd_endpoints=("a:1",)).run()) == 1
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith(f"oncelog toy: {says}")


def test_a_broken_invariant_ends_the_process_with_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_process: Any) -> int:
        raise AssertionError("two and two")

    monkeypatch.setattr(_Process, "_run", fail)
    with pytest.raises(Ended) as ended:
        asyncio.run(process().run())
    assert ended.value.code == 70
    assert "an invariant broke" in caplog.text


def test_a_task_that_nobody_waits_for_is_logged_and_ends_the_process_if_an_invariant_broke(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.new_event_loop()
    process()._on_loop_error(loop, {"message": "never retrieved", "exception": KeyError("a bug")})
    process()._on_loop_error(loop, {})
    assert [record.getMessage() for record in caplog.records] == ["never retrieved", "unhandled"]
    with pytest.raises(Ended) as ended:
        process()._on_loop_error(loop, {"exception": AssertionError("two and two")})
    assert ended.value.code == 70
    loop.close()


class Etcd:
    """Answers after so many questions."""

    def __init__(self, answers_after: int) -> None:
        self.questions, self._answers_after = 0, answers_after

    async def get(self, _key: str) -> None:
        self.questions += 1
        if self.questions <= self._answers_after:
            raise errors.MetadataUnavailableError("no answer")


@pytest.mark.parametrize(
    ("timeout_ms", "answers_after", "questions", "is_there"),
    [(0, 99, 0, True), (1_000, 0, 1, True), (1_000, 3, 4, True), (1_000, 99, 6, False)],
    ids=["it does not look", "at once", "later", "never"],
)
def test_etcd_must_answer_before_a_process_starts(
    timeout_ms: int, answers_after: int, questions: int, is_there: bool
) -> None:
    etcd = Etcd(answers_after)
    with SimLoop() as loop:  # type: ignore[abstract]
        ports: Any = SimpleNamespace(clock=SimClock(loop), metadata=etcd)
        asking = process(etcd_connect_timeout_ms=timeout_ms)._require_metadata(ports)
        if is_there:
            loop.run(asking)
        else:
            with pytest.raises(errors.MetadataUnavailableError):
                loop.run(asking)
    assert etcd.questions == questions


def test_a_process_that_waits_for_etcd_says_so_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    with SimLoop() as loop:  # type: ignore[abstract]
        ports: Any = SimpleNamespace(clock=SimClock(loop), metadata=Etcd(answers_after=60))
        loop.run(process(etcd_connect_timeout_ms=60_000)._require_metadata(ports))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, "after 5 and 10 of 12 seconds"
    assert all("etcd does not answer at" in line and "waits" in line for line in said)


# ------------------------------------------------------------ signals and the end


def test_a_signal_stops_the_waiting_for_etcd() -> None:
    with SimLoop() as loop:  # type: ignore[abstract]
        ports: Any = SimpleNamespace(clock=SimClock(loop), metadata=Etcd(99))
        waiting = process(etcd_connect_timeout_ms=60_000)
        loop.call_later(1, waiting._on_signal, signal.SIGTERM)
        loop.run(waiting._require_metadata(ports))
        assert loop.now_ms() < 2_000


def test_a_second_signal_ends_at_once_with_its_number() -> None:
    one = process()
    one._on_signal(signal.SIGTERM)
    with pytest.raises(Ended) as ended:
        one._on_signal(signal.SIGINT)
    assert ended.value.code == 128 + signal.SIGINT


def test_a_step_of_the_start_ends_or_is_given_up_with_the_signal() -> None:
    given_up: list[str] = []

    async def step(seconds: float, error: Exception | None = None) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            given_up.append("cancelled")
            raise
        if error is not None:
            raise error

    async def scenario(one: _Process[NodeConfig]) -> None:
        assert await one._unless_signalled(step(1))
        with pytest.raises(errors.ConfigError):
            await one._unless_signalled(step(1, errors.ConfigError("wrong")))
        assert given_up == []
        asyncio.get_running_loop().call_later(1, one._on_signal, signal.SIGTERM)
        assert not await one._unless_signalled(step(60))
        assert given_up == ["cancelled"]

    with SimLoop() as loop:  # type: ignore[abstract]
        loop.run(scenario(process()))


class Service:
    """Takes so long to stop, or fails at it."""

    def __init__(self, seconds: float, error: Exception | None = None) -> None:
        self._seconds, self._error = seconds, error

    async def start(self) -> None:
        """Nothing."""

    async def stop(self, grace_ms: int) -> None:
        assert grace_ms == 2_000
        await asyncio.sleep(self._seconds)
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(
    ("service", "took_ms", "says"),
    [
        (Service(1), 1_000, []),
        (Service(60), 7_000, ["the service did not stop in time"]),
        (Service(1, KeyError("a bug")), 1_000, ["the service failed to stop"]),
    ],
    ids=["in time", "for ever", "with a bug"],
)
def test_a_stop_ends_in_time_and_hides_no_error_of_the_start(
    service: Service, took_ms: int, says: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with SimLoop() as loop:  # type: ignore[abstract]
        loop.run(process(shutdown_grace_ms=2_000)._stop(service))
        assert loop.now_ms() == took_ms
    errors_told = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert errors_told == says
