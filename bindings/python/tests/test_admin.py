"""Admin commands: by name, and passed through."""

import struct

import pytest

import byway

IDENTIFY, GET_LOG, GET_FEATURES = 0x06, 0x02, 0x0A
NUMBER_OF_QUEUES, TEMPERATURE_THRESHOLD = 0x07, 0x04


def test_the_controller_is_identified(ram):
    told = ram.identify(1)
    assert len(told) == 4096
    assert told[24:64].decode().rstrip() == ram.identity.model
    assert struct.unpack_from("<Q", ram.identify(0, nsid=2))[0] == ram.nvm.blocks


def test_a_log_is_read_as_far_as_is_asked(ram):
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


def test_a_format_leaves_nothing(ram):
    ram.kv[b"key"] = b"value"
    ram.format(1, erase=True)
    assert list(ram.kv) == []
    with pytest.raises(byway.InvalidArgumentError):
        ram.format(0)
