"""A thousand writes and reads awaited in asyncio, 64 of them under way at a time: awaited.py [URI]"""

import asyncio
import sys

import byway


async def main(uri):
    with byway.open(uri) as device:
        async with device.async_queue(depth=64) as queue:
            lba_bytes = device.nvm.lba_bytes
            await asyncio.gather(*(queue.write(n, b"%8d" % n * (lba_bytes // 8)) for n in range(1000)))
            blocks = await asyncio.gather(*(queue.read(n) for n in range(1000)))
            assert all(block[:8] == b"%8d" % n for n, block in enumerate(blocks))
            print(len(blocks), "blocks")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "embedded-ram:64M"))
