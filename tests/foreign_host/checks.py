"""What checks have in common: where the target is, connections to it, and the list of checks."""

import contextlib
import struct

import nvme_tcp
from nvme_tcp import Connection, Terminated

SC_INVALID_OPCODE, SC_INVALID_FIELD, SC_ABORTED = 0x01, 0x02, 0x07
SC_INVALID_NAMESPACE, SC_SEQUENCE, SC_SGL_LENGTH, SC_SGL_TYPE = 0x0B, 0x0C, 0x0F, 0x11
SC_TRANSIENT, SC_LBA_RANGE, SC_COMPARE, SC_EVENT_LIMIT = 0x22, 0x80, 0x285, 0x105
SC_CONNECT_INVALID, SC_INVALID_LOG = 0x182, 0x109
SC_KEY_SIZE, SC_NO_KEY, SC_KEY_EXISTS = 0x86, 0x87, 0x89
EVERY = 0xFFFFFFFF

ALL = []


def check(function):
    """Puts a check on the list."""
    ALL.append(function)
    return function


def same(found, wanted, what=""):
    """Fails where two values differ."""
    assert found == wanted, f"{what} {found!r:.80}, not {wanted!r:.80}".strip()


class Target:
    """A served subsystem with a namespace of blocks and one of keys."""

    def __init__(self, address, nqn, discovery):
        self.address, self.nqn, self.discovery = address, nqn, discovery
        with self.admin() as admin:
            self.nsids = listed(admin.identify(0x02))
            sets = {nsid: command_set(admin.identify(0x03, nsid)) for nsid in self.nsids}
        self.blocks = next(nsid for nsid, csi in sets.items() if csi == 0)
        self.keys = next(nsid for nsid, csi in sets.items() if csi == 1)
        self.sets = sets

    def open(self, digests=0):
        """A connection that is agreed on."""
        return Connection(self.address, digests)

    def admin(self, digests=0, css=6):
        """An admin queue whose controller is ready."""
        admin = self.open(digests)
        answer = admin.connect(self.nqn)
        same(answer.status, 0, "Connect")
        admin.controller = answer.dw0 & 0xFFFF
        admin.enable(css)
        return admin

    def queue(self, admin, qid=1, digests=0, **fields):
        """An I/O queue of its controller."""
        io = self.open(digests)
        same(io.connect(self.nqn, qid, admin.controller, **fields).status, 0, "Connect")
        return io

    @contextlib.contextmanager
    def host(self, digests=0):
        """An admin queue and an I/O queue."""
        with self.admin(digests) as admin, self.queue(admin, 1, digests) as io:
            yield admin, io

    def discover(self):
        """A discovery controller that is ready."""
        host = Connection(self.discovery)
        same(host.connect(nvme_tcp.DISCOVERY_NQN).status, 0, "Connect")
        host.enable(0)
        return host


def listed(page):
    """Identifiers of a namespace list."""
    numbers = struct.unpack("<1024I", page)
    return list(numbers[: numbers.index(0)])


def command_set(descriptors):
    """CSI of a list of namespace identification descriptors."""
    at = 0
    while descriptors[at + 1]:
        if descriptors[at] == 4:
            return descriptors[at + 4]
        at += 4 + descriptors[at + 1]
    raise AssertionError("no CSI descriptor")


def ends(connection):
    """The status of the termination request that ends a connection: None where there was none."""
    try:
        while True:
            connection.receive()
    except Terminated as end:
        return end.fes


def pattern(length, seed=1):
    """Bytes that differ by seed and place."""
    return bytes((at * 7 + at // 256 + seed * 31) & 0xFF for at in range(length))
