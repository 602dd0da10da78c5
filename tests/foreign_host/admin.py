"""Identify, features, events, logs, and discovery."""

import struct

from checks import (
    EVERY, SC_ABORTED, SC_EVENT_LIMIT, SC_INVALID_FIELD, SC_INVALID_LOG, SC_INVALID_NAMESPACE,
    SC_INVALID_OPCODE, SC_SGL_LENGTH, SC_SGL_TYPE, check, listed, same,
)
from nvme_tcp import command, in_capsule, transport

# What hosts leave in the data pointer and the flags of a command that has no data.
UNUSED = [
    (bytes(16), 0x40),
    (transport(0), 0x40),
    (transport(4096), 0x40),
    (in_capsule(512), 0x40),
    (bytes(16), 0x00),
    (b"\xff" * 16, 0x40),
]


def number(data, at, length):
    return int.from_bytes(data[at : at + length], "little")


@check
def the_controller_says_what_fabrics_need(target):
    with target.admin() as admin:
        data = admin.identify(0x01)
        assert number(data, 320, 2) >= 1, "KAS"
        assert number(data, 514, 2) >= 32, "MAXCMD"
        assert number(data, 536, 4) & 3 == 1, "SGLS"
        assert number(data, 1792, 4) >= 4 and number(data, 1796, 4) >= 1, "IOCCSZ and IORCSZ"
        same((number(data, 1800, 2), data[1803]), (0, 1), "ICDOFF and MSDBD")
        same(data[768 : 768 + len(target.nqn)].decode(), target.nqn, "SUBNQN")
        same((data[111], data[512], data[513]), (1, 0x66, 0x44), "CNTRLTYPE, SQES and CQES")


@check
def every_namespace_has_a_capacity_in_cns_00h(target):
    with target.admin() as admin:
        for nsid in target.nsids:
            data = admin.identify(0x00, nsid)
            nsze, ncap = number(data, 0, 8), number(data, 8, 8)
            assert nsze and ncap, f"NSZE and NCAP of {nsid}"
            assert data[128 + 4 * (data[26] & 15) + 2] >= 9, "LBADS"
            assert any(data[104:120]), "NGUID"
        assert number(admin.identify(0x00, target.keys), 16, 8), "NUSE"


@check
def every_namespace_has_the_structures_that_hosts_ask_for(target):
    with target.admin() as admin:
        for nsid in target.nsids:
            for cns in (0x03, 0x08, 0x11, 0x12):
                assert any(admin.identify(cns, nsid)), f"CNS {cns:#x} of {nsid}"
            for cns in (0x05, 0x1B):
                admin.identify(cns, nsid, target.sets[nsid])
        same(listed(admin.identify(0x10)), target.nsids, "allocated")


@check
def a_command_set_has_its_namespaces(target):
    with target.admin() as admin:
        for csi in (0, 1):
            wanted = [nsid for nsid in target.nsids if target.sets[nsid] == csi]
            same(listed(admin.identify(0x07, 0, csi)), wanted, "CNS 07h")
            same(listed(admin.identify(0x1A, 0, csi)), wanted, "CNS 1Ah")
            admin.identify(0x06, 0, csi)
        same(number(admin.identify(0x1C, cntid=0xFFFF), 0, 8) & 3, 3, "CNS 1Ch")


@check
def namespaces_are_listed_from_the_one_given_on(target):
    with target.admin() as admin:
        first = target.nsids[0]
        same(listed(admin.identify(0x02, first)), target.nsids[1:])
        same(admin.run(command(0x06, EVERY, transport(4096), cdw10=2)).status, SC_INVALID_NAMESPACE)


@check
def a_host_of_blocks_alone_has_no_keys(target):
    with target.admin(css=0) as admin:
        assert target.keys not in listed(admin.identify(0x02))
        assert not any(admin.identify(0x00, target.keys)), "inactive"


@check
def namespaces_that_are_not_there_are_zeroes_or_an_error(target):
    with target.admin() as admin:
        assert not any(admin.identify(0x00, 40))
        for nsid in (0, 0xFFFFFFFE):
            status = admin.run(command(0x06, nsid, transport(4096))).status
            same(status, SC_INVALID_NAMESPACE)
        assert admin.identify(0x00, EVERY)[25] < 64, "NLBAF of all"


@check
def an_unknown_structure_is_an_invalid_field(target):
    with target.admin() as admin:
        same(admin.run(command(0x06, 0, transport(4096), cdw10=0x77)).status, SC_INVALID_FIELD)


@check
def an_identify_without_a_descriptor_is_refused(target):
    with target.admin() as admin:
        same(admin.run(command(0x06, cdw10=1)).status, SC_SGL_TYPE)
        same(admin.run(command(0x06, 0, transport(512), cdw10=1)).status, SC_SGL_LENGTH)


@check
def admin_commands_without_data_take_any_descriptor(target):
    with target.admin() as admin:
        for sgl, flags in UNUSED:
            for entry in (
                command(0x18, 0, sgl, flags),
                command(0x18, EVERY, sgl, flags),
                command(0x08, 0, sgl, flags, cdw10=77 << 16),
                command(0x0A, 0, sgl, flags, cdw10=7),
                command(0x09, 0, sgl, flags, cdw10=7, cdw11=1 << 16 | 1),
                command(0x09, 0, sgl, flags, cdw10=0x0B, cdw11=0x100),
                command(0x7F, 0x04, sgl, flags, cdw11=8),
                command(0x7F, 0x00, sgl, flags, cdw11=0x14, cdw12=0x00460061),
            ):
                same(admin.ok(entry).data, b"")


@check
def data_in_the_capsule_of_a_command_without_data_is_refused(target):
    with target.admin() as admin:
        for entry in (
            command(0x18, 0, in_capsule(512)),
            command(0x0A, 0, in_capsule(512), cdw10=7),
            command(0x09, 0, in_capsule(512), cdw10=0x0B),
        ):
            same(admin.run(entry, bytes(512)).status, SC_SGL_LENGTH)


@check
def features_are_got_as_they_were_set(target):
    with target.admin() as admin:
        granted = admin.set_feature(0x07, 3 << 16 | 3)
        assert granted & 0xFFFF >= 3 and granted >> 16 >= 3, "Number of Queues"
        admin.set_feature(0x0B, 0x100)
        same(admin.feature(0x0B), 0x100, "Asynchronous Event Configuration")
        admin.set_feature(0x0F, 60_000)
        same(admin.feature(0x0F), 60_000, "Keep Alive Timer")


@check
def an_unknown_feature_is_an_invalid_field(target):
    with target.admin() as admin:
        same(admin.run(command(0x0A, cdw10=0x7E)).status, SC_INVALID_FIELD)
        same(admin.run(command(0x09, cdw10=0x7E)).status, SC_INVALID_FIELD)


@check
def an_event_request_is_aborted(target):
    with target.admin() as admin:
        request = admin.send(command(0x0C))
        same(admin.ok(command(0x08, cdw10=request << 16)).dw0 & 1, 0, "aborted")
        same(admin.wait(request).status, SC_ABORTED)


@check
def event_requests_have_a_limit(target):
    with target.admin() as admin:
        limit = admin.identify(0x01)[259] + 1
        for _ in range(limit):
            admin.send(command(0x0C))
        same(admin.run(command(0x0C)).status, SC_EVENT_LIMIT)


@check
def an_abort_of_nothing_says_so(target):
    with target.admin() as admin:
        same(admin.ok(command(0x08, cdw10=0x7F00 << 16)).dw0 & 1, 1)


@check
def queue_and_doorbell_commands_are_unknown_and_not_announced(target):
    with target.admin() as admin:
        page = admin.log(0x05, 4096)
        for opcode in (0x00, 0x01, 0x04, 0x05, 0x7C):
            same(admin.run(command(opcode)).status, SC_INVALID_OPCODE, f"{opcode:#x}")
            same(page[4 * opcode] & 1, 0, f"{opcode:#x}")


@check
def the_effects_log_announces_what_is_known(target):
    with target.host() as (admin, io):
        for csi, nsid in ((0, target.blocks), (1, target.keys)):
            page = admin.log(0x05, 4096, csi=csi)
            for opcode in set(range(256)) - {0x7F}:
                status = io.run(command(opcode, nsid)).status
                same(status != SC_INVALID_OPCODE, bool(page[1024 + 4 * opcode] & 1), f"{csi} {opcode:#x}")
            for opcode in set(range(256)) - {0x0C, 0x7F}:
                status = admin.run(command(opcode)).status
                same(status != SC_INVALID_OPCODE, bool(page[4 * opcode] & 1), f"admin {opcode:#x}")


@check
def every_supported_log_page_can_be_read(target):
    with target.admin() as admin:
        supported = admin.log(0x00, 1024)
        pages = [page for page in range(256) if supported[4 * page] & 1]
        assert {0x01, 0x02, 0x03, 0x05} <= set(pages), pages
        for page in pages:
            # Telemetry is read by whole blocks.
            admin.log(page, 512)
        missing = next(page for page in range(1, 256) if page not in pages)
        same(admin.run(command(0x02, 0, transport(64), cdw10=missing | 15 << 16)).status, SC_INVALID_LOG)


@check
def health_is_that_of_a_sound_device(target):
    with target.admin() as admin:
        log = admin.log(0x02, 512)
        same(log[0], 0, "critical warning")
        assert 250 < number(log, 1, 2) < 360, "temperature"
        assert number(log, 112, 8) >= 1, "power cycles"


@check
def a_failed_command_is_in_the_error_log(target):
    with target.admin() as admin:
        failed = admin.run(command(0x7E))
        entry = admin.log(0x01, 64)
        same((number(entry, 8, 2), number(entry, 10, 2)), (0, failed.cid), "queue and command")
        same(number(entry, 12, 2) >> 1 & 0x7FF, failed.status)


@check
def the_firmware_log_has_a_slot(target):
    with target.admin() as admin:
        log = admin.log(0x03, 512)
        same(log[0] & 7, 1, "active slot")
        same(log[8:16], admin.identify(0x01)[64:72], "FR")


@check
def a_log_is_read_in_parts(target):
    with target.admin() as admin:
        whole = admin.log(0x05, 4096)
        same(admin.log(0x05, 1024, offset=1024), whole[1024:2048])


@check
def the_ana_log_is_there_where_it_is_announced(target):
    with target.admin() as admin:
        is_announced = admin.identify(0x01)[76] >> 3 & 1
        status = admin.run(command(0x02, 0, transport(64), cdw10=0x0C | 15 << 16)).status
        same(status, 0 if is_announced else SC_INVALID_LOG)


@check
def the_discovery_log_names_the_subsystem(target):
    with target.discover() as host:
        generation, records = struct.unpack_from("<QQ", host.log(0x70, 1024))
        log = host.log(0x70, 1024 * (1 + records))
        entries = [log[at : at + 1024] for at in range(1024, len(log), 1024)]
        names = [entry[256:512].rstrip(b"\0").decode() for entry in entries]
        assert target.nqn in names, names
        entry = entries[names.index(target.nqn)]
        same((entry[0], entry[2]), (3, 2), "TRTYPE and SUBTYPE")
        same(int(entry[32:64].rstrip(b"\0 ")), target.address[1], "TRSVCID")
        same(host.log(0x70, 1024, offset=1024), log[1024:2048], "a part")
        same(struct.unpack_from("<Q", host.log(0x70, 1024))[0], generation, "GENCTR")


@check
def a_discovery_controller_takes_commands_without_descriptors(target):
    with target.discover() as host:
        same(host.identify(0x01)[111], 2, "CNTRLTYPE")
        host.ok(command(0x18))
        host.set_feature(0x0B, 1 << 31)
        same(host.feature(0x0B), 1 << 31)
        host.send(command(0x0C))
        same(host.run(command(0x02, 0, transport(64), cdw10=0x02 | 15 << 16)).status, SC_INVALID_LOG)
        same(host.run(command(0x0D)).status, SC_INVALID_OPCODE)
