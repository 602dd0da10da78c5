"""Blocks as slices."""

import tempfile

import byway

with tempfile.TemporaryDirectory() as folder:
    with byway.open(f"{folder}/blocks", create="1M") as device:
        nvm = device.nvm
        nvm[0] = b"first".ljust(nvm.lba_bytes, b".")
        nvm[8:16] = bytes(range(256)) * 16
        print(nvm[0][:8], nvm[9][:4], len(nvm))
        nvm.trim(8, 8)
        nvm.flush()
        assert nvm[8:16] == bytes(8 * nvm.lba_bytes)
