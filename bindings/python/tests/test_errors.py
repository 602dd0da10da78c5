"""What calls raise, and what becomes of things that were closed."""

import errno
import pickle

import pytest

import byway


def test_every_error_is_a_byway_error_with_kind_and_origin(tmp_path):
    with pytest.raises(byway.Error) as raised:
        byway.open(tmp_path / "missing")
    assert (raised.value.kind, raised.value.origin, raised.value.status) == ("not_found", "kernel", None)
    assert str(raised.value).startswith(f"open {tmp_path / 'missing'}: ")


def test_an_answer_of_the_device_has_its_status(ram):
    with pytest.raises(byway.KeyExistsError) as raised:
        ram.kv[b"key"] = b"value"
        ram.kv.put(b"key", b"other", must_not_exist=True)
    assert (raised.value.origin, raised.value.status) == ("device", 0x89)


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("nosuch", {}, "expected a path"),
        ("ram:64M", {"direct": True}, "known are transfer"),
        ("ram:64M", {"depth": 0}, "0"),
        ("ram:lots", {}, "is no size"),
        ("nil:1M", {"lba": 4096}, "of files"),
        ("./x", {"backend": "tape"}, "there is no backend"),
        ("ram:64M", {"transfer": "a&b"}, "no value has & in it"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused_with_a_sentence(uri, options, said):
    with pytest.raises(byway.Error, match=said) as raised:
        byway.open(uri, **options).queue()
    assert raised.value.origin == "host"


def test_kinds_are_pythons_own_where_python_has_them(ram, tmp_path):
    with pytest.raises(KeyError):
        ram.kv[b"missing"]
    with pytest.raises(ValueError):
        ram.kv[b""]
    with pytest.raises(IndexError):
        ram.nvm.read(1 << 40)
    with pytest.raises(LookupError):
        byway.open(tmp_path / "missing")
    with pytest.raises(byway.NotFoundError) as raised:
        ram.open_kv(7)
    assert not isinstance(raised.value, OSError) and raised.value.errno is None
    assert issubclass(byway.TimedOutError, TimeoutError)
    assert issubclass(byway.DeniedError, PermissionError)


@pytest.mark.parametrize("uri", ["./nope", "file:nope", "embedded:nope", "embedded:./no/such.img"])
@pytest.mark.parametrize("open_it", [byway.open, byway.open_to_read])
def test_a_missing_file_is_a_file_not_found_error(open_it, uri, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as raised:
        open_it(uri)
    assert isinstance(raised.value, byway.NotFoundError) and isinstance(raised.value, LookupError)
    assert raised.value.errno == errno.ENOENT
    assert raised.value.filename == uri.removeprefix("file:").removeprefix("embedded:")


@pytest.mark.parametrize(
    "call",
    [
        lambda path: byway.check(path),
        lambda path: byway.resize(path, "96M"),
        lambda path: byway.snapshot(path, f"{path}.copy"),
        lambda path: byway.create(f"{path}/below", "64M"),
    ],
)
def test_calls_with_paths_raise_what_open_raises(call, tmp_path):
    with pytest.raises(byway.MissingFileError) as raised:
        call(str(tmp_path / "nope"))
    assert raised.value.errno == errno.ENOENT


def test_an_existing_file_is_a_file_exists_error(tmp_path):
    byway.create(tmp_path / "a.img", "64M")
    with pytest.raises(FileExistsError) as raised:
        byway.create(tmp_path / "a.img", "64M")
    assert isinstance(raised.value, byway.ExistingFileError)
    assert (raised.value.errno, raised.value.filename) == (errno.EEXIST, str(tmp_path / "a.img"))
    assert issubclass(byway.KernelError, OSError)


def test_an_error_of_a_file_can_be_pickled(tmp_path):
    with pytest.raises(byway.MissingFileError) as raised:
        byway.open(tmp_path / "missing")
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is byway.MissingFileError and str(again) == str(raised.value)
    assert (again.errno, again.filename) == (errno.ENOENT, str(tmp_path / "missing"))


def test_an_error_can_be_pickled(ram):
    with pytest.raises(byway.KeyNotFoundError) as raised:
        ram.kv[b"missing"]
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is byway.KeyNotFoundError
    assert (str(again), again.status, again.origin) == (str(raised.value), raised.value.status, "device")


def test_a_read_only_device_refuses_writes(tmp_path):
    byway.open(tmp_path / "a", create="1M").close()
    with byway.open(tmp_path / "a", readonly=True) as device, pytest.raises(byway.DeniedError):
        device.nvm[0] = bytes(512)


def test_calls_on_a_closed_device_raise_and_do_nothing(blocks):
    nvm, queue = blocks.nvm, blocks.queue()
    blocks.close()
    blocks.close()
    assert blocks.closed and queue.closed
    closed = [
        lambda: nvm[0],
        lambda: nvm.write(0, bytes(512)),
        nvm.flush,
        lambda: queue.submit(byway.Command.read(0)),
        queue.poll,
        queue.wait,
        queue.fileno,
        lambda: queue.outstanding,
        lambda: blocks.nvm[0],
        blocks.queue,
        blocks.open_nvm,
        lambda: blocks.buffer(4096),
        lambda: blocks.namespaces,
        lambda: blocks.identity,
        lambda: blocks.identify(1),
    ]
    for call in closed:
        with pytest.raises(byway.ClosedError, match="closed"):
            call()


def test_keys_and_values_of_a_closed_device_say_so(ram):
    kv = ram.kv
    kv[b"key"] = b"value"
    keys, items = iter(kv), kv.items()
    ram.close()
    for call in [lambda: kv[b"key"], lambda: b"key" in kv, lambda: next(keys), lambda: next(items)]:
        with pytest.raises(byway.ClosedError):
            call()


def test_a_closed_queue_leaves_its_device_open(ram):
    with ram.queue() as queue:
        queue.submit(byway.Command.read(0))
    assert queue.closed and not ram.closed
    assert ram.nvm[0] == bytes(512)
