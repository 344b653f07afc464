"""A gRPC channel does not survive a fork, and says so instead of hanging."""

from __future__ import annotations

import subprocess
import sys
import textwrap

_SCRIPT = textwrap.dedent(
    """
    import asyncio, gc, os, sys
    from oncelog.link.grpc_transport import GrpcTransport
    from oncelog.errors import ForkedClientError, NetworkError

    async def call(transport):
        try:
            await transport.call("127.0.0.1:1", "PartitionLeader.Ping", b"", b"", 1000)
        except NetworkError:
            return "called"
        except ForkedClientError:
            return "inherited refused"

    def in_child(work):
        pid = os.fork()
        if pid == 0:
            try:
                answer = work()
            except ForkedClientError:
                answer = "new refused"
            except BaseException as error:
                answer = repr(error)
            os.write(1, (answer + "\\n").encode())
            os._exit(0)
        os.waitpid(pid, 0)

    early = GrpcTransport()
    in_child(lambda: asyncio.run(call(GrpcTransport())))    # no channel was open: a new one works
    in_child(lambda: asyncio.run(call(early)))              # but an inherited one is the parent's

    async def main():
        channel = early.open_channel("127.0.0.1:1", 200)
        in_child(lambda: str(GrpcTransport()))              # a channel is open
        def grandchild():
            in_child(lambda: str(GrpcTransport()))
            return "child"
        in_child(grandchild)
        await channel.close()

    asyncio.run(main())
    gc.collect()
    in_child(lambda: asyncio.run(call(GrpcTransport())))    # the channel is gone again
    """
)


def test_a_forked_child_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=30, check=False, env={"PATH": ""}
    )
    assert done.stdout.splitlines() == [
        "called",
        "inherited refused",
        "new refused",
        "new refused",
        "child",
        "called",
    ], done.stderr
