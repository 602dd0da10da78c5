"""Many commands at once: tags, callbacks, waiting, cancelling."""

import random
import select
import time

import pytest

import byway
from byway import Command


def by_tag(completions):
    return {completion.tag: completion for completion in completions}


def test_many_reads_and_writes_are_under_way_at_once(blocks):
    data = random.Random(1).randbytes(64 * 512)
    with blocks.queue(depth=64) as queue:
        tags = [queue.submit(Command.write(n, data[n * 512 : n * 512 + 512])) for n in range(64)]
        assert queue.outstanding == 64
        done = queue.wait(64)
        assert sorted(completion.tag for completion in done) == tags
        assert all(completion.check() is completion for completion in done)
        for n in range(64):
            queue.submit(Command.read(n), tag=1000 + n)
        done = by_tag(queue.drain())
        assert b"".join(done[1000 + n].data for n in range(64)) == data
        assert queue.outstanding == 0


def test_commands_are_values_and_are_submitted_again_and_again(blocks):
    read = Command.read(0, 2)
    with blocks.queue() as queue:
        for _ in range(3):
            queue.submit(read)
        buffers = [completion.buffer for completion in queue.drain()]
        assert [len(buffer) for buffer in buffers] == [1024] * 3
        assert len({id(buffer) for buffer in buffers}) == 3
    assert (read.name, repr(read)) == ("read", "<byway.Command read>")


def test_a_queue_at_its_depth_refuses_and_gives_the_memory_back(blocks):
    with blocks.queue(depth=2) as queue:
        queue.submit_all([Command.read(0), Command.read(1)])
        buffer = blocks.buffer(512)
        with pytest.raises(byway.QueueFullError) as raised:
            queue.submit(Command.read(2, into=buffer))
        assert raised.value.retry == "later"
        assert not buffer.in_flight
        queue.drain()
        queue.submit(Command.read(2, into=buffer))


def test_a_batch_goes_as_a_whole_or_not_at_all(blocks):
    with blocks.queue(depth=4) as queue:
        buffers = [blocks.buffer(512) for _ in range(5)]
        with pytest.raises(byway.QueueFullError, match="none was sent"):
            queue.submit_all(Command.read(0, into=buffer) for buffer in buffers)
        with pytest.raises(byway.InvalidArgumentError):
            queue.submit_all([Command.read(0, into=buffers[0]), Command.write(0, b"short")])
        with pytest.raises(TypeError):
            queue.submit_all([Command.read(0, into=buffers[0]), "no command"])
        assert queue.outstanding == 0
        assert not any(buffer.in_flight for buffer in buffers)
        assert queue.submit_all([]) == []
        assert len(queue.submit_all((Command.read(0) for _ in range(4)), timeout=10)) == 4
        assert all(completion.ok for completion in queue.drain())


def test_a_callback_gets_its_completion_and_may_submit_again(blocks):
    seen = []
    with blocks.queue(depth=1) as queue:

        def again(completion):
            seen.append(completion.check().tag)
            if len(seen) < 50:
                queue.submit(Command.read(0), tag=len(seen), callback=again)

        queue.submit(Command.read(0), tag=0, callback=again)
        assert queue.drain() == []
    assert seen == list(range(50))


def test_a_callback_that_raises_loses_no_other_completion(blocks):
    seen = []

    def refuse(completion):
        raise ZeroDivisionError

    with blocks.queue() as queue:
        queue.submit(Command.read(0), callback=refuse)
        queue.submit(Command.read(1), callback=seen.append)
        plain = queue.submit(Command.read(2))
        taken = []
        with pytest.raises(ZeroDivisionError):
            while True:
                taken += queue.wait(3)
        taken += queue.drain()
    assert [completion.tag for completion in taken] == [plain]
    assert len(seen) == 1


def test_poll_never_sleeps_and_takes_no_more_than_asked(blocks):
    with blocks.queue() as queue:
        assert queue.poll() == []
        for n in range(5):
            queue.submit(Command.read(n))
        taken = []
        until = time.monotonic() + 30
        while len(taken) < 5 and time.monotonic() < until:
            some = queue.poll(2)
            assert len(some) <= 2
            taken += some
        assert len(taken) == 5


def test_waiting_for_nothing_returns_at_once_and_a_wait_ends_after_its_timeout(blocks):
    with blocks.queue() as queue:
        assert queue.wait() == []
        queue.submit(Command.read(0))
        assert len(queue.wait(10)) == 1
        assert queue.wait(1, timeout=0.01) == []
        for wrong in [-1, float("nan")]:
            with pytest.raises(byway.InvalidArgumentError, match="no time in seconds"):
                queue.wait(1, timeout=wrong)
        queue.submit(Command.read(0))
        assert len(queue.wait(1, timeout=float("inf"))) == 1


def test_the_descriptor_is_readable_while_completions_are_left(blocks):
    with blocks.queue() as queue:
        if not blocks.capabilities.event:
            with pytest.raises(byway.UnsupportedError):
                queue.fileno()
            return
        assert not select.select([queue], [], [], 0)[0] or queue.poll() == []
        queue.submit(Command.read(0))
        queue.start()
        taken = []
        until = time.monotonic() + 30
        while not taken and time.monotonic() < until:
            select.select([queue], [], [], 5)
            taken += queue.poll()
        assert taken[0].ok


def test_a_failure_of_the_device_is_the_completions_error(ram):
    with ram.queue() as queue:
        queue.submit(Command.read(ram.nvm.blocks), tag=7)
        [completion] = queue.wait()
        assert (completion.tag, completion.ok) == (7, False)
        assert isinstance(completion.error, byway.OutOfRangeError)
        with pytest.raises(byway.OutOfRangeError):
            completion.check()
        assert str(completion.error) in repr(completion)


def test_a_command_out_of_range_is_refused_at_submission(file):
    room = bytearray(512)
    with file.queue() as queue:
        with pytest.raises(byway.OutOfRangeError):
            queue.submit(Command.read(file.nvm.blocks, into=room))
        assert queue.outstanding == 0
        room.extend(b"is free")


def test_each_block_command_has_its_effect(ram):
    with ram.queue() as queue:

        def do(command):
            queue.submit(command)
            [completion] = queue.wait()
            return completion

        data = bytes(range(256)) * 2 + bytes(reversed(range(256))) * 2
        assert do(Command.write(4, data)).check()
        assert bytes(do(Command.read(4, 2)).check().data) == data
        assert do(Command.compare(4, data)).ok
        assert isinstance(do(Command.compare(4, b"x" * 1024)).error, byway.MismatchError)
        assert do(Command.compare_and_write(4, data[:512], data[512:])).ok
        assert isinstance(do(Command.compare_and_write(4, data[:512], b"x" * 512)).error, byway.MismatchError)
        assert do(Command.compare_and_write(4, data[512:], bytearray(data[:512]))).ok
        assert do(Command.verify(4, 2)).ok
        assert do(Command.copy(20, [(5, 1), (4, 1)])).ok
        assert bytes(do(Command.read(20, 2)).data) == data[512:] + data[:512]
        assert do(Command.write_zeroes(4)).ok
        assert do(Command.trim_ranges([(20, 1), (21, 1)])).ok
        assert do(Command.trim(5)).ok
        assert do(Command.flush()).ok
        room = [bytearray(512), ram.buffer(512)]
        completion = do(Command.read(20, into=room))
        assert completion.buffer is room and completion.data is None
        assert b"".join(map(bytes, room)) == bytes(1024)


def test_each_key_value_command_has_its_effect(ram):
    with ram.queue() as queue:

        def do(command):
            queue.submit(command)
            [completion] = queue.wait()
            return completion

        long = b"v" * 1000
        assert do(Command.put(b"short", b"value")).ok
        assert do(Command.put(b"long", long, must_not_exist=True)).ok
        assert isinstance(do(Command.put(b"long", b"", must_not_exist=True)).error, byway.KeyExistsError)
        got = do(Command.get(b"short", 4096)).check()
        assert (got.result, bytes(got.data)) == (5, b"value")
        room = bytearray(100)
        got = do(Command.get(b"long", room)).check()
        assert (got.result, room) == (1000, long[:100])
        assert do(Command.exists(b"short")).ok
        assert do(Command.delete(b"short")).ok
        for gone in [Command.exists(b"short"), Command.get(b"short", 10)]:
            assert isinstance(do(gone).error, byway.KeyNotFoundError)


def test_a_raw_command_is_passed_through(ram):
    with ram.queue() as queue:
        ram.nvm[9] = b"r" * 512
        queue.submit(Command.raw(0x02, nsid=2, cdw10=9, cdw12=0, into=512))
        [completion] = queue.wait()
        assert bytes(completion.check().data) == b"r" * 512
        queue.submit(Command.raw(0x01, nsid=2, cdw10=9, data=b"w" * 512))
        assert queue.wait()[0].ok
        assert ram.nvm[9] == b"w" * 512
        queue.submit(Command.raw(0x7F, nsid=2))
        [completion] = queue.wait()
        assert (completion.error.kind, completion.error.status) == ("unsupported", 0x01)
    with pytest.raises(byway.InvalidArgumentError, match="not both"):
        Command.raw(1, data=b"x", into=1)


def test_a_command_for_a_namespace_that_is_not_there_is_refused(ram, file):
    with ram.queue() as queue:
        for wrong in [Command.read(0, nsid=9), Command.read(0, nsid=1), Command.delete(b"key", nsid=2)]:
            with pytest.raises(byway.InvalidArgumentError, match="namespace"):
                queue.submit(wrong)
    with file.queue() as queue, pytest.raises(byway.InvalidArgumentError, match="no key-value namespace"):
        queue.submit(Command.get(b"key", 100))


def test_only_an_outstanding_command_can_be_cancelled(ram):
    with ram.queue() as queue:
        with pytest.raises(byway.NotFoundError, match="no command with tag 7"):
            queue.cancel(7)
        tag = queue.submit(Command.read(0))
        queue.cancel(tag)
        [completion] = queue.drain()
        assert completion.ok or isinstance(completion.error, byway.CancelledError)


def test_a_command_may_have_a_time_of_its_own(blocks):
    with blocks.queue() as queue:
        queue.submit(Command.read(0), timeout=10)
        assert queue.wait()[0].ok
        queue.submit(Command.read(0), timeout=0)
        [completion] = queue.wait()
        assert completion.ok or isinstance(completion.error, byway.TimedOutError)


def test_a_queue_has_a_transfer_method_of_its_own(ram):
    with ram.queue(transfer="inline") as queue:
        queue.submit(Command.put(b"key", b"x" * 32))
        queue.wait()[0].check()
    with pytest.raises(byway.InvalidArgumentError):
        ram.queue(transfer="telepathy")


def test_an_impossible_depth_is_refused(blocks):
    for depth in [0, 1 << 20]:
        with pytest.raises(byway.Error):
            blocks.queue(depth=depth)


def test_a_nil_queue_takes_a_depth_of_4096(nil):
    with nil.queue(depth=4096) as queue:
        buffers = [bytearray(512) for _ in range(4096)]
        queue.submit_all(Command.read(n, into=buffer) for n, buffer in enumerate(buffers))
        assert len(queue.wait(4096)) == 4096
        assert queue.outstanding == 0
