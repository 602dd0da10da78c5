"""Opening, creating and describing devices."""

import importlib.metadata
import os
from pathlib import Path

import pytest

import byway


def test_options_become_those_of_the_uri(tmp_path):
    with byway.open(tmp_path / "a", create="1M", backend="io_uring", fixed_file=False, depth=7) as device:
        assert device.uri.endswith("a?create=1M&backend=io_uring&fixed-file=0&depth=7")
        assert device.queue().depth == 7


def test_options_are_added_to_those_that_the_uri_has():
    with byway.open("ram:64M?depth=3", transfer="inline") as device:
        assert device.uri == "ram:64M?depth=3&transfer=inline"


def test_a_relative_path_object_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with byway.open(Path("blocks"), create="1M") as device:
        assert device.nvm.blocks == 2048
    assert os.path.getsize("blocks") == 1 << 20


def test_a_device_names_its_backend_and_why_it_was_chosen(tmp_path):
    with byway.open(tmp_path / "a", create="1M") as device:
        assert device.backend == device.chosen.backend
        assert device.chosen.why
    with byway.open(tmp_path / "a", backend="psync") as device:
        assert device.chosen == device.chosen
        assert (device.backend, device.chosen.why) == ("psync", "it was asked for")


def test_a_device_has_an_identity_and_capabilities(ram):
    assert ram.identity.model == "Byway software SSD"
    assert ram.identity.byway
    assert "inline" in ram.capabilities.methods
    assert "flush" in ram.capabilities.nvm_commands
    assert ram.capabilities.limits.transfer_bytes == 16 << 20
    kv, nvm = ram.namespaces
    assert (kv.nsid, kv.kind, kv.lba_bytes, kv.key_max_bytes) == (1, "kv", None, 16)
    assert (nvm.nsid, nvm.kind, nvm.lba_bytes, nvm.blocks) == (2, "nvm", 512, 65536)
    assert len(nvm.nguid) == 16
    assert repr(nvm).startswith("Namespace(nsid=2, kind='nvm', size_bytes=33554432")


def test_devices_are_listed_without_opening_any():
    for found in byway.scan():
        assert found.uri.startswith("/dev/")
        assert found.kind in ("block", "partition", "generic", "controller", "pci function")


def test_an_image_is_made_and_keeps_what_was_acknowledged(tmp_path):
    image = tmp_path / "disk.img"
    byway.create(image, "64M", namespaces=["kv", byway.NewNamespace("nvm", "16M", lba_bytes=4096)])
    with byway.open(f"embedded:{image}") as device:
        assert [namespace.kind for namespace in device.namespaces] == ["kv", "nvm"]
        device.kv[b"0041"] = b"LATIN CAPITAL LETTER A"
        device.nvm[3] = b"3" * 4096
    with byway.open_to_read(f"embedded:{image}") as device:
        assert device.kv[b"0041"] == b"LATIN CAPITAL LETTER A"
        assert device.nvm[3] == b"3" * 4096


def test_an_image_that_cannot_be_made_leaves_nothing(tmp_path):
    with pytest.raises(byway.CapacityExceededError):
        byway.create(tmp_path / "a", 64 << 20, namespaces=[byway.NewNamespace("kv", "1G")])
    with pytest.raises(byway.InvalidArgumentError, match="expected kv or nvm"):
        byway.create(tmp_path / "a", "64M", namespaces=["zns"])
    with pytest.raises(byway.InvalidArgumentError, match="expected file, ram or null"):
        byway.create(tmp_path / "a", "64M", media="tape")
    assert list(tmp_path.iterdir()) == []


def test_an_open_image_is_not_opened_twice(tmp_path):
    byway.create(tmp_path / "a", "64M")
    with byway.open(f"embedded:{tmp_path / 'a'}"), pytest.raises(byway.BusyError):
        byway.open(f"embedded:{tmp_path / 'a'}")


def test_a_device_that_is_not_closed_is_closed_when_it_is_collected(tmp_path):
    byway.create(tmp_path / "a", "64M")
    device = byway.open(f"embedded:{tmp_path / 'a'}")
    kv = device.kv
    del device
    kv[b"key"] = b"value"  # What is used keeps its device open.
    del kv
    with byway.open(f"embedded:{tmp_path / 'a'}") as device:
        assert device.kv[b"key"] == b"value"


def test_the_ledger_counts_what_crossed_the_link():
    with byway.open("ram:64M", transfer="inline") as device:
        kv = device.kv
        before = device.ledger()
        kv[b"0041"] = b"x" * 32
        cost = device.ledger() - before
        assert cost.payload_bytes == 152  # The README's figure for 32 bytes inline.
        assert cost.wire_bytes == 336
        rows = cost.rows()
        assert rows["command_fetch"].count == 1
        assert sum(row.down_bytes + row.up_bytes for row in rows.values()) == 336
        device.set_ledger(False)
        before = device.ledger()
        device.kv[b"0042"] = b"x" * 32
        assert device.ledger() == before


def test_a_device_in_this_process_has_a_clock_and_engine_counters():
    with byway.open("ram:64M", clock="virtual") as device:
        before = device.now_ns()
        device.kv[b"0041"] = b"x"
        assert device.now_ns() > before
        assert device.kv_stats().keys == 1


def test_only_a_device_in_this_process_has_a_ledger(file):
    with pytest.raises(byway.UnsupportedError, match="in this process"):
        file.ledger()


def test_the_version_is_that_of_the_package():
    assert byway.__version__ == importlib.metadata.version("byway")


@pytest.mark.parametrize("size", ["64M", "64m", "64MB", "64mib", "0.0625G", 64 << 20])
def test_sizes_are_read_as_by_the_command(size, tmp_path):
    byway.create(tmp_path / "a", size, namespaces=["kv:32M", "nvm:16MiB", byway.NewNamespace("kv", "8m")])
    with byway.open(f"embedded:{tmp_path / 'a'}", cache="1.5M") as device:
        assert [namespace.size_bytes >> 20 for namespace in device.namespaces] == [32, 16, 8]


@pytest.mark.parametrize("size", ["", "64X", "1.5", "-64M", "64 M"])
def test_an_invalid_size_is_refused_as_by_the_command(size, tmp_path):
    for call in [
        lambda: byway.create(tmp_path / "a", size),
        lambda: byway.create(tmp_path / "a", "64M", namespaces=[f"kv:{size}"]),
        lambda: byway.NewNamespace("kv", size),
        lambda: byway.open(f"ram:{size}"),
        lambda: byway.open("ram:64M", cache=size),
    ]:
        with pytest.raises(byway.InvalidArgumentError, match="is no size|is no whole number of bytes"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_an_image_is_made_and_opened_by_one_rule(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    byway.create("embedded:z.img", "64M")
    byway.create("x?y.img", "64M")
    byway.create("embedded:x%3Fy=1.img", "64M")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x?y.img", "x?y=1.img", "z.img"]
    for uri in ["embedded:z.img", "embedded:x?y.img", "embedded:x%3Fy=1.img"]:
        with byway.open(uri, depth=7) as device:
            device.kv[b"key"] = b"value"
        assert byway.check(uri).keys == 1
    for wrong in ["ram:64M", "file:z2.img", "embedded:z2.img?depth=4", "x?y=2.img"]:
        with pytest.raises(byway.InvalidArgumentError):
            byway.create(wrong, "64M")


def test_a_path_with_any_characters_is_opened(tmp_path):
    for name in ["x?y", "x?y=1", "100%41", "a b"]:
        with byway.open(tmp_path / name, create="1M") as device:
            device.nvm[0] = bytes(512)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["100%41", "a b", "x?y", "x?y=1"]
