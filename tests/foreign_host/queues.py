"""Connections, digests, Connect and properties."""

import struct

import nvme_tcp
from checks import (
    SC_CONNECT_INVALID, SC_INVALID_FIELD, SC_SEQUENCE, SC_TRANSIENT, check, command_set, ends, pattern, same,
)
from nvme_tcp import CAP, CC, CSTS, DISCONNECT, PROPERTY_GET, VS, command, in_capsule, transport


@check
def icreq_is_answered_with_what_was_asked_for(target):
    for digests in range(4):
        with target.open(digests) as host:
            same(host.icresp[11], digests, "DGST")
            same(host.icresp[10], 0, "CPDA")
            assert host.max_h2c >= 4096 and host.max_h2c % 4 == 0, "MAXH2CDATA"


@check
def a_command_in_single_bytes_is_answered(target):
    with target.admin() as admin:
        pdu = admin.pdu(nvme_tcp.CAPSULE_CMD, 0, bytes(command(0x18)))
        for at in range(len(pdu)):
            admin.socket.sendall(pdu[at : at + 1])
        admin._read[0] = bytearray()
        same(admin.wait(0).status, 0)


def terminated(target, pdu, fes, digests=0):
    with target.admin(digests) as host:
        host.socket.sendall(pdu(host))
        same(ends(host), fes, "FES")
    target.admin().close()


@check
def a_pdu_of_an_unknown_type_ends_the_connection(target):
    terminated(target, lambda host: host.pdu(0x33, 0, bytes(64)), 1)


@check
def a_pdu_of_the_controller_ends_the_connection(target):
    terminated(target, lambda host: host.pdu(nvme_tcp.C2H_DATA, 0, bytes(16)), 1)


@check
def a_capsule_whose_header_length_is_wrong_ends_the_connection(target):
    terminated(target, lambda host: host.pdu(nvme_tcp.CAPSULE_CMD, 0, bytes(60)), 1)


@check
def a_second_icreq_ends_the_connection(target):
    terminated(target, lambda host: struct.pack("<BBBBI120x", 0, 0, 128, 0, 128), 2)


@check
def data_that_was_not_asked_for_ends_the_connection(target):
    head = struct.pack("<HHIII", 1, 9, 0, 512, 0)
    pdu = lambda host: host.pdu(nvme_tcp.H2C_DATA, nvme_tcp.LAST, head, bytes(512))
    with target.admin() as host:
        host.socket.sendall(pdu(host))
        assert ends(host) in (1, 2), "an invalid field, or out of sequence"


@check
def a_wrong_header_digest_ends_the_connection(target):
    spoiled = lambda host: host.pdu(nvme_tcp.CAPSULE_CMD, 0, bytes(command(0x18)), spoil_header=True)
    terminated(target, spoiled, 3, digests=nvme_tcp.HEADER_DIGEST)


@check
def a_wrong_data_digest_fails_its_command_alone(target):
    with target.host(digests=3) as (_, io):
        write = command(0x01, target.blocks, in_capsule(512))
        same(io.run(write, bytes(512), spoil_data=True).status, SC_TRANSIENT)
        io.ok(write, bytes(512))


@check
def values_of_odd_lengths_go_with_every_digest(target):
    for digests in range(4):
        with target.host(digests) as (_, io):
            for length in (1, 2, 3, 5, 7, 511, 4095, 16383, 20001, 65537):
                value, fields = pattern(length, digests), {"cdw2": length, "cdw10": length, "cdw11": 4}
                if length <= 8192:
                    io.ok(command(0x01, target.keys, in_capsule(length), **fields), value)
                else:
                    io.ok(command(0x01, target.keys, transport(length), **fields), b"", value)
                read = io.ok(command(0x02, target.keys, transport(length), **fields))
                same(read.data, value, f"{length} bytes")
                io.ok(command(0x10, target.keys, **fields))


@check
def a_connect_names_its_controller(target):
    with target.admin() as one, target.admin() as other:
        assert one.controller != other.controller
        same(struct.unpack_from("<H", one.identify(0x01), 78)[0], one.controller, "CNTLID")


def refused(target, status, result=None, **fields):
    with target.open() as host:
        answer = host.connect(**{"nqn": target.nqn, **fields})
        same(answer.status, status)
        if result is not None:
            same(answer.dw0, result, "IPO and IATTR")


@check
def a_connect_to_no_such_subsystem_is_refused(target):
    refused(target, SC_CONNECT_INVALID, 1 << 16 | 256, nqn="nqn.2026-01.example:none")


@check
def a_connect_without_a_host_name_is_refused(target):
    refused(target, SC_CONNECT_INVALID, 1 << 16 | 512, host="")


@check
def a_connect_to_no_such_controller_is_refused(target):
    refused(target, SC_CONNECT_INVALID, 1 << 16 | 16, qid=1, controller=0xFFE0)


@check
def a_connect_of_a_queue_of_one_entry_is_refused(target):
    refused(target, SC_CONNECT_INVALID, 44, entries=1)


@check
def a_connect_of_an_unknown_format_is_refused(target):
    refused(target, 0x180, cdw10=1)


@check
def a_connect_without_its_data_is_refused(target):
    with target.open() as host:
        assert host.run(command(0x7F, nvme_tcp.CONNECT, cdw11=31)).status
        same(host.connect(target.nqn).status, 0, "and another is not")


@check
def a_second_connect_of_a_connection_is_refused(target):
    with target.admin() as admin:
        same(admin.connect(target.nqn).status, SC_SEQUENCE)


@check
def commands_before_connect_are_refused(target):
    with target.open() as host:
        same(host.run(command(0x18)).status, SC_SEQUENCE)
        same(host.run(command(0x7F, PROPERTY_GET, cdw11=VS)).status, SC_SEQUENCE)


@check
def an_io_queue_with_another_host_identifier_is_connected(target):
    with target.admin() as admin, target.queue(admin, host_id=bytes(16 * [9])) as io:
        io.ok(command(0x00, target.blocks))


@check
def an_io_queue_of_another_host_is_refused(target):
    with target.admin() as admin:
        fields = {"qid": 1, "controller": admin.controller, "host": "nqn.2026-01.example:other"}
        refused(target, SC_CONNECT_INVALID, 1 << 16 | 512, **fields)


@check
def an_io_queue_before_the_controller_is_ready_is_refused(target):
    with target.open() as admin:
        controller = admin.connect(target.nqn).dw0 & 0xFFFF
        refused(target, SC_SEQUENCE, qid=1, controller=controller)


@check
def a_queue_identifier_in_use_is_refused(target):
    with target.host() as (admin, _):
        refused(target, SC_CONNECT_INVALID, qid=1, controller=admin.controller)


@check
def a_queue_that_disconnects_is_connected_again(target):
    with target.admin() as admin:
        for _ in range(3):
            with target.queue(admin) as io:
                io.ok(command(0x7F, DISCONNECT))
                same(ends(io), None, "it ends")


@check
def a_queue_whose_connection_was_closed_is_connected_again(target):
    with target.admin() as admin:
        for _ in range(3):
            status = SC_CONNECT_INVALID
            while status == SC_CONNECT_INVALID:
                # The target may have yet to see that the last connection is closed.
                with target.open() as io:
                    status = io.connect(target.nqn, 1, admin.controller).status
            same(status, 0)


@check
def an_admin_queue_is_not_disconnected_by_a_command(target):
    with target.admin() as admin:
        same(admin.run(command(0x7F, DISCONNECT)).status, SC_INVALID_FIELD)


@check
def properties_say_what_the_controller_can(target):
    with target.admin() as admin:
        cap = admin.property(CAP, 8)
        assert cap & 0xFFFF >= 31, "MQES"
        assert cap >> 16 & 1 and cap >> 37 & 1 and cap >> 43 & 1, "CQR, and both command sets"
        assert admin.property(VS) >= 0x10400, "version"
        same(admin.property(CC) & 1, 1, "CC.EN")


@check
def properties_that_are_none_or_cannot_be_set_are_refused(target):
    with target.admin() as admin:
        assert admin.run(command(0x7F, PROPERTY_GET, cdw11=0x24)).status
        assert admin.run(command(0x7F, PROPERTY_GET, cdw11=0x2000)).status
        assert admin.set_property(VS, 1)


@check
def a_reset_ends_io_queues_and_keeps_the_admin_queue(target):
    with target.host() as (admin, io):
        same(admin.set_property(CC, 0x00460060), 0)
        same(admin.property(CSTS) & 1, 0, "CSTS.RDY")
        same(ends(io), None, "the I/O queue ends")
        same(admin.run(command(0x06, 0, transport(4096), cdw10=1)).status, SC_SEQUENCE)
        admin.enable()
        same(command_set(admin.identify(0x03, target.keys)), 1)


@check
def a_shutdown_is_completed(target):
    with target.admin() as admin:
        same(admin.set_property(CC, 0x00464061), 0)
        same(admin.property(CSTS) >> 2 & 3, 2, "SHST")
