"""Keys and values: kv.py [URI]"""

import sys

import byway

with byway.open(sys.argv[1] if len(sys.argv) > 1 else "embedded-ram:64M?transfer=inline") as device:
    kv = device.kv
    kv.load(
        {
            b"0041": b"LATIN CAPITAL LETTER A",
            b"0042": b"LATIN CAPITAL LETTER B",
            b"00df": b"LATIN SMALL LETTER SHARP S",
        }
    )
    print("00df:", kv[b"00df"].decode())
    for key, value in kv.items(prefix=b"004"):
        print(" ", key.decode(), value.decode())
    del kv[b"0041"]
    try:
        kv[b"0041"]
    except byway.KeyNotFoundError as error:
        print(f"{error} (said by the {error.origin}, status {error.status:#x})")
