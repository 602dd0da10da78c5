"""The GIL, several threads, and Ctrl-C."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

import byway
from byway import Command


def run_all(*work):
    """Runs each in a thread of its own; raises what the first of them raised."""
    raised = []

    def guarded(one):
        try:
            one()
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if raised:
        raise raised[0]


def test_two_threads_use_one_mapping(ram):
    kv = ram.kv

    def work(mine):
        for n in range(500):
            kv[b"%s%d" % (mine, n % 50)] = b"%d" % n
            assert kv[b"%s%d" % (mine, n % 50)] == b"%d" % n

    run_all(lambda: work(b"a"), lambda: work(b"b"), lambda: [list(kv) for _ in range(20)])
    assert len(list(kv)) == 100


def test_two_threads_use_one_namespace_of_blocks(blocks):
    nvm = blocks.nvm

    def work(first):
        dice = random.Random(first)
        for _ in range(100):
            data = dice.randbytes(512 * 4)
            nvm[first : first + 4] = data
            assert nvm[first : first + 4] == data

    run_all(lambda: work(0), lambda: work(4), lambda: work(8))


def test_two_threads_use_one_queue_and_every_completion_comes_once(blocks):
    taken = []
    with blocks.queue(depth=128) as queue:

        def work(first):
            for n in range(100):
                while True:
                    try:
                        queue.submit(Command.read(n % 8), tag=first + n)
                        break
                    except byway.QueueFullError:
                        taken.extend(queue.wait())
                taken.extend(queue.poll())

        run_all(lambda: work(0), lambda: work(1000))
        taken.extend(queue.drain())
    assert sorted(completion.tag for completion in taken) == [*range(100), *range(1000, 1100)]


def test_another_thread_runs_and_submits_while_one_waits(ram):
    """A thread that waits for two completions has one that another submits later."""
    queue = ram.queue()
    queue.submit(Command.read(0))
    got = []

    def wait():
        while len(got) < 2:
            got.extend(queue.wait(1, timeout=10))

    def submit():
        while not got:
            time.sleep(0.001)
        queue.submit(Command.read(1))

    run_all(wait, submit)
    assert len(got) == 2


@pytest.mark.parametrize("how", ["call", "wait"])
def test_the_gil_is_released_while_a_thread_waits(how):
    """Reads over a slow link whose time is waited for; this thread takes steps during one of them."""
    with byway.open("ram:64M", clock="paced", link="gen1x1") as device, device.queue() as queue:
        ended = threading.Event()
        steps, during = 0, 0

        def read():
            if how == "call":
                device.nvm.read(0, 16384)
            else:
                queue.submit(Command.read(0, 16384))
                queue.wait(1)

        def wait():
            nonlocal during
            until = time.monotonic() + 30
            while during < 3 and time.monotonic() < until:
                before = steps
                read()
                during = max(during, steps - before)
            ended.set()

        thread = threading.Thread(target=wait)
        thread.start()
        while not ended.is_set():
            time.sleep(0.001)
            steps += 1
        thread.join()
        assert during >= 3


def test_a_device_may_be_closed_while_another_thread_uses_it(blocks):
    nvm, begun = blocks.nvm, threading.Event()

    def use():
        with pytest.raises(byway.ClosedError):
            while True:
                nvm[0:8] = b"u" * 4096
                assert nvm[0:8] == b"u" * 4096
                begun.set()

    def close():
        begun.wait()
        blocks.close()

    run_all(use, close)


# Reads that take seconds altogether: a slow link, whose time is waited for.
# A shell has what it starts in the background ignore SIGINT, and so has whatever that starts.
SLOW = """
import signal
import byway
signal.signal(signal.SIGINT, signal.default_int_handler)
device = byway.open("ram:64M", clock="paced", link="gen1x1", depth=64)
queue = device.queue()
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", queue.outstanding > 0 or {is_call}, flush=True)
"""
QUEUED = """
    queue.submit_all([byway.Command.read(0, 16384) for _ in range(50)])
    print("waits", flush=True)
    queue.wait(50)
"""
CALLS = """
    print("waits", flush=True)
    while True:
        device.nvm.read(0, 16384)
"""


KEYS = """
    print("waits", flush=True)
    while True:
        device.kv[b"key"] = bytes(1 << 20)
"""
LOADS = """
    print("waits", flush=True)
    while True:
        device.kv.load((b"%d" % n, bytes(100_000)) for n in range(100))
"""
MANY = """
    print("waits", flush=True)
    for n in range(100):
        device.kv[b"%d" % n] = bytes(4096)
    while True:
        device.kv.get_many([b"%d" % n for n in range(100)])
"""
ADMIN = """
    with device.admin_queue() as admin:
        admin.submit(0x0C)  # a request for events, of which there will be none
        print("waits", flush=True)
        admin.wait()
"""


@pytest.mark.parametrize(
    "wait", [QUEUED, CALLS, KEYS, LOADS, MANY, ADMIN], ids=["queue", "calls", "keys", "load", "many", "admin"]
)
def test_ctrl_c_ends_a_wait_with_commands_under_way(wait):
    code = SLOW.format(wait=wait.strip(), is_call=wait is not QUEUED)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "waits\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "interrupted True\n"
    assert child.returncode == 0


def test_calls_go_on_after_one_that_ctrl_c_ended():
    """What the call had on its way finishes unseen, and its place is free again, at depth 1 too."""
    with byway.open("ram:64M", clock="paced", link="gen1x1", depth=1) as device:
        kv = device.kv
        kv[b"key"] = b"before"
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        old = signal.signal(signal.SIGALRM, raise_interrupt)
        try:
            with pytest.raises(InterruptedError, match="alarm"):
                while True:
                    kv[b"long"] = bytes(1 << 20)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        assert kv[b"key"] == b"before"
        kv[b"key"] = b"after"
        assert kv.get_many([b"key", b"none"]) == [b"after", None]


def raise_interrupt(*_):
    raise InterruptedError("alarm")


def test_a_child_of_fork_does_not_disturb_its_parent(blocks):
    blocks.nvm[0] = b"p" * 512
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert blocks.nvm[0] == b"p" * 512
