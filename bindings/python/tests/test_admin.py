"""Admin commands: by name, and passed through."""

import select
import struct

import numpy
import pytest

import byway

IDENTIFY, GET_LOG, SET_FEATURES, GET_FEATURES = 0x06, 0x02, 0x09, 0x0A
ASYNC_EVENT_REQUEST = 0x0C
NUMBER_OF_QUEUES, TEMPERATURE_THRESHOLD, HOST_IDENTIFIER = 0x07, 0x04, 0x81
LONG_IDENTIFIER = 1


def test_the_controller_is_identified(ram):
    data = ram.identify(1)
    assert len(data) == 4096
    assert data[24:64].decode().rstrip() == ram.identity.model
    assert struct.unpack_from("<Q", ram.identify(0, nsid=2))[0] == ram.nvm.blocks


def test_a_log_is_read_up_to_the_requested_length(ram):
    health = ram.get_log(0x02, 512)
    assert len(health) == 512
    assert ram.get_log(0x02, 16, offset=16) == health[16:32]
    for wrong in [0, 6]:
        with pytest.raises(byway.InvalidArgumentError, match="units of 4"):
            ram.get_log(0x02, wrong)


def test_features_are_read_and_set(ram):
    assert ram.get_feature(NUMBER_OF_QUEUES).result > 0
    before = ram.get_feature(TEMPERATURE_THRESHOLD).result
    ram.set_feature(TEMPERATURE_THRESHOLD, before + 1)
    assert ram.get_feature(TEMPERATURE_THRESHOLD).result == before + 1


def test_any_admin_command_is_passed_through(ram):
    answer = ram.admin(IDENTIFY, cdw10=1, into=4096)
    assert answer.data == ram.identify(1)
    assert ram.admin(GET_FEATURES, cdw10=NUMBER_OF_QUEUES).result == ram.get_feature(NUMBER_OF_QUEUES).result
    with pytest.raises(byway.UnsupportedError) as raised:
        ram.admin(0xBF)
    assert (raised.value.origin, raised.value.status) == ("device", 1)
    with pytest.raises(byway.InvalidArgumentError, match="not both"):
        ram.admin(0xC0, data=b"x", into=1)


def pieces(ram):
    """Room for an identify structure, in memory of every kind."""
    return [bytearray(1000), ram.buffer(3), numpy.zeros(93, dtype="u1"), memoryview(bytearray(3000))]


def test_an_admin_command_receives_into_memory_in_one_piece_or_several(ram):
    whole, parts = bytearray(4096), pieces(ram)
    assert ram.admin(IDENTIFY, cdw10=1, into=whole).data == b""
    assert ram.admin(IDENTIFY, cdw10=1, into=parts).data == b""
    assert bytes(whole) == b"".join(map(bytes, parts)) == ram.identify(1)


def test_an_admin_command_sends_memory_in_one_piece_or_several(ram):
    def identifier():
        return ram.admin(GET_FEATURES, cdw10=HOST_IDENTIFIER, cdw11=LONG_IDENTIFIER, into=16).data

    def set_identifier(data):
        ram.admin(SET_FEATURES, cdw10=HOST_IDENTIFIER, cdw11=LONG_IDENTIFIER, data=data)

    set_identifier(bytearray(b"0123456789abcdef"))
    assert identifier() == b"0123456789abcdef"
    buffer = ram.buffer(3)
    buffer[:] = b"two"
    set_identifier((b"one", buffer, bytearray(b"three"), numpy.frombuffer(b"four!", dtype="u1")))
    assert identifier() == b"onetwothreefour!"


def test_a_feature_is_set_with_data_in_one_piece_or_several(ram):
    def set_identifier(data):
        ram.set_feature(HOST_IDENTIFIER, LONG_IDENTIFIER, data=data)
        return ram.get_feature(HOST_IDENTIFIER, cdw11=LONG_IDENTIFIER, len=16).data

    assert set_identifier(b"0123456789abcdef") == b"0123456789abcdef"
    buffer = ram.buffer(3)
    buffer[:] = b"two"
    parts = [b"one", buffer, bytearray(b"three"), numpy.frombuffer(b"four!", dtype="u1")]
    assert set_identifier(parts) == set_identifier(tuple(parts)) == b"onetwothreefour!"
    with pytest.raises(TypeError, match="holds bytes"):
        set_identifier([b"12345678", "text"])


def test_an_admin_queue_moves_memory_in_one_piece_or_several(ram):
    whole, parts = bytearray(4096), pieces(ram)
    with ram.admin_queue() as admin:
        sent = [b"by pieces ", bytearray(b"sent  ")]
        admin.submit(SET_FEATURES, cdw10=HOST_IDENTIFIER, cdw11=LONG_IDENTIFIER, data=sent)
        admin.submit(IDENTIFY, cdw10=1, into=whole)
        admin.submit(IDENTIFY, cdw10=1, into=parts)
        admin.submit(0xC2, into=whole, tag=77)
        with pytest.raises(BufferError):
            whole.append(0)  # a completion is to come for it
        done = {completion.tag: completion for completion in admin.drain()}
        assert done[0].check().buffer is sent and done[2].check().buffer is parts
        assert done[1].check().buffer is whole and done[1].data == ram.identify(1)
        assert b"".join(map(bytes, parts)) == ram.identify(1) == whole
        assert isinstance(done[77].error, byway.UnsupportedError) and done[77].buffer is whole
        whole.append(0)
    got = ram.admin(GET_FEATURES, cdw10=HOST_IDENTIFIER, cdw11=LONG_IDENTIFIER, into=16)
    assert got.data == b"by pieces sent  "


def test_memory_that_an_admin_command_cannot_fill_is_refused_before_it_is_sent(ram):
    with ram.admin_queue() as admin:
        for send in [ram.admin, admin.submit]:
            for wrong in [bytes(4096), [bytearray(4095), b"x"]]:
                with pytest.raises(byway.InvalidArgumentError, match="bytes cannot be read into"):
                    send(IDENTIFY, cdw10=1, into=wrong)
            with pytest.raises(TypeError, match="holds bytes"):
                send(SET_FEATURES, cdw10=HOST_IDENTIFIER, data=[b"12345678", "text"])
            with pytest.raises(byway.InvalidArgumentError, match="4096 bytes"):
                send(IDENTIFY, cdw10=1, into=[bytearray(5), bytearray(6)])
        assert admin.outstanding == 0


def test_a_failed_admin_command_leaves_its_memory_to_the_program(ram):
    memory, buffer = bytearray(b"before"), ram.buffer(8)
    with pytest.raises(byway.UnsupportedError):
        ram.admin(0xC2, into=[memory, buffer])
    memory.append(0)
    assert bytes(memory) == b"before\0" and not buffer.in_flight


def test_admin_commands_complete_asynchronously(ram):
    with ram.admin_queue() as admin:
        tags = [admin.submit(IDENTIFY, cdw10=1, into=4096), admin.submit(GET_FEATURES, cdw10=NUMBER_OF_QUEUES)]
        tags.append(admin.submit(0xBF, tag=77))
        assert tags == [0, 1, 77] and admin.outstanding == 3
        done = {completion.tag: completion for completion in admin.drain()}
        assert bytes(done[0].data) == ram.identify(1)
        assert done[1].result == ram.get_feature(NUMBER_OF_QUEUES).result and done[1].data is None
        with pytest.raises(byway.UnsupportedError):
            done[77].check()
        with pytest.raises(byway.InvalidArgumentError, match="not both"):
            admin.submit(0xC0, data=b"x", into=1)
        with pytest.raises(byway.NotFoundError):
            admin.cancel(9)
    assert admin.closed
    with pytest.raises(byway.ClosedError):
        admin.poll()


def test_a_request_for_events_waits_until_it_is_cancelled(ram):
    with ram.admin_queue() as admin:
        tag = admin.submit(ASYNC_EVENT_REQUEST)
        assert admin.wait(timeout=0.05) == [] and admin.outstanding == 1
        admin.cancel(tag)
        (done,) = admin.wait(timeout=10)
        assert isinstance(done.error, byway.CancelledError)
        admin.submit(ASYNC_EVENT_REQUEST)  # left: closing does not wait for it


def test_an_event_loop_is_woken_by_admin_commands(ram):
    with ram.admin_queue() as admin:
        descriptor = admin.fileno()
        admin.submit(IDENTIFY, cdw10=1, into=4096)
        taken = admin.poll()
        while not taken:
            assert select.select([descriptor], [], [], 10)[0]
            taken = admin.poll()
        assert len(taken) == 1


def test_a_file_has_no_admin_queue(tmp_path):
    with byway.open(tmp_path / "blocks", create="1M") as device:
        with pytest.raises(byway.UnsupportedError, match="no controller"):
            device.admin_queue()


def test_a_format_erases_the_namespace(ram):
    ram.kv[b"key"] = b"value"
    ram.format(1, erase=True)
    assert list(ram.kv) == []
    with pytest.raises(byway.InvalidArgumentError):
        ram.format(0)
