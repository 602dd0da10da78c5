//! The lower bound: the same bytes both ways over a bare socket, both sides polling; one at a time, or as many at once as a queue is
//! deep, by as few system calls as the two sides of a queue make.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use byway_benches::rounds::{Case, each};

use crate::load::Work;
use crate::side::OtherSide;

/// After so long without a ping the other side sleeps until the next, so that it takes no processor from other cases.
const LOOKING: Duration = Duration::from_millis(1);

/// Bytes that the target receives at once, that it sends together, and that the initiator receives at once.
const PINGS_BYTES: usize = 256 << 10;
const PONGS_BYTES: usize = 64 << 10;
const INBOX_BYTES: usize = 64 << 10;

/// Bytes of one exchange, each way.
pub struct PingPong {
    name: String,
    depth: u32,
    stream: TcpStream,
    /// As many pings as are sent at once.
    pings: Vec<u8>,
    ping_bytes: usize,
    pong_bytes: usize,
    inbox: Vec<u8>,
    _other: OtherSide,
}

impl PingPong {
    /// With another side of its own.
    pub fn start(work: Work, depth: u32, cpu: usize) -> Result<Self> {
        let (ping_bytes, pong_bytes) = work.wire_bytes();
        let name = match depth {
            1 => format!("ping-pong {}", work.name()),
            _ => format!("ping-pong {}", work.name_of_many()),
        };
        let other = OtherSide::start(&name.replace(' ', "-"), &[], cpu)?;
        let stream = TcpStream::connect(other.said.parse::<SocketAddr>()?)?;
        let sizes = [ping_bytes as u32, pong_bytes as u32].map(u32::to_le_bytes);
        (&stream).write_all(sizes.as_flattened())?;
        look_only(&stream)?;
        let (pings, inbox) = (vec![1; ping_bytes * depth as usize], vec![0; pong_bytes.max(INBOX_BYTES)]);
        Ok(Self { name, depth, stream, pings, ping_bytes, pong_bytes, inbox, _other: other })
    }

    fn one_at_a_time(&mut self, calls: u32, singles: &mut Vec<u32>) -> Result<u64> {
        let Self { stream, pings, inbox, pong_bytes, .. } = self;
        each(calls, singles, || {
            send(stream, pings)?;
            let mut left = *pong_bytes;
            while left > 0 {
                left -= receive(stream, &mut inbox[..left])?;
            }
            Ok(())
        })
    }

    /// As a queue does it: what is free is sent together, once nothing more has come.
    fn many_at_a_time(&mut self, calls: u32) -> Result<u64> {
        let begun = Instant::now();
        let (depth, mut left, mut have) = (self.depth as usize, calls as usize, 0);
        let mut free = depth;
        while left > 0 || free < depth {
            let now = free.min(left);
            send(&self.stream, &self.pings[..now * self.ping_bytes])?;
            (free, left) = (free - now, left - now);
            loop {
                let came = receive(&self.stream, &mut self.inbox)?;
                have += came;
                if came == 0 {
                    break;
                }
            }
            free += have / self.pong_bytes;
            have %= self.pong_bytes;
        }
        Ok(begun.elapsed().as_nanos() as u64)
    }
}

fn look_only(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    Ok(stream.set_nonblocking(true)?)
}

impl Case for PingPong {
    fn name(&self) -> &str {
        &self.name
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn round(&mut self, calls: u32, singles: &mut Vec<u32>) -> Result<u64> {
        match self.depth {
            1 => self.one_at_a_time(calls, singles),
            _ => self.many_at_a_time(calls),
        }
    }
}

fn send(mut stream: &TcpStream, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Receives what is there; 0 where nothing is.
fn receive(mut stream: &TcpStream, into: &mut [u8]) -> Result<usize> {
    match stream.read(into) {
        Ok(0) => bail!("the other side left"),
        Ok(came) => Ok(came),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// The other side: says where it listens, and answers one that comes.
pub fn answer(report: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    report(listener.local_addr()?)?;
    let (mut stream, _) = listener.accept()?;
    let mut sizes = [0; 8];
    stream.read_exact(&mut sizes)?;
    let [ping_bytes, pong_bytes] = [0, 4]
        .map(|at| u32::from_le_bytes([sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]]) as usize);
    let together = PONGS_BYTES.div_ceil(pong_bytes);
    let (mut pings, pongs) = (vec![0; PINGS_BYTES], vec![1; together * pong_bytes]);
    look_only(&stream)?;
    let (mut have, mut busy) = (0, Instant::now());
    loop {
        match stream.read(&mut pings) {
            Ok(0) => return Ok(()),
            Ok(came) => have += came,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if busy.elapsed() > LOOKING {
                    wait(&stream)?;
                    busy = Instant::now();
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        while have >= ping_bytes {
            let now = (have / ping_bytes).min(together);
            send(&stream, &pongs[..now * pong_bytes])?;
            have -= now * ping_bytes;
        }
        busy = Instant::now();
    }
}

/// Sleeps until something is there, or the end.
fn wait(stream: &TcpStream) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.peek(&mut [0])?;
    Ok(stream.set_nonblocking(true)?)
}
