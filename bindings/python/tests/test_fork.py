"""Forked children: they end as Python ends them, with everything they inherited, and their parent goes on."""

import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import traceback

import pytest

import byway

ROUNDS = int(os.environ.get("BYWAY_TEST_ROUNDS", "3"))
REFUSED = "a forked child must open its own"


def fork(act):
    """The exit status of a forked child that does `act` and ends ordinarily: finalizers and atexit handlers run."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        act()
        # What an ending interpreter drops is dropped here.
        gc.collect()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # Not `sys.exit`, and no exception either: both would run the rest of the tests a second time, in the child.
        os._exit(status)


def refuses(call):
    """Whether a call is refused since its handle is another process's."""
    try:
        call()
    except byway.DeniedError as error:
        return REFUSED in str(error)
    return False


PARENT = """
    import atexit, multiprocessing, os, sys
    import byway

    path, flush, way = sys.argv[1:]
    device = byway.open(f"embedded:{path}?flush={flush}")
    kv = device.kv
    atexit.register(lambda: device.closed)

    def child():
        try:
            kv[b"child"] = b"x"
        except byway.DeniedError:
            return
        os._exit(9)

    def fork():
        if way == "multiprocessing":
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join()
            return process.exitcode
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        child()
        if way == "with":
            with device:
                sys.exit(0)
        sys.exit(0)

    for n in range(20):
        kv[b"%d" % n] = b"value"
    assert fork() == 0
    for n in range(20, 40):
        kv[b"%d" % n] = b"value"
    device.close()
"""


@pytest.mark.parametrize("flush", ["process", "media"])
@pytest.mark.parametrize("way", ["exit", "with", "multiprocessing"])
def test_image_after_a_forked_child_exited_keeps_every_put(tmp_path, flush, way):
    for number in range(ROUNDS):
        path = tmp_path / f"{number}.img"
        byway.create(path, "64M")
        program = [sys.executable, "-c", textwrap.dedent(PARENT), str(path), flush, way]
        subprocess.run(program, check=True, timeout=60)
        with byway.open(f"embedded:{path}") as device:
            assert sorted(device.kv) == sorted(b"%d" % n for n in range(40))
        path.unlink()


def test_device_in_a_forked_child_refuses_every_call(ram):
    kv, nvm, queue = ram.kv, ram.nvm, ram.queue()
    buffer, admin = ram.buffer(4096), ram.admin_queue()
    kv[b"key"] = b"value"

    def act():
        calls = [
            lambda: kv[b"key"],
            lambda: kv.put(b"key", b"other"),
            lambda: list(kv),
            lambda: nvm.read(0, 1),
            lambda: nvm.write(0, bytes(512)),
            lambda: ram.namespaces,
            lambda: ram.identity,
            lambda: ram.ledger(),
            lambda: ram.buffer(4096),
            lambda: ram.queue(),
            lambda: ram.open_kv(),
            lambda: queue.poll(),
            lambda: queue.drain(),
            lambda: admin.poll(),
            lambda: ram.close(),
        ]
        for number, call in enumerate(calls):
            if not refuses(call):
                os._exit(10 + number)
        with queue, admin, ram:
            pass
        assert bytes(buffer) is not None

    assert fork(act) == 0
    assert kv[b"key"] == b"value"


def test_objects_of_a_parent_are_collected_by_its_child(tmp_path):
    byway.create(tmp_path / "disk.img", "64M")
    kept = [byway.open(f"embedded:{tmp_path}/disk.img")]
    kept += [kept[0].kv, kept[0].queue(), kept[0].buffer(4096), kept[0].admin_queue()]
    assert fork(kept.clear) == 0
    kept[1][b"key"] = b"value"
    kept[0].close()
    # The buffer is of the device's own memory, and keeps it.
    kept.clear()
    with byway.open(f"embedded:{tmp_path}/disk.img") as device:
        assert device.kv[b"key"] == b"value"


def test_files_behind_kernel_interfaces_outlive_a_child(file):
    queue = file.queue()
    assert fork(lambda: None if refuses(queue.poll) else os._exit(9)) == 0
    file.nvm.write(0, b"x" * file.nvm.lba_bytes)
    assert bytes(file.nvm.read(0, 1)) == b"x" * file.nvm.lba_bytes
    queue.close()


def test_program_started_by_a_parent_does_not_keep_its_image(tmp_path):
    byway.create(tmp_path / "disk.img", "64M")
    device = byway.open(f"embedded:{tmp_path}/disk.img")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        device.kv[b"key"] = b"value"
        device.close()
        byway.open(f"embedded:{tmp_path}/disk.img").close()
        program.communicate(b"\n")
