"""Opens a device and prints what it is: info.py [URI]"""

import sys

import byway

try:
    device = byway.open(sys.argv[1] if len(sys.argv) > 1 else "embedded-ram:64M")
except byway.Error as error:
    sys.exit(f"{error}\n  refused by the {error.origin}, kind {error.kind}, status {error.status}")

with device:
    print(f"{device.identity.model}, by {device.backend}: {device.chosen.why}")
    for backend, why in device.chosen.passed_over:
        print(f"  not by {backend}: {why}")
    for space in device.namespaces:
        print(f"namespace {space.nsid}: {space.size_bytes} bytes", end="")
        if space.kind == "nvm":
            print(f", {space.blocks} blocks of {space.lba_bytes} bytes", end="")
        if space.kind == "kv":
            print(f", keys of up to {space.key_max_bytes} bytes", end="")
        print()
