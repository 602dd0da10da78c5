"""Keys and values as a mapping."""

import random
from collections.abc import ItemsView, KeysView, MutableMapping, ValuesView

import pytest

import byway


def test_a_value_is_put_got_and_deleted(ram):
    kv = ram.kv
    kv[b"0041"] = b"LATIN CAPITAL LETTER A"
    assert kv[b"0041"] == b"LATIN CAPITAL LETTER A"
    assert b"0041" in kv
    del kv[b"0041"]
    assert b"0041" not in kv
    assert kv.get(b"0041") is None
    assert kv.get(b"0041", b"nothing") == b"nothing"


def test_deleting_a_missing_key_raises_by_del_and_not_by_delete(ram):
    with pytest.raises(KeyError, match="missing"):
        del ram.kv[b"missing"]
    ram.kv.delete(b"missing")


@pytest.mark.parametrize("length", [0, 1, 127, 128, 4096, 4097, 100_000, 1_000_000])
def test_values_of_every_length_come_back_as_they_were(ram, length):
    value = random.Random(length).randbytes(length)
    ram.kv[b"key"] = value
    assert ram.kv[b"key"] == value


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_keys_and_values_are_any_bytes_like_object(ram, kind):
    ram.kv[kind(b"key")] = kind(b"value")
    assert ram.kv[kind(b"key")] == b"value"


@pytest.mark.parametrize("wrong", ["text", 7, None])
def test_objects_without_bytes_are_refused_as_keys_and_values(ram, wrong):
    with pytest.raises(TypeError, match="holds bytes"):
        ram.kv[wrong] = b"value"
    with pytest.raises(TypeError, match="holds bytes"):
        ram.kv[b"key"] = wrong
    with pytest.raises(TypeError):
        wrong in ram.kv


def test_a_key_has_1_to_16_bytes(ram):
    ram.kv[b"k" * 16] = b"value"
    for wrong, kind in [(b"", byway.InvalidArgumentError), (b"k" * 17, byway.TooLargeError)]:
        with pytest.raises(kind):
            ram.kv[wrong] = b"value"


def test_kv_is_a_mutable_mapping_with_every_method_of_one(ram):
    kv, model = ram.kv, {}
    assert isinstance(kv, MutableMapping)
    assert not kv and len(kv) == 0 and kv == {} and kv != 7
    for mapping in [kv, model]:
        mapping.update({b"b": b"2", b"a": b"1"})
        mapping.update([(b"c", b"3")])
        mapping.update()
    assert kv and len(kv) == 3 and kv == model and model == kv
    assert kv.pop(b"a") == model.pop(b"a")
    assert kv.pop(b"a", None) is None and kv.pop(b"a", 7) == 7
    for wrong in [kv, model]:
        with pytest.raises(KeyError):
            wrong.pop(b"a")
    assert kv.setdefault(b"b", b"other") == b"2" and kv.setdefault(b"d", b"4") == b"4"
    assert kv.popitem() == (b"b", b"2")
    assert list(kv.values()) == [b"3", b"4"]
    for mapping in [kv, model]:
        with pytest.raises(TypeError, match="unhashable"):
            hash(mapping)
    kv.clear()
    assert kv == {} and not kv
    with pytest.raises(KeyError):
        kv.popitem()


def test_update_takes_the_arguments_of_dict_update(ram):
    class Keyed:
        def keys(self):
            return [b"a", b"b"]

        def __getitem__(self, key):
            return key * 2

    ram.kv.update(Keyed())
    assert dict(ram.kv) == {b"a": b"aa", b"b": b"bb"}
    with pytest.raises(TypeError):
        ram.kv.update({"text": b"value"})


def test_views_are_sets_of_keys_and_pairs_that_follow_the_namespace(ram):
    kv = ram.kv
    keys, items, values = kv.keys(), kv.items(), kv.values()
    assert isinstance(keys, KeysView) and isinstance(items, ItemsView) and isinstance(values, ValuesView)
    kv.update({b"a": b"1", b"ab": b"2", b"c": b"3"})
    assert list(keys) == list(keys) == [b"a", b"ab", b"c"]
    assert (len(keys), len(items), len(values)) == (3, 3, 3)
    assert keys & {b"a", b"z"} == {b"a"} and keys - {b"a"} == {b"ab", b"c"} and keys == {b"a", b"ab", b"c"}
    assert b"a" in keys and b"z" not in keys and "a" not in keys and b"" not in keys and b"x" * 17 not in keys
    assert (b"a", b"1") in items and (b"a", b"2") not in items and b"2" in values
    assert list(kv.values(b"a")) == [b"1", b"2"] and len(kv.keys(b"a")) == 2 and len(kv.keys(start=b"ab")) == 2
    assert b"c" not in kv.keys(b"a") and b"a" not in kv.keys(start=b"b")


def test_a_view_is_an_iterator_too(ram):
    ram.kv.update({b"a": b"1", b"b": b"2"})
    keys, items = ram.kv.keys(), ram.kv.items()
    assert next(keys) == b"a" and list(keys) == [b"b"]
    assert next(items) == (b"a", b"1") and next(items) == (b"b", b"2")
    with pytest.raises(StopIteration):
        next(items)


def test_a_condition_of_a_put_that_does_not_hold_is_reported(ram):
    with pytest.raises(byway.KeyNotFoundError):
        ram.kv.put(b"key", b"value", must_exist=True)
    ram.kv.put(b"key", b"value", must_not_exist=True)
    with pytest.raises(byway.KeyExistsError):
        ram.kv.put(b"key", b"other", must_not_exist=True)
    ram.kv.put(b"key", b"other", must_exist=True)
    assert ram.kv[b"key"] == b"other"


def test_keys_come_in_order_and_by_prefix_and_from_a_key_on(ram):
    keys = [b"b", b"a", b"ab", b"aa", b"c" * 16, b"\x00", b"\xff"]
    for key in keys:
        ram.kv[key] = key
    assert list(ram.kv) == sorted(keys)
    assert list(ram.kv.keys()) == sorted(keys)
    assert list(ram.kv.keys(b"a")) == [b"a", b"aa", b"ab"]
    assert list(ram.kv.keys(start=b"b")) == [b"b", b"c" * 16, b"\xff"]
    assert list(ram.kv.keys(b"a", b"aaa")) == [b"ab"]
    assert list(ram.kv.items(b"a")) == [(b"a", b"a"), (b"aa", b"aa"), (b"ab", b"ab")]
    assert list(ram.kv.keys(b"z")) == []


def test_many_pairs_are_loaded_together_and_iterated_over_pages(ram):
    pairs = {b"%06d" % n: b"value %d" % n for n in range(10_000)}
    assert ram.kv.load(pairs) == 10_000
    assert ram.kv.load((key, value) for key, value in [(b"last", b"one")]) == 1
    assert ram.kv.load([]) == 0
    pairs[b"last"] = b"one"
    assert list(ram.kv) == list(pairs)
    assert dict(ram.kv.items()) == pairs


def test_a_load_goes_by_every_method(ram):
    for method in ram.capabilities.methods:
        with byway.open("ram:64M", transfer=method) as device:
            assert device.kv.load((b"%04d" % n, b"x" * 100) for n in range(2000)) == 2000


def test_a_load_that_fails_says_so(ram):
    with pytest.raises(TypeError):
        ram.kv.load([(b"key", "text")])
    with pytest.raises(byway.InvalidArgumentError):
        ram.kv.load([(b"", b"value")])
    with pytest.raises((TypeError, ValueError)):
        ram.kv.load([b"key"])


def test_pairs_may_change_while_they_are_iterated_over(ram):
    ram.kv.load((b"%04d" % n, b"x") for n in range(1000))
    for key in ram.kv:
        del ram.kv[key]
    assert list(ram.kv) == []


def test_a_load_may_read_from_where_it_stores(ram):
    ram.kv.load((b"a%03d" % n, b"%d" % n) for n in range(500))
    assert ram.kv.load((b"b" + key[1:], value) for key, value in ram.kv.items(b"a")) == 500
    assert ram.kv[b"b499"] == b"499"


def test_many_values_are_read_by_one_call(ram):
    ram.kv.load((b"%d" % n, b"value %d" % n) for n in range(100))
    ram.kv[b"long"] = b"l" * 10_000
    got = ram.kv.get_many([b"7", b"missing", b"long", b"99"])
    assert got == [b"value 7", None, b"l" * 10_000, b"value 99"]


def test_a_value_is_read_into_memory_of_the_programs(ram):
    ram.kv[b"key"] = b"a long value"
    room = bytearray(6)
    assert ram.kv.get_into(b"key", room) == 12
    assert room == b"a long"
    assert ram.kv.get_into(b"missing", room) is None
    assert ram.kv.get_into(b"key", memoryview(room)[3:]) == 12
    assert room == b"a la l"
    with pytest.raises(byway.InvalidArgumentError, match="cannot be read into"):
        ram.kv.get_into(b"key", b"constant")


def test_another_namespace_is_opened_by_its_number(tmp_path):
    byway.create(tmp_path / "a", "128M", namespaces=["kv", "kv"])
    with byway.open(f"embedded:{tmp_path / 'a'}", ns=2) as device:
        device.kv[b"key"] = b"two"
        one = device.open_kv(1)
        one[b"key"] = b"one"
        assert (device.kv.nsid, device.kv[b"key"]) == (2, b"two")
        assert (one.nsid, one[b"key"]) == (1, b"one")
        with pytest.raises(byway.NotFoundError, match="there is no namespace 3"):
            device.open_kv(3)
        with pytest.raises(byway.InvalidArgumentError, match="no block namespace"):
            device.nvm


def test_a_random_script_does_what_a_dict_does(ram):
    dice, model = random.Random(1), {}
    for _ in range(2000):
        key = b"%d" % dice.randrange(60)
        match dice.randrange(5):
            case 0 | 1:
                model[key] = ram.kv[key] = dice.randbytes(dice.choice([0, 5, 200, 5000]))
            case 2:
                assert ram.kv.get(key) == model.get(key)
            case 3 if key in model:
                del model[key], ram.kv[key]
            case _:
                assert (key in ram.kv) == (key in model)
    assert dict(ram.kv.items()) == dict(sorted(model.items()))


def test_keys_are_counted_exactly(ram):
    kv = ram.kv
    assert kv.count() == 0
    kv.load((b"a%d" % n, b"value") for n in range(100))
    kv[b"b"] = b"value"
    kv[b"b"] = b"again"
    assert (kv.count(), kv.count(b"a"), kv.count(b"a9"), kv.count(b"c")) == (101, 100, 11, 0)
    assert len(kv) == len(kv.keys()) == 101 and len(kv.keys(b"a9")) == 11
