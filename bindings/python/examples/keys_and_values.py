"""Put, get, list and delete on an image."""

import tempfile

import byway

with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/disk.img"
    byway.create(path, "64M")
    with byway.open(f"embedded:{path}") as device:
        kv = device.kv
        kv[b"0041"] = b"LATIN CAPITAL LETTER A"
        kv.load((b"%04x" % letter, chr(letter).encode()) for letter in range(0x61, 0x7B))
        del kv[b"0061"]
        for key, value in kv.items(prefix=b"00"):
            print(key.decode(), value.decode())
        try:
            kv[b"0061"]
        except byway.KeyNotFoundError as error:
            print(f"{error} (said by the {error.origin}, status {error.status:#x})")
    with byway.open(f"embedded:{path}") as device:
        assert device.kv[b"0041"] == b"LATIN CAPITAL LETTER A"
