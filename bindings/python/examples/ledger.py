"""What one put of 32 bytes moves over the link, by each transfer method."""

import byway

with byway.open("embedded-ram:64M") as device:
    methods = device.capabilities.methods

for method in methods:
    with byway.open("embedded-ram:64M", transfer=method) as device:
        kv = device.kv
        before = device.ledger()
        kv[b"0041"] = b"x" * 32
        cost = device.ledger() - before
        print(f"{method:>14} {cost.payload_bytes:6} {cost.wire_bytes:6}")
