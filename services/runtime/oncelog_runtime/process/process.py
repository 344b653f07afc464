"""Runs a service process: read the configuration, build, start, serve, drain, stop.

Rule 1: SIGTERM and SIGINT drain: readiness goes first, then running requests finish within `shutdown_grace_ms`. A
        second signal ends the process at once.
Rule 2: a process that cannot start writes one sentence to stderr that says what to do, and ends with exit code 1.
Rule 3: a bug is contained where it is caught: one request, one command, one log, one life of a shard (`bugs.py`). A
        broken invariant (`AssertionError`) that was not contained ends the process at once, with exit code 70: a
        process that is wrong about its own state must write nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, NoReturn, Protocol

from oncelog import errors
from oncelog.link.malloc import tune_malloc
from oncelog_runtime.config.settings import ConfigT, HelpRequested, load
from oncelog_runtime.metadata.cluster_keys import CLUSTER_KEY
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.observability import logs
from oncelog_runtime.process import data_dir

log = logging.getLogger(__name__)

_SWITCH_INTERVAL_S: Final = 0.0005
_FULL_COLLECTION_AFTER: Final = 100
"""Collections of the middle generation, each after some 7,000 objects more."""
_ETCD_RETRY_S: Final = 0.2
_ETCD_TELL_MS: Final = 5_000
"""It says so often that it waits."""
_STOP_MARGIN_S: Final = 5.0
_EXIT_FAILED: Final = 1
_EXIT_BROKEN_INVARIANT: Final = 70


class Service(Protocol):
    """The service that a process runs. Its constructor registers handlers with `ports.server`; it does no I/O."""

    async def start(self) -> None:
        """Begins to serve. Raises an `OncelogError` whose message says what to do."""
        ...

    async def stop(self, grace_ms: int) -> None:
        """Stops serving; running requests may take `grace_ms`. Called after a failed or cancelled `start` too."""
        ...


def run_service(
    component: str,
    config_class: type[ConfigT],
    build: Callable[[ConfigT, NodePorts], Service],
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    keeps_files: bool = False,
) -> int:
    """Runs one service until it is signalled to stop; returns the process's exit code.

    `component` names the process in logs and in `ONCELOG_<COMPONENT>_...`; `build(config, ports)` makes the service.
    `keeps_files`: it does nothing before it has locked the data directory.
    """
    tune_malloc()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its lines are no JSON, and we report the same errors
    try:
        config = load(
            component, config_class, sys.argv[1:] if argv is None else argv, os.environ if environ is None else environ
        )
    except HelpRequested as request:
        sys.stdout.write(f"{request}\n")
        return 0
    except errors.ConfigError as error:
        _complain(component, str(error))
        return _EXIT_FAILED
    logs.configure(config.log_level)
    log.info("starting", extra={"component": component, "pid": os.getpid(), "config": config.effective()})
    from oncelog_runtime.adapters.grpc_poller import import_grpc  # late: `--help` needs no server dependencies

    import_grpc()
    import uvloop

    exit_code: int = uvloop.run(_Process(component, config, build, keeps_files).run())
    return exit_code


def _settle() -> None:
    """Excludes the loaded modules from garbage collection, since they stay as long as the process, and makes full
    collections rare.

    With the modules of a broker each collection took some 20 ms, in which no request was served. Python collects all
    objects again and again while they become more: ten thousand calls that began within a second caused four full
    collections of up to 200 ms. Objects that do not live long are collected as before.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _FULL_COLLECTION_AFTER)


def _complain(component: str, sentence: str) -> None:
    sys.stderr.write(f"oncelog {component}: {sentence}\n")
    sys.stderr.flush()


class _Process(Generic[ConfigT]):
    """One run of one service."""

    def __init__(
        self, component: str, config: ConfigT, build: Callable[[ConfigT, NodePorts], Service], keeps_files: bool
    ) -> None:
        self._component = component
        self._keeps_files = keeps_files
        self._config = config
        self._build = build
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """Returns the exit code."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_loop_error)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            return await self._run()
        except errors.OncelogError as error:
            _complain(self._component, self._explain(error))
        except AssertionError as error:
            _die(error)
        except Exception:
            log.exception("the process failed")
            _complain(self._component, "an unexpected failure, see the log line above")
        return _EXIT_FAILED

    async def _run(self) -> int:
        from oncelog_runtime.adapters import system  # late: adapters import grpc and etcd3
        from oncelog_runtime.adapters.grpc.tls import load_tls

        tls = load_tls(self._config)
        ports = system.build_ports(self._config, self._component, tls)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(system.close_ports, ports)
            if self._keeps_files:  # before any port is taken: a process that still has the directory still has its
                # ports
                taking = data_dir.take(partial(system.lock_disk, ports), ports.clock, self._config.data_dir)
                if not await self._unless_signalled(taking):
                    return 0
            await self._serve_health(ports, stack)
            await self._serve_metrics(ports, stack)
            await self._require_metadata(ports)
            learning = asyncio.create_task(system.learn_cluster_id(ports))
            stack.push_async_callback(_cancel, learning)
            stack.push_async_callback(_cancel, asyncio.create_task(tls.watch()))
            service = self._build(self._config, ports)
            stack.push_async_callback(self._stop, service)
            _settle()
            if await self._unless_signalled(service.start()):
                ports.health.started()
                log.info("ready", extra={"component": self._component})
                await self._stopping.wait()
                log.info("draining", extra={"grace_ms": self._config.shutdown_grace_ms})
            ports.health.draining()
        log.info("stopped")
        return 0

    async def _require_metadata(self, ports: NodePorts) -> None:
        """Ends a process that cannot reach etcd at its start with an error: waiting silently would hide a wrong setting."""
        if self._config.etcd_connect_timeout_ms == 0:
            return
        began_ms = told_ms = ports.clock.monotonic_ms()
        while not self._stopping.is_set():
            try:
                await ports.metadata.get(CLUSTER_KEY)
                return
            except errors.MetadataUnavailableError as error:
                now_ms = ports.clock.monotonic_ms()
                if now_ms - began_ms >= self._config.etcd_connect_timeout_ms:
                    raise
                if now_ms - told_ms >= _ETCD_TELL_MS:
                    told_ms = now_ms
                    log.warning("%s; this process waits for it", self._explain(error))
            await asyncio.sleep(_ETCD_RETRY_S)

    async def _serve_health(self, ports: NodePorts, stack: contextlib.AsyncExitStack) -> None:
        if self._config.health_port == 0:
            return
        from oncelog_runtime.adapters.grpc.health_server import HealthServer

        server = HealthServer(ports.health, self._config.health_host, self._config.health_port)
        await server.start()
        stack.push_async_callback(server.stop)

    async def _serve_metrics(self, ports: NodePorts, stack: contextlib.AsyncExitStack) -> None:
        if self._config.metrics_port == 0:
            return
        from oncelog_runtime.adapters.metrics_server import MetricsServer

        server = MetricsServer(ports.metrics, self._config.metrics_host, self._config.metrics_port)
        await server.start()
        stack.push_async_callback(server.stop)

    async def _unless_signalled(self, step: Coroutine[object, None, None]) -> bool:
        """Runs a step of the start; returns False when a signal came before its end."""
        running = asyncio.create_task(step)
        signalled = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((running, signalled), return_when=asyncio.FIRST_COMPLETED)
        await _cancel(signalled)
        if running.done():
            running.result()
            return True
        await _cancel(running)
        return False

    async def _stop(self, service: Service) -> None:
        grace_ms = self._config.shutdown_grace_ms
        try:
            async with asyncio.timeout(grace_ms / 1000 + _STOP_MARGIN_S):
                await service.stop(grace_ms)
        except TimeoutError:
            log.error("the service did not stop in time", extra={"grace_ms": grace_ms})
        except Exception:  # it must not hide the error that ended the start
            log.exception("the service failed to stop")

    # ------------------------------------------------------------ signals and faults

    def _on_signal(self, number: int) -> None:
        if self._stopping.is_set():
            os._exit(128 + number)
        self._stopping.set()

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, AssertionError):
            _die(error)
        log.error(context.get("message", "unhandled"), exc_info=error)

    def _explain(self, error: errors.OncelogError) -> str:
        if isinstance(error, errors.MetadataUnavailableError):
            endpoints = ",".join(self._config.etcd_endpoints)
            if "tls" in error.context:
                return f"etcd cannot be used at {endpoints}: {error.message}"
            return f"etcd does not answer at {endpoints}: start it, or correct --etcd-endpoints"
        return str(error)


def _die(error: BaseException) -> NoReturn:
    log.critical("an invariant broke, the process ends", exc_info=error)
    for handler in logging.getLogger().handlers:
        handler.flush()
    os._exit(_EXIT_BROKEN_INVARIANT)


async def _cancel(task: asyncio.Task[object]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
