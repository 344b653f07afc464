"""Has the long part of passes done by a helper process, and runs it there: both ends of the conversation.

    look (a job)        -> at (segment), at, ...      -> looked (bound)
    rewrite (a group)   -> at (segment), at, ...      -> written (segment)
    instead of either   -> unreadable (error), failed (error), full (memory) or broken (a bug)

Rule 1: a helper is started when there is work, and kept for the next pass; `rest` ends it.
Rule 2: a pass that ends early, for whatever reason, ends the helper, whose state is unknown then. So does silence. Nothing of
        the pass counts then but what was replaced before; the next one gets another helper.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import Final, NoReturn

from oncelog.core.malformed import JsonObject
from oncelog.errors import OncelogError, StorageError
from oncelog.v1 import errors_pb2
from oncelog.wire.wire_errors import from_detail, to_detail
from oncelog_partition_leader.log.compaction.pass_job import Beat, Job, UnreadableError, Written, decode, encode
from oncelog_partition_leader.log.compaction.pass_work import PassWork
from oncelog_runtime.ports import Channel, Disk, Helper, HelperGoneError, Helpers

_SILENCE_MAX_S: Final = 600.0
"""The longest step between two signs of life takes seconds, also on a busy machine, on which a helper waits for all others."""


class HelperBugError(Exception):
    """The helper met a bug; the text is its traceback."""


async def serve(disk: Disk, channel: Channel, name: str) -> None:
    """Runs in the helper until it is ended."""
    work = PassWork(disk, name)

    async def beat(at: int) -> None:
        await channel.send(encode({"is": "at", "at": at}))

    while True:
        values, blob = decode(await channel.receive())
        await channel.send(await _answer(work, values, blob, beat))


async def _answer(work: PassWork, values: JsonObject, blob: bytes, beat: Beat) -> bytes:
    try:
        if values.pop("do") == "look":
            return encode({"is": "looked", "bound": await work.look(Job.decode(values, blob), beat)})
        return (await work.rewrite(values["first"], values["end"], beat)).encode()
    except UnreadableError as error:
        return _failed("unreadable", error.cause)
    except OncelogError as error:
        return _failed("failed", error)
    except HelperGoneError:
        raise
    except MemoryError:
        return encode({"is": "full"})
    except Exception as error:
        return encode({"is": "broken", "text": "".join(traceback.format_exception(error))})


def _failed(kind: str, error: OncelogError) -> bytes:
    return encode({"is": kind}, to_detail(error).SerializeToString())


class HelperWorker:
    """Implements `PassWorker` with a helper process."""

    def __init__(self, helpers: Helpers, silence_max_s: float = _SILENCE_MAX_S) -> None:
        self._helpers = helpers
        self._silence_max_s = silence_max_s
        self._helper: Helper | None = None

    @property
    def is_up(self) -> bool:
        """True while there is a helper."""
        return self._helper is not None

    async def look(self, job: Job, beat: Beat) -> int:
        """See `PassWorker.look`."""
        values, _ = await self._ask(job.encode(), beat)
        return int(values["bound"])

    async def rewrite(self, first: int, end: int, beat: Beat) -> Written:
        """See `PassWorker.rewrite`."""
        values, index = await self._ask(encode({"do": "rewrite", "first": first, "end": end}), beat)
        return Written.decode(values, index)

    def rest(self) -> None:
        """Ends the helper, if there is one."""
        if self._helper is not None:
            self._helper.kill()
            self._helper = None

    async def _ask(self, message: bytes, beat: Beat) -> tuple[JsonObject, bytes]:
        try:
            if self._helper is None:
                self._helper = await self._helpers.start(serve)
            await self._say(self._helper, message)
            while True:
                values, blob = await self._hear(self._helper)
                if values["is"] != "at":
                    return values, blob
                await beat(values["at"])
        except UnreadableError:
            raise
        except BaseException:
            self.rest()
            raise

    async def _say(self, helper: Helper, message: bytes) -> None:
        """Sends a message, which a frozen helper does not take when it is larger than the buffers between us."""
        try:
            async with asyncio.timeout(self._silence_max_s):
                await helper.send(message)
        except TimeoutError:
            raise HelperGoneError(f"it took nothing for {self._silence_max_s:.0f} s") from None

    async def _hear(self, helper: Helper) -> tuple[JsonObject, bytes]:
        """Returns the next message. Raises what it says, when it says that something failed."""
        try:
            async with asyncio.timeout(self._silence_max_s):
                values, blob = decode(await helper.receive())
        except TimeoutError:
            raise HelperGoneError(f"it said nothing for {self._silence_max_s:.0f} s") from None
        if values["is"] in ("unreadable", "failed"):
            _raise(values["is"], from_detail(errors_pb2.ErrorDetail.FromString(blob)))
        if values["is"] == "full":
            raise HelperGoneError(
                "it has no memory left; a smaller compaction_keys_max or compaction_key_bytes_max needs less"
            )
        if values["is"] == "broken":
            raise HelperBugError(values["text"])
        return values, blob


def _raise(kind: str, error: OncelogError) -> NoReturn:
    if kind == "unreadable":
        raise UnreadableError(error)
    raise error if isinstance(error, StorageError) else HelperGoneError(str(error))
