"""A thousand reads awaited at once, 64 of them under way."""

import asyncio
import tempfile

import byway


async def main(path):
    with byway.open(path, create="1M") as device:
        async with device.async_queue(depth=64) as queue:
            await asyncio.gather(*(queue.write(n, b"%4d" % n * 128) for n in range(1000)))
            blocks = await asyncio.gather(*(queue.read(n) for n in range(1000)))
            assert all(bytes(block[:4]) == b"%4d" % n for n, block in enumerate(blocks))
            print(f"{len(blocks)} blocks")


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(f"{folder}/blocks"))
