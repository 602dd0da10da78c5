"""Commands that are awaited in an asyncio loop: `AsyncQueue`, which `Device.async_queue` opens."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._byway import Command, Completion, Queue
from ._errors import ClosedError, Error, KeyNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from ._types import ReadableBuffer, WriteableBuffer

__all__ = ["AsyncQueue"]

VALUE_BYTES = 4096
"""A value of up to this many bytes is read by one command."""

WAIT_SECONDS = 0.02
"""How long a thread waits at a time for a queue that has no descriptor."""


class AsyncQueue:
    """A queue of one asyncio loop. As many commands may be awaited at once as it is deep; further ones wait for a place.

    What is submitted in one turn of the loop begins together. A task that is cancelled asks for its command to be given up;
    the command's memory stays until the device is done with it.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._loop: asyncio.AbstractEventLoop | None = None
        self._descriptor: int | None = None
        self._awaited: dict[int, asyncio.Future[Completion]] = {}
        self._places: deque[asyncio.Future[None]] = deque()
        self._turn_is_due = False
        self._waiter: asyncio.Task[None] | None = None

    @property
    def queue(self) -> Queue:
        """The queue beneath."""
        return self._queue

    async def execute(self, command: Command, *, timeout: float | None = None) -> Completion:
        """Sends a command and waits for it; raises its error. With a `timeout`, in seconds, it is given up after that."""
        loop = self._enter_loop()
        await self._place(loop)
        try:
            tag = self._queue.submit(command, timeout=timeout)
        except BaseException:
            self._give_place()
            raise
        future: asyncio.Future[Completion] = loop.create_future()
        self._awaited[tag] = future
        self._take_turn_soon(loop)
        try:
            completion = await future
        except asyncio.CancelledError:
            self._give_up(tag)
            raise
        return completion.check()

    async def execute_all(self, commands: Iterable[Command]) -> list[Completion]:
        """Sends commands and waits for all of them, in their order; raises the first error, once all have finished."""
        results = await asyncio.gather(*map(self.execute, commands), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    async def read(
        self, slba: int, blocks: int = 1, into: WriteableBuffer | None = None, *, nsid: int | None = None
    ) -> memoryview:
        """Reads blocks; their bytes, in `into` or in a buffer of their own."""
        completion = await self.execute(Command.read(slba, blocks, into, nsid=nsid))
        data = completion.data
        assert data is not None, "a read has memory"
        return data

    async def write(self, slba: int, data: ReadableBuffer, *, nsid: int | None = None) -> None:
        """Writes blocks."""
        await self.execute(Command.write(slba, data, nsid=nsid))

    async def flush(self, *, nsid: int | None = None) -> None:
        """Makes completed writes durable."""
        await self.execute(Command.flush(nsid=nsid))

    async def trim(self, slba: int, blocks: int = 1, *, nsid: int | None = None) -> None:
        """Deallocates blocks that are no longer needed."""
        await self.execute(Command.trim(slba, blocks, nsid=nsid))

    async def write_zeroes(self, slba: int, blocks: int = 1, *, nsid: int | None = None) -> None:
        """Makes blocks read as zeroes."""
        await self.execute(Command.write_zeroes(slba, blocks, nsid=nsid))

    async def get(self, key: ReadableBuffer, *, nsid: int | None = None) -> bytes | None:
        """The value of a key, or None if there is no such key."""
        room = VALUE_BYTES
        while True:
            try:
                completion = await self.execute(Command.get(key, room, nsid=nsid))
            except KeyNotFoundError:
                return None
            if completion.result <= room:
                return bytes(completion.data or b"")
            room = completion.result

    async def put(
        self,
        key: ReadableBuffer,
        value: ReadableBuffer,
        *,
        must_exist: bool = False,
        must_not_exist: bool = False,
        nsid: int | None = None,
    ) -> None:
        """Stores a value."""
        command = Command.put(
            key, value, must_exist=must_exist, must_not_exist=must_not_exist, nsid=nsid
        )
        await self.execute(command)

    async def delete(self, key: ReadableBuffer, *, nsid: int | None = None) -> None:
        """Deletes a key."""
        await self.execute(Command.delete(key, nsid=nsid))

    async def exists(self, key: ReadableBuffer, *, nsid: int | None = None) -> bool:
        """Whether a key is there."""
        try:
            await self.execute(Command.exists(key, nsid=nsid))
        except KeyNotFoundError:
            return False
        return True

    async def aclose(self) -> None:
        """Ends the queue, once what is under way has finished."""
        pending = [future for future in self._awaited.values() if not future.done()]
        if pending:
            await asyncio.wait(pending)
        self._leave_loop()
        self._queue.close()

    async def __aenter__(self) -> AsyncQueue:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.aclose()

    def _enter_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return loop
        if self._loop is not None:
            raise RuntimeError("an AsyncQueue belongs to the loop that it was first used in")
        self._loop = loop
        try:
            self._descriptor = self._queue.fileno()
            loop.add_reader(self._descriptor, self._take_turn)
        except UnsupportedError:
            self._descriptor = None
        return loop

    def _leave_loop(self) -> None:
        if self._loop is not None and self._descriptor is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)
        if self._waiter is not None:
            self._waiter.cancel()
        self._descriptor = self._waiter = None

    async def _place(self, loop: asyncio.AbstractEventLoop) -> None:
        """Waits until the queue has room. Who waits longest comes first."""
        while len(self._awaited) >= self._queue.depth:
            place: asyncio.Future[None] = loop.create_future()
            self._places.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._give_place()
                raise

    def _give_up(self, tag: int) -> None:
        if tag in self._awaited:
            try:
                self._queue.cancel(tag)
            except Error:
                # It has finished meanwhile, or the backend cannot: it finishes by itself.
                pass

    def _take_turn_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Begins what was submitted, and wakes the tasks whose command has finished."""
        self._turn_is_due = False
        try:
            self._finish(self._queue.poll())
        except Error as error:
            return self._fail_all(error)
        if self._awaited and self._descriptor is None and self._waiter is None and self._loop is not None:
            self._waiter = self._loop.create_task(self._wait_in_a_thread())

    def _finish(self, completions: list[Completion]) -> None:
        for completion in completions:
            future = self._awaited.pop(completion.tag, None)
            if future is not None and not future.done():
                future.set_result(completion)
            self._give_place()

    def _give_place(self) -> None:
        while self._places:
            place = self._places.popleft()
            if not place.done():
                place.set_result(None)
                return

    def _fail_all(self, error: Error) -> None:
        """The queue itself has failed or was closed: every waiting task gets the error."""
        if isinstance(error, ClosedError):
            self._leave_loop()
        for future in self._awaited.values():
            if not future.done():
                future.set_exception(error)
        self._awaited.clear()
        while self._places:
            self._give_place()

    async def _wait_in_a_thread(self) -> None:
        """For a queue without a descriptor."""
        loop = asyncio.get_running_loop()
        try:
            while self._awaited:
                self._finish(await loop.run_in_executor(None, self._queue.wait, 1, WAIT_SECONDS))
        except Error as error:
            self._fail_all(error)
        finally:
            self._waiter = None
