"""A child process ends with its parent, also when nobody could tell it to."""

from __future__ import annotations

import os
import select
import subprocess
import sys

from oncelog_runtime.adapters.child import dying_with_parent

CHILD = "import time; print('up', flush=True); time.sleep(60)"
LOYAL = f"from oncelog_runtime.adapters.child import die_with_parent; die_with_parent(); {CHILD}"
PARENT = f"""
import subprocess, sys, time
from oncelog_runtime.adapters.child import dying_with_parent
subprocess.Popen(dying_with_parent([sys.executable, "-c", {CHILD!r}]))
time.sleep(60)
"""
PARENT_OF_LOYAL = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {LOYAL!r}])
time.sleep(60)
"""


def ends_with_its_parent(program: str) -> bool:
    """The pipe ends when the last process that could write to it is gone, which nobody but the kernel sees to."""
    ours, theirs = os.pipe()
    with open(ours, "rb", buffering=0) as said:
        with subprocess.Popen([sys.executable, "-c", program], stdout=theirs) as parent:
            os.close(theirs)
            try:
                assert said.readline() == b"up\n"
            finally:
                parent.kill()
        readable, _, _ = select.select([said], [], [], 20)
        return bool(readable) and said.read(1) == b""


def test_the_kernel_ends_a_child_when_its_parent_is_killed() -> None:
    assert ends_with_its_parent(PARENT)


def test_a_process_may_ask_that_for_itself() -> None:
    assert ends_with_its_parent(PARENT_OF_LOYAL)


def test_the_command_is_what_it_was_with_its_arguments_and_its_exit_code() -> None:
    command = dying_with_parent([sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "a b", "--c=d"])
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.stdout, done.returncode) == ("['a b', '--c=d']\n", 3)
