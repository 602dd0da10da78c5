"""Open a file as a device, and see which backend serves it and why."""

import tempfile
from pathlib import Path

import byway

with tempfile.TemporaryDirectory() as folder:
    with byway.open(Path(folder) / "blocks", create="1M") as device:
        print(f"{device.uri} by {device.backend}: {device.chosen.why}")
        for backend, why in device.chosen.passed_over:
            print(f"  not by {backend}: {why}")
        for namespace in device.namespaces:
            print(f"  namespace {namespace.nsid}: {namespace.blocks} blocks of {namespace.lba_bytes} bytes")

for found in byway.scan():
    print(found.uri, found.kind, found.size_bytes, found.model)
