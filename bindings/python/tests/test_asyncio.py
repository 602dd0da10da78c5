"""Commands that are awaited."""

import asyncio
import random

import pytest

import byway
from byway import Command


def run(awaitable):
    return asyncio.run(asyncio.wait_for(awaitable, 60))


def test_many_commands_are_awaited_at_once(blocks):
    data = random.Random(1).randbytes(200 * 512)

    async def main():
        async with blocks.async_queue(depth=32) as queue:
            parts = [data[n * 512 : n * 512 + 512] for n in range(200)]
            await asyncio.gather(*(queue.write(n, part) for n, part in enumerate(parts)))
            await queue.flush()
            read = await asyncio.gather(*(queue.read(n) for n in range(200)))
            assert b"".join(read) == data

    run(main())


def test_keys_and_values_are_awaited(ram):
    async def main():
        async with ram.async_queue() as queue:
            await asyncio.gather(*(queue.put(b"%d" % n, b"v" * n) for n in range(100)))
            got = await asyncio.gather(*(queue.get(b"%d" % n) for n in range(101)))
            assert got == [b"v" * n for n in range(100)] + [None]
            await queue.put(b"long", b"l" * 50_000)
            assert await queue.get(b"long") == b"l" * 50_000
            assert await queue.exists(b"7")
            await queue.delete(b"7")
            assert not await queue.exists(b"7")
            with pytest.raises(byway.KeyExistsError):
                await queue.put(b"8", b"", must_not_exist=True)

    run(main())


def test_blocks_are_trimmed_and_read_into_memory_of_the_programs(blocks):
    async def main():
        async with blocks.async_queue() as queue:
            await queue.write(0, b"w" * 2048)
            await queue.trim(1)
            await queue.write_zeroes(2)
            room = bytearray(2048)
            view = await queue.read(0, into=room)
            assert bytes(view) == room == b"w" * 512 + bytes(1024) + b"w" * 512

    run(main())


def test_a_failure_is_raised_where_it_is_awaited(blocks):
    async def main():
        async with blocks.async_queue() as queue:
            with pytest.raises(byway.OutOfRangeError):
                await queue.read(blocks.nvm.blocks)
            with pytest.raises(byway.InvalidArgumentError):
                await queue.write(0, b"short")
            done = await queue.execute_all([Command.read(0), Command.read(1)])
            assert [completion.ok for completion in done] == [True, True]
            with pytest.raises(byway.OutOfRangeError):
                await queue.execute_all([Command.read(0), Command.read(blocks.nvm.blocks)])
            assert await queue.read(0, 2) == bytes(1024)

    run(main())


def test_tasks_waiting_for_a_queue_slot_get_one(blocks):
    async def main():
        async with blocks.async_queue(depth=1) as queue:
            waiting = [asyncio.ensure_future(queue.read(n % 8)) for n in range(50)]
            await asyncio.sleep(0)
            for task in waiting[10:30]:
                task.cancel()
            done = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in done[10:30])
            assert all(result == bytes(512) for result in done[:10] + done[30:])

    run(main())


def test_a_task_that_is_cancelled_leaves_its_memory_until_the_device_is_done(blocks):
    async def main():
        async with blocks.async_queue() as queue:
            for _ in range(20):
                buffer = blocks.buffer(512)
                task = asyncio.ensure_future(queue.read(0, into=buffer))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert await queue.read(0) == bytes(512)
        assert not buffer.in_flight

    run(main())


def test_the_loop_goes_on_while_commands_are_under_way(blocks):
    async def main():
        turns = 0

        async def tick():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        async with blocks.async_queue() as queue:
            for n in range(20):
                await queue.read(n)
        ticking.cancel()
        assert turns >= 20

    run(main())


def test_closing_a_device_fails_the_waiting_tasks(ram):
    async def main():
        queue = ram.async_queue()
        await queue.read(0)
        ram.close()
        with pytest.raises(byway.ClosedError):
            await queue.read(0)
        await queue.aclose()

    run(main())


def test_a_queue_belongs_to_one_loop(ram):
    queue = ram.async_queue()
    run(queue.exists(b"key"))
    with pytest.raises(RuntimeError, match="belongs to the loop"):
        run(queue.exists(b"key"))


def test_asyncio_is_imported_on_first_use_only():
    import subprocess
    import sys

    asked = "import sys, byway; print('asyncio' in sys.modules); byway.AsyncQueue; print('asyncio' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "True"]
