"""A host of NVMe/TCP in Python's standard library alone: PDUs, digests and commands put together from the specification.

It shares nothing with Byway. A command is 64 bytes of which every field that is not named is zero, its data pointer too.
"""

import itertools
import socket
import struct

TIMEOUT_S = 60

IC_REQ, IC_RESP, H2C_TERM, C2H_TERM = 0x00, 0x01, 0x02, 0x03
CAPSULE_CMD, CAPSULE_RESP, H2C_DATA, C2H_DATA, R2T = 0x04, 0x05, 0x06, 0x07, 0x09
HDGSTF, DDGSTF, LAST, SUCCESS_FLAG = 1, 2, 4, 8

HEADER_DIGEST, DATA_DIGEST = 1, 2

DISCOVERY_NQN = "nqn.2014-08.org.nvmexpress.discovery"
HOST_NQN = "nqn.2026-01.example:a-stranger-in-python"
HOST_ID = bytes(range(16))

PROPERTY_SET, CONNECT, PROPERTY_GET, DISCONNECT = 0x00, 0x01, 0x04, 0x08
CAP, VS, CC, CSTS = 0x00, 0x08, 0x14, 0x1C


def _table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = list(_table())


def crc32c(data):
    """CRC-32C (Castagnoli) of bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


class Terminated(Exception):
    """The controller ended the connection; `fes` is why, if it sent a termination request."""

    def __init__(self, fes):
        super().__init__(f"terminated, FES {fes}")
        self.fes = fes


class Failed(Exception):
    """A command ended with a status."""

    def __init__(self, status):
        super().__init__(f"status {status:#05x}")
        self.status = status


def transport(length):
    """A descriptor of data that the transport moves."""
    return struct.pack("<QI3xB", 0, length, 0x5A)


def in_capsule(length):
    """A descriptor of data in the capsule."""
    return struct.pack("<QI3xB", 0, length, 0x01)


NO_DESCRIPTOR = bytes(16)


class Answer:
    """A completion, and the data that came before it."""

    def __init__(self, cid, status, result, data):
        self.cid, self.status, self.result, self.data = cid, status, result, data

    @property
    def dw0(self):
        return self.result & 0xFFFFFFFF


def command(opcode, nsid=0, sgl=NO_DESCRIPTOR, flags=0x40, **dwords):
    """64 bytes of a command: dwords by name, as cdw10=7."""
    entry = bytearray(64)
    entry[0], entry[1] = opcode, flags
    struct.pack_into("<I", entry, 4, nsid)
    entry[24:40] = sgl
    for name, value in dwords.items():
        struct.pack_into("<I", entry, 4 * int(name[3:]), value)
    return entry


class Connection:
    """One TCP connection, which becomes one queue."""

    def __init__(self, address, digests=0):
        self.socket = socket.create_connection(address, TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.digests, self.max_h2c = 0, 0
        self._cids = itertools.count(1)
        self._sent, self._read, self.answers = {}, {}, {}
        self.icresp = self._initialize(digests)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def _initialize(self, digests):
        self.socket.sendall(struct.pack("<BBBBIHBBI112x", IC_REQ, 0, 128, 0, 128, 0, 0, digests, 0))
        answer = self._exactly(128)
        kind, _, hlen, _, plen, pfv, _, agreed, self.max_h2c = struct.unpack_from("<BBBBIHBBI", answer)
        if (kind, hlen, plen, pfv) != (IC_RESP, 128, 128, 0):
            raise Terminated(answer[8])
        self.digests = agreed
        return answer

    def _exactly(self, count):
        data = bytearray()
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise Terminated(None)
            data += piece
        return bytes(data)

    def pdu(self, kind, flags, header, data=b"", spoil_header=False, spoil_data=False):
        """The bytes of a PDU whose header, from byte 8 on, is `header`."""
        hlen = 8 + len(header)
        hdgst = 4 if self.digests & HEADER_DIGEST else 0
        ddgst = 4 if self.digests & DATA_DIGEST and data else 0
        flags |= (HDGSTF if hdgst else 0) | (DDGSTF if ddgst else 0)
        pdo = hlen + hdgst if data else 0
        head = struct.pack("<BBBBI", kind, flags, hlen, pdo, hlen + hdgst + len(data) + ddgst) + header
        parts = [head]
        if hdgst:
            parts.append(struct.pack("<I", crc32c(head) ^ int(spoil_header)))
        parts.append(data)
        if ddgst:
            parts.append(struct.pack("<I", crc32c(data) ^ int(spoil_data)))
        return b"".join(parts)

    def send(self, entry, capsule_data=b"", asked_data=b"", **spoil):
        """Sends a command, and its identifier. `asked_data` is sent when the controller asks for it."""
        cid = next(self._cids) & 0x7FFF
        entry = bytearray(entry)
        struct.pack_into("<H", entry, 2, cid)
        self._sent[cid], self._read[cid] = asked_data, bytearray()
        self.socket.sendall(self.pdu(CAPSULE_CMD, 0, bytes(entry), capsule_data, **spoil))
        return cid

    def wait(self, cid):
        """The answer to a command."""
        while cid not in self.answers:
            self.receive()
        return self.answers.pop(cid)

    def run(self, entry, capsule_data=b"", asked_data=b"", **spoil):
        """Does one command."""
        return self.wait(self.send(entry, capsule_data, asked_data, **spoil))

    def ok(self, entry, capsule_data=b"", asked_data=b""):
        """Does one command that must succeed."""
        answer = self.run(entry, capsule_data, asked_data)
        if answer.status:
            raise Failed(answer.status)
        return answer

    def receive(self):
        """Takes one PDU."""
        common = self._exactly(8)
        kind, flags, hlen, pdo, plen = struct.unpack("<BBBBI", common)
        rest = common + self._exactly(plen - 8)
        header = rest[:hlen]
        if kind == C2H_TERM:
            raise Terminated(struct.unpack_from("<H", header, 8)[0])
        if flags & HDGSTF:
            assert struct.unpack_from("<I", rest, hlen)[0] == crc32c(header), "header digest"
        assert bool(flags & HDGSTF) == bool(self.digests & HEADER_DIGEST), "HDGSTF as agreed"
        if kind == CAPSULE_RESP:
            self._complete(header[8:24])
        elif kind == C2H_DATA:
            self._data(header, flags, rest[pdo:plen])
        elif kind == R2T:
            self._give(header)
        else:
            raise AssertionError(f"PDU {kind:#x}")

    def _complete(self, entry):
        result, _, _, cid, status = struct.unpack("<QHHHH", entry)
        self.answers[cid] = Answer(cid, status >> 1 & 0x7FF, result, bytes(self._read.pop(cid)))

    def _data(self, header, flags, rest):
        cid, _, offset, length = struct.unpack_from("<HHII", header, 8)
        data = rest[:length]
        if flags & DDGSTF:
            assert struct.unpack_from("<I", rest, length)[0] == crc32c(data), "data digest"
            assert len(rest) == length + 4, "no padding before or behind a data digest"
        read = self._read[cid]
        assert offset == len(read), "data comes in order"
        read += data
        if flags & SUCCESS_FLAG:
            assert flags & LAST
            self.answers[cid] = Answer(cid, 0, 0, bytes(self._read.pop(cid)))

    def _give(self, header):
        cid, tag, offset, length = struct.unpack_from("<HHII", header, 8)
        data = self._sent[cid][offset : offset + length]
        assert len(data) == length, "it asks for what there is"
        for at in range(0, length, self.max_h2c):
            piece = data[at : at + self.max_h2c]
            last = LAST if at + len(piece) == length else 0
            head = struct.pack("<HHIII", cid, tag, offset + at, len(piece), 0)
            self.socket.sendall(self.pdu(H2C_DATA, last, head, piece))

    def connect(self, nqn, qid=0, controller=0xFFFF, host=HOST_NQN, host_id=HOST_ID, entries=32, **dwords):
        """Fabrics Connect."""
        data = bytearray(1024)
        data[0:16] = host_id
        struct.pack_into("<H", data, 16, controller)
        for at, name in ((256, nqn), (512, host)):
            data[at : at + len(name)] = name.encode()
        fields = {"cdw10": qid << 16, "cdw11": entries - 1, **dwords}
        return self.run(command(0x7F, CONNECT, in_capsule(1024), **fields), bytes(data))

    def property(self, offset, size=4):
        """Property Get."""
        return self.ok(command(0x7F, PROPERTY_GET, cdw10=int(size == 8), cdw11=offset)).result

    def set_property(self, offset, value):
        """Property Set of four bytes: its status."""
        return self.run(command(0x7F, PROPERTY_SET, cdw11=offset, cdw12=value)).status

    def enable(self, css=6):
        """Enables the controller, for these command sets."""
        assert self.set_property(CC, 0x00460001 | css << 4) == 0
        assert self.property(CSTS) & 1, "CSTS.RDY"

    def identify(self, cns, nsid=0, csi=0, cntid=0):
        """Identify: 4096 bytes."""
        entry = command(0x06, nsid, transport(4096), cdw10=cns | cntid << 16, cdw11=csi << 24)
        return self.ok(entry).data

    def log(self, page, length, offset=0, csi=0, retain=False):
        """A part of a log page."""
        dwords = length // 4 - 1
        cdw10 = page | int(retain) << 15 | (dwords & 0xFFFF) << 16
        fields = {"cdw11": dwords >> 16, "cdw12": offset, "cdw14": csi << 24}
        return self.ok(command(0x02, 0, transport(length), cdw10=cdw10, **fields)).data

    def feature(self, fid):
        """Get Features without data."""
        return self.ok(command(0x0A, cdw10=fid)).dw0

    def set_feature(self, fid, value):
        """Set Features without data."""
        return self.ok(command(0x09, cdw10=fid, cdw11=value)).dw0
