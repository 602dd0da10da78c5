//! A host of its own bytes: PDUs, commands and digests are put together here from the specification alone, with nothing of the
//! codec, the initiator or the structures that the target is built of. It sends what other hosts were seen to send.

mod connecting;
mod descriptors;
mod effects;
mod exec;
mod identify;
mod many;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::served::{SUBSYSTEM, Served, TIMEOUT};

/// The name that it has.
const NAME: &str = "nqn.2026-01.example:raw-host";

/// Statuses by type and code, as in bits 11:1 of a completion's last word.
const SUCCESS: u16 = 0;
const INVALID_OPCODE: u16 = 0x01;
const INVALID_FIELD: u16 = 0x02;
const ABORT_REQUESTED: u16 = 0x07;
const INVALID_NAMESPACE: u16 = 0x0b;
const SGL_LENGTH_INVALID: u16 = 0x0f;
const SGL_TYPE_INVALID: u16 = 0x11;
const CONNECT_INVALID: u16 = 0x182;

const ICREQ: u8 = 0x00;
const CAPSULE_COMMAND: u8 = 0x04;
const CAPSULE_RESPONSE: u8 = 0x05;
const H2C_DATA: u8 = 0x06;
const C2H_DATA: u8 = 0x07;
const R2T: u8 = 0x09;

/// SGL1 as a command has it: bytes 39:24.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Descriptor([u8; 16]);

impl Descriptor {
    const ZERO: Self = Self([0; 16]);
    const GARBAGE: Self = Self([0xff; 16]);

    fn new(kind: u8, len: usize) -> Self {
        let mut bytes = [0; 16];
        bytes[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        bytes[15] = kind;
        Self(bytes)
    }

    /// A transport data block: data that the transport moves.
    fn transport(len: usize) -> Self {
        Self::new(0x5a, len)
    }

    /// Data in the capsule.
    fn in_capsule(len: usize) -> Self {
        Self::new(0x01, len)
    }
}

/// A command of 64 bytes. Its identifier is given when it is sent.
#[derive(Debug, Clone, Copy)]
struct Entry([u8; 64]);

impl Entry {
    fn new(opcode: u8, nsid: u32) -> Self {
        let mut bytes = [0; 64];
        (bytes[0], bytes[1]) = (opcode, 0x40);
        bytes[4..8].copy_from_slice(&nsid.to_le_bytes());
        Self(bytes)
    }

    /// A fabrics command.
    fn fabrics(kind: u8) -> Self {
        Self::new(0x7f, kind.into())
    }

    /// Dword `n` of the command.
    fn cdw(mut self, n: usize, value: u32) -> Self {
        self.0[n * 4..n * 4 + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn described(mut self, Descriptor(bytes): Descriptor) -> Self {
        self.0[24..40].copy_from_slice(&bytes);
        self
    }

    /// FUSE and PSDT.
    fn flags(mut self, flags: u8) -> Self {
        self.0[1] = flags;
        self
    }

    /// The first eight bytes of a key, and its length.
    fn key(mut self, key: &[u8]) -> Self {
        self.0[8..8 + key.len()].copy_from_slice(key);
        self.0[44] = key.len() as u8;
        self
    }
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    cid: u16,
    /// SCT and SC.
    status: u16,
    result: u64,
    data: Vec<u8>,
}

/// A connection.
struct RawHost {
    stream: TcpStream,
    next_cid: u16,
}

impl RawHost {
    fn open(at: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut icreq = [0; 128];
        (icreq[0], icreq[2], icreq[4]) = (ICREQ, 128, 128);
        stream.write_all(&icreq).unwrap();
        let mut icresp = [0; 128];
        stream.read_exact(&mut icresp).unwrap();
        assert_eq!((icresp[0], icresp[2], icresp[4], icresp[10]), (1, 128, 128, 0));
        assert_eq!(icresp[11], 0, "no digests were asked for");
        Self { stream, next_cid: 100 }
    }

    /// An admin queue whose controller is ready, for command sets by CC.CSS.
    fn admin(served: &Served, css: u32) -> (Self, u16) {
        let mut host = Self::open(served.address());
        let answer = host.connect(&Connecting::admin());
        assert_eq!(answer.status, SUCCESS);
        host.set_cc(0x0046_0001 | css << 4);
        (host, answer.result as u16)
    }

    /// An I/O queue of a controller.
    fn io(served: &Served, qid: u16, controller: u16) -> Self {
        let mut host = Self::open(served.address());
        let answer = host.connect(&Connecting { qid, controller, ..Connecting::admin() });
        assert_eq!(answer.status, SUCCESS);
        host
    }

    fn connect(&mut self, connecting: &Connecting) -> Answer {
        let data = connecting.data();
        let entry = Entry::fabrics(1)
            .cdw(10, u32::from(connecting.qid) << 16)
            .cdw(11, 31)
            .described(Descriptor::in_capsule(1024));
        self.run(entry, &data)
    }

    fn set_cc(&mut self, cc: u32) {
        assert_eq!(self.run(Entry::fabrics(0).cdw(11, 0x14).cdw(12, cc), &[]).status, SUCCESS);
        assert_eq!(self.property(0x1c, 4) & 1, 1, "CSTS.RDY");
    }

    fn property(&mut self, offset: u32, bytes: usize) -> u64 {
        let answer = self.run(Entry::fabrics(4).cdw(10, u32::from(bytes == 8)).cdw(11, offset), &[]);
        assert_eq!(answer.status, SUCCESS);
        answer.result
    }

    /// Sends a command with data in its capsule, and its identifier.
    fn send(&mut self, Entry(mut entry): Entry, in_capsule: &[u8]) -> u16 {
        self.next_cid += 1;
        entry[2..4].copy_from_slice(&self.next_cid.to_le_bytes());
        let mut pdu = vec![CAPSULE_COMMAND, 0, 72, if in_capsule.is_empty() { 0 } else { 72 }];
        pdu.extend((72 + in_capsule.len() as u32).to_le_bytes());
        pdu.extend(entry);
        pdu.extend(in_capsule);
        self.stream.write_all(&pdu).unwrap();
        self.next_cid
    }

    /// Does one command, with data in its capsule.
    fn run(&mut self, entry: Entry, in_capsule: &[u8]) -> Answer {
        let cid = self.send(entry, in_capsule);
        let answer = self.answer(&[]);
        assert_eq!(answer.cid, cid);
        answer
    }

    /// Does one command whose data the controller asks for.
    fn run_asked(&mut self, entry: Entry, data: &[u8]) -> Answer {
        self.send(entry.described(Descriptor::transport(data.len())), &[]);
        self.answer(data)
    }

    /// Does one command that reads.
    fn read(&mut self, entry: Entry, bytes: usize) -> Answer {
        self.run(entry.described(Descriptor::transport(bytes)), &[])
    }

    /// The next answer. `data` is given where it is asked for.
    fn answer(&mut self, data: &[u8]) -> Answer {
        let mut read = Vec::new();
        loop {
            let (header, rest) = self.receive();
            match header[0] {
                CAPSULE_RESPONSE => {
                    let entry = &header[8..24];
                    return Answer {
                        cid: u16::from_le_bytes([entry[12], entry[13]]),
                        status: u16::from_le_bytes([entry[14], entry[15]]) >> 1 & 0x7ff,
                        result: number(entry, 0, 8),
                        data: read,
                    };
                }
                C2H_DATA => {
                    assert_eq!(number(&header, 12, 4), read.len() as u64, "data comes in order");
                    assert_eq!(number(&header, 16, 4), rest.len() as u64);
                    read.extend(rest);
                }
                R2T => self.give(&header, data),
                other => panic!("PDU {other:#x}: {header:x?}"),
            }
        }
    }

    /// Sends what an R2T asks for.
    fn give(&mut self, asked: &[u8], data: &[u8]) {
        let (offset, len) = (number(asked, 12, 4) as usize, number(asked, 16, 4) as usize);
        let piece = &data[offset..offset + len];
        const LAST: u8 = 1 << 2;
        let mut pdu = vec![H2C_DATA, LAST, 24, 24];
        pdu.extend((24 + len as u32).to_le_bytes());
        pdu.extend(&asked[8..20]);
        pdu.extend([0; 4]);
        pdu.extend(piece);
        self.stream.write_all(&pdu).unwrap();
    }

    /// A PDU: its header, and its data.
    fn receive(&mut self) -> (Vec<u8>, Vec<u8>) {
        let mut header = vec![0; 8];
        self.stream.read_exact(&mut header).unwrap();
        let (header_bytes, whole) = (usize::from(header[2]), number(&header, 4, 4) as usize);
        let mut pdu = vec![0; whole - 8];
        self.stream.read_exact(&mut pdu).unwrap();
        header.extend(pdu);
        let data_at = if header[3] == 0 { header_bytes } else { usize::from(header[3]) };
        let data = header.split_off(data_at);
        (header, data)
    }
}

/// What a Connect says.
#[derive(Debug, Clone, Copy)]
struct Connecting {
    qid: u16,
    controller: u16,
    host_id: [u8; 16],
    host: &'static str,
}

impl Connecting {
    fn admin() -> Self {
        Self { qid: 0, controller: 0xffff, host_id: [0x11; 16], host: NAME }
    }

    fn data(&self) -> Vec<u8> {
        let mut data = vec![0; 1024];
        data[..16].copy_from_slice(&self.host_id);
        data[16..18].copy_from_slice(&self.controller.to_le_bytes());
        data[256..256 + SUBSYSTEM.len()].copy_from_slice(SUBSYSTEM.as_bytes());
        data[512..512 + self.host.len()].copy_from_slice(self.host.as_bytes());
        data
    }
}

/// A little-endian number.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
