"""Images: checked, resized, copied, emptied."""

import pytest

import byway


@pytest.fixture
def image(tmp_path):
    """An image with a hundred keys."""
    path = tmp_path / "image"
    byway.create(path, "64M", namespaces=["kv", "nvm"])
    with byway.open(f"embedded:{path}") as device:
        device.kv.load((b"%d" % n, b"value") for n in range(100))
    return path


def test_a_sound_image_is_clean(image):
    checked = byway.check(image)
    assert checked.clean and checked.usable and not checked.loses
    assert (checked.namespaces, checked.keys, checked.findings) == (2, 100, [])
    assert byway.check(image, repair=True).clean


def test_damage_is_named_and_repaired(image):
    with open(image, "r+b") as file:
        superblock = file.read(64)
        file.seek(0)
        file.write(bytes(byte ^ 0xFF for byte in superblock))
    checked = byway.check(image)
    assert not checked.clean and checked.usable
    assert {finding.remedy for finding in checked.findings} == {"restore"}
    assert all(finding.structure and finding.what for finding in checked.findings)
    byway.check(image, repair=True)
    assert byway.check(image).clean


def test_an_image_is_given_another_size_and_keeps_what_it_holds(image):
    byway.resize(image, "128M", namespaces={2: "48M"})
    with byway.open(f"embedded:{image}") as device:
        assert device.kv[b"42"] == b"value" and device.kv.count() == 100
        assert device.nvm.blocks * device.nvm.lba_bytes == 48 << 20
    with pytest.raises(byway.Error):
        byway.resize(image, "1M")


def test_a_copy_is_made_while_the_image_is_in_use(image, tmp_path):
    copy = tmp_path / "copy"
    with byway.open(f"embedded:{image}") as device:
        device.kv[b"42"] = b"new"
        assert byway.snapshot(image, copy) >= 0
        device.kv[b"42"] = b"newer"
    with byway.open(f"embedded:{copy}") as device:
        assert device.kv[b"42"] == b"new"
    with pytest.raises(FileExistsError, match="exists already") as raised:
        byway.snapshot(image, copy)
    assert raised.value.filename == str(copy)


def test_a_sanitized_device_is_empty(image):
    with byway.open(f"embedded:{image}") as device:
        device.sanitize("overwrite", passes=2, pattern=0xA5A5A5A5)
        assert list(device.kv) == []
        for wrong in [("burn", 1), ("overwrite", 17), ("block_erase", 2)]:
            with pytest.raises(byway.InvalidArgumentError):
                device.sanitize(wrong[0], passes=wrong[1])


def test_the_keys_of_a_sound_index_are_all_listed(image):
    with byway.open(f"embedded:{image}") as device:
        assert device.kv.listable_keys() == (sorted(b"%d" % n for n in range(100)), [])


def test_a_missing_image_is_refused_by_every_call(tmp_path):
    for call in [byway.check, lambda path: byway.resize(path, "64M"), lambda path: byway.snapshot(path, "x")]:
        with pytest.raises(byway.Error, match="nothing"):
            call(tmp_path / "nothing")
