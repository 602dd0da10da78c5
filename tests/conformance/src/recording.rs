//! What both ends of TCP connections send, handed on and kept as packets that any dissector reads.

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use byway_kit::{PIECE_BYTES_MAX, accept_while, copy};
use parking_lot::Mutex;

/// The port that packets name for the target, whichever it has: one that dissectors know.
pub const PORT: u16 = 4420;

const IP_BYTES: usize = 20;
const TCP_BYTES: usize = 20;
const _: () =
    assert!(IP_BYTES + TCP_BYTES + PIECE_BYTES_MAX <= u16::MAX as usize, "a piece fits into a packet");
/// Linktype of packets that begin with their IP header.
const RAW_IP: u32 = 101;

/// Stands between hosts and one target.
pub struct Recording {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    packets: Mutex<Packets>,
    /// Threads that copy, two for each connection.
    copying: Mutex<Vec<JoinHandle<()>>>,
}

/// A file of packets, and how many bytes they carry.
struct Packets {
    file: std::fs::File,
    payload_bytes: u64,
}

/// One way of one connection.
struct Way {
    from_port: u16,
    to_port: u16,
    sequence: u32,
}

impl Recording {
    /// Hands on what comes to [`address`](Self::address), and keeps it in a file at `path` (pcap).
    pub fn start(target: SocketAddr, path: &Path) -> Self {
        let packets = Mutex::new(Packets::create(path));
        let shared = Arc::new(Shared { packets, copying: Mutex::default() });
        let theirs = Arc::clone(&shared);
        let take = move |host| {
            theirs.carry(&host, &TcpStream::connect(target).unwrap());
            true
        };
        Self { address: accept_while(take).unwrap(), shared }
    }

    /// Where hosts connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all connections have ended. How many bytes both ends sent.
    pub fn finish(self) -> u64 {
        let copying = std::mem::take(&mut *self.shared.copying.lock());
        copying.into_iter().for_each(|thread| thread.join().unwrap());
        self.shared.packets.lock().payload_bytes
    }
}

impl Shared {
    fn carry(self: &Arc<Self>, host: &TcpStream, target: &TcpStream) {
        let port = host.peer_addr().unwrap().port();
        let there = Way { from_port: port, to_port: PORT, sequence: 1 };
        let back = Way { from_port: PORT, to_port: port, sequence: 1 };
        let both = [self.hand_on(host, target, there), self.hand_on(target, host, back)];
        self.copying.lock().extend(both);
    }

    fn hand_on(self: &Arc<Self>, from: &TcpStream, to: &TcpStream, mut way: Way) -> JoinHandle<()> {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            copy(&from, &to, |bytes| {
                shared.packets.lock().keep(&mut way, bytes);
                true
            });
            _ = to.shutdown(Shutdown::Write);
        })
    }
}

impl Packets {
    fn create(path: &Path) -> Self {
        let mut file = std::fs::File::create(path).unwrap();
        // Magic, version 2.4, two unused words, the longest packet, what packets begin with.
        for word in [0xA1B2_C3D4, 0x0004_0002, 0, 0, 1 << 16, RAW_IP] {
            file.write_all(&u32::to_le_bytes(word)).unwrap();
        }
        Self { file, payload_bytes: 0 }
    }

    fn keep(&mut self, way: &mut Way, payload: &[u8]) {
        let packet = way.packet(payload);
        let bytes = packet.len() as u32;
        let header: Vec<u8> = [0, 0, bytes, bytes].into_iter().flat_map(u32::to_le_bytes).collect();
        self.file.write_all(&header).unwrap();
        self.file.write_all(&packet).unwrap();
        self.payload_bytes += payload.len() as u64;
    }
}

impl Way {
    /// An IPv4 datagram with a TCP segment. Their checksums are not checked.
    fn packet(&mut self, payload: &[u8]) -> Vec<u8> {
        const VERSION_AND_WORDS: u8 = 0x45;
        const TCP: u8 = 6;
        const PUSH_AND_ACK: u8 = 0x18;
        let total = (IP_BYTES + TCP_BYTES + payload.len()) as u16;
        let mut packet = Vec::with_capacity(usize::from(total));
        packet.extend([VERSION_AND_WORDS, 0]);
        packet.extend(total.to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, TCP, 0, 0]);
        packet.extend(Ipv4Addr::LOCALHOST.octets());
        packet.extend(Ipv4Addr::LOCALHOST.octets());
        packet.extend(self.from_port.to_be_bytes());
        packet.extend(self.to_port.to_be_bytes());
        packet.extend(self.sequence.to_be_bytes());
        packet.extend(1_u32.to_be_bytes());
        packet.extend([(TCP_BYTES as u8 / 4) << 4, PUSH_AND_ACK, 0xFF, 0xFF, 0, 0, 0, 0]);
        packet.extend(payload);
        self.sequence = self.sequence.wrapping_add(payload.len() as u32);
        packet
    }
}
