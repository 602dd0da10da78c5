"""Scans, cursors, batches and deletions of ranges."""

import pytest

import byway


@pytest.fixture
def kv(ram):
    ram.kv.load({b"%03d" % n: b"value %d" % n for n in range(500)})
    return ram.kv


def test_scan_gives_the_pairs_of_a_range_in_either_order(kv):
    pairs = [(b"%03d" % n, b"value %d" % n) for n in range(500)]
    assert list(kv.scan()) == pairs
    assert list(kv.scan(b"12")) == pairs[120:130]
    assert list(kv.scan(start=b"100", end=b"200", reverse=True)) == pairs[100:200][::-1]
    assert list(kv.scan(start=b"490", limit=3)) == pairs[490:493]
    assert list(kv.scan(b"001", keys_only=True)) == [(b"001", b"")]
    assert list(kv.scan(b"001", value_bytes=3)) == [(b"001", b"val")]


def test_scan_of_a_prefix_and_a_bound_is_refused(kv):
    with pytest.raises(ValueError, match="prefix"):
        kv.scan(b"a", end=b"b")


def test_cursor_turns_round(kv):
    cursor = kv.cursor()
    assert cursor.key is None and cursor.seek(b"100") and cursor.key == b"100"
    assert cursor.next() and cursor.prev() and cursor.prev()
    assert (cursor.key, cursor.value) == (b"099", b"value 99")
    assert cursor.seek_last() and cursor.key == b"499"
    assert not cursor.next() and cursor.key is None
    assert cursor.prev() and cursor.key == b"499"


def test_range_is_deleted_and_no_more(kv):
    assert kv.delete_range(b"1") == 100
    assert kv.delete_range(start=b"400") == 100
    kv.delete_many([b"000", b"001", b"absent"])
    assert kv.count() == 298
    with pytest.raises(ValueError, match="name a prefix"):
        kv.delete_range()


def test_batch_is_all_or_nothing(kv):
    batch = byway.Batch()
    batch.put(b"000", b"new")
    batch.delete(b"001")
    assert len(batch) == 2
    kv.commit(batch)
    assert kv[b"000"] == b"new" and b"001" not in kv
    batch.put(b"long", bytes(16 << 20))
    with pytest.raises(byway.UnsupportedError, match="longer than"):
        kv.commit(batch)
    assert b"long" not in kv
