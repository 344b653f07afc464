"""What the harness does to the machine it runs on, and how all of it is undone.

Rule 1: everything that it makes has `PREFIX` in its name or lies in `ROOT`, so that `clean` finds it after any crash.
Rule 2: `clean` ends only processes that live in network namespaces of ours, or whose working folder is in `ROOT`.
Rule 3: one torture at a time on a machine: who holds the lock may make and clean, nobody else.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

PREFIX: Final = "olt-"
BRIDGE: Final = "olt-bridge"
ROOT: Final = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()) / "oncelog-torture"
"""In memory where that can be: the disks of a cluster on one machine would share its one disk."""
_LOCK: Final = Path(tempfile.gettempdir()) / "oncelog-torture.lock"
_TOOLS: Final = ("ip", "tc", "nsenter", "iptables", "losetup", "mkfs.ext4", "mount", "umount")
_FITHAW: Final = 0xC0045878
_COMMAND_S: Final = 30.0
_GONE_S: Final = 10.0


class HarnessError(Exception):
    """The harness itself cannot go on; the message says what to do."""


class Interrupted(Exception):
    """Somebody ended the run by a signal. No `HarnessError`: some of those are passed over while everything is healed."""


class NotHealthy(HarnessError):
    """Everything is healed, and the cluster is not in order after a long time: its fault, or the machine is too slow."""


class Healthy(NamedTuple):
    """Everything is in order again: after so many seconds, and what was the last that was not (empty: all was)."""

    seconds: float
    waited_for: str


def run(*words: str, given: str = "", check: bool = True) -> str:
    """Runs a command of the machine and returns what it prints. Raises `HarnessError`."""
    try:
        done = subprocess.run(
            words, input=given, capture_output=True, text=True, timeout=_COMMAND_S, check=False, start_new_session=True
        )
    except FileNotFoundError:
        raise HarnessError(f"there is no program {words[0]}: install it") from None
    except subprocess.TimeoutExpired:
        raise HarnessError(f"{' '.join(words)} did not end within {_COMMAND_S:.0f} s") from None
    if check and done.returncode != 0:
        raise HarnessError(f"{' '.join(words)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Raises `HarnessError` when another torture runs on this machine."""
    with open(_LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise HarnessError(f"another torture runs on this machine: it holds {_LOCK}; wait, or stop it") from None
        yield


def missing() -> list[str]:
    """What this machine lacks for a whole torture, one sentence each."""
    if os.geteuid() != 0:
        return ["this user is not root: network namespaces, mounts and packet filters need root"]
    tools = [tool for tool in _TOOLS if not shutil.which(tool)]
    if tools:
        return [f"these programs are missing: {', '.join(tools)} (packages iproute2, util-linux, iptables, e2fsprogs)"]
    return [*_tried("network namespaces", _try_namespace), *_tried("mounts of images by a loop device", _try_image)]


def _tried(what: str, attempt: Callable[[], None]) -> Iterator[str]:
    try:
        attempt()
    except HarnessError as error:
        yield f"{what} do not work here: {error}"


def _try_namespace() -> None:
    name = f"{PREFIX}probe"
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", f"{PREFIX}probe0", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("nsenter", f"--net=/run/netns/{name}", "iptables", "-A", "INPUT", "-s", "10.77.0.99", "-j", "DROP")
    finally:
        run("ip", "netns", "del", name)


def _try_image() -> None:
    folder = ROOT / "probe"
    folder.mkdir(parents=True, exist_ok=True)
    image = folder / "image"
    with open(image, "wb") as file:
        file.truncate(16 << 20)
    run("mkfs.ext4", "-q", "-F", str(image))
    (folder / "disk").mkdir()
    run("mount", "-o", "loop", str(image), str(folder / "disk"))
    run("umount", str(folder / "disk"))
    shutil.rmtree(folder)


# ---------------------------------------------------------------- undoing


def clean() -> list[str]:
    """Removes processes, namespaces, the bridge, mounts, loop devices and files of earlier tortures; says what there was."""
    done = [f"thawed {mount}" for mount in _mounts() if _thaw(mount)]
    pids = _processes()
    for pid in pids:
        _signal(pid, signal.SIGKILL)
        _signal(pid, signal.SIGCONT)
    deadline = time.monotonic() + _GONE_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    done += [f"killed process {pid}" for pid in pids]
    done += [f"removed namespace {name}" for name in _namespaces() if run("ip", "netns", "del", name) is not None]
    if os.path.exists(f"/sys/class/net/{BRIDGE}"):
        run("ip", "link", "del", BRIDGE)
        done.append(f"removed {BRIDGE}")
    for mount in _mounts():
        run("umount", mount)
        done.append(f"unmounted {mount}")
    for device in _loops():
        run("losetup", "-d", device)
        done.append(f"detached {device}")
    if ROOT.exists():
        shutil.rmtree(ROOT)
        done.append(f"removed {ROOT}")
    return done


def _namespaces() -> list[str]:
    folder = Path("/run/netns")
    return sorted(path.name for path in folder.glob(f"{PREFIX}*")) if folder.exists() else []


def _mounts() -> list[str]:
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return sorted((place for place in places if place.startswith(f"{ROOT}/")), reverse=True)


def _loops() -> list[str]:
    backings = Path("/sys/block").glob("loop*/loop/backing_file")
    return sorted(f"/dev/{path.parents[1].name}" for path in backings if path.read_text().startswith(f"{ROOT}/"))


def _processes() -> list[int]:
    """Whoever is in a namespace of ours, or has a working folder or a marked environment of ours."""
    pids = {int(pid) for name in _namespaces() for pid in run("ip", "netns", "pids", name).split()}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(entry / "cwd").startswith(f"{ROOT}/"):
                pids.add(int(entry.name))
    return sorted(pids - {os.getpid()})


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _thaw(mount: str) -> bool:
    """True: it was frozen."""
    with contextlib.suppress(OSError):
        folder = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, _FITHAW, 0)
        finally:
            os.close(folder)
        return True
    return False
