//! The floor: as many bytes there and as many back over a bare socket, both sides looking without sleep.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use byway_benches::rounds::{Case, each};

use crate::load::Work;
use crate::side::OtherSide;

/// After so long without a ping the other side sleeps until the next: it would be in the way of others.
const LOOKING: Duration = Duration::from_millis(1);

/// The bytes of one work there and back.
pub struct PingPong {
    name: String,
    stream: TcpStream,
    ping: Vec<u8>,
    pong: Vec<u8>,
    _other: OtherSide,
}

impl PingPong {
    /// With another side of its own.
    pub fn start(work: Work, cpu: usize) -> Result<Self> {
        let (ping, pong) = work.wire_bytes();
        let other = OtherSide::start(&format!("ping-{}", work.name()), &[], cpu)?;
        let stream = TcpStream::connect(other.said.parse::<SocketAddr>()?)?;
        let sizes = [ping as u32, pong as u32].map(u32::to_le_bytes);
        (&stream).write_all(sizes.as_flattened())?;
        look_only(&stream)?;
        let name = format!("ping-pong {}", work.name());
        Ok(Self { name, stream, ping: vec![1; ping], pong: vec![0; pong], _other: other })
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

    fn round(&mut self, calls: u32, singles: &mut Vec<u32>) -> Result<u64> {
        let Self { stream, ping, pong, .. } = self;
        each(calls, singles, || {
            send(stream, ping)?;
            match receive(stream, pong, None)? {
                Came::All => Ok(()),
                _ => bail!("the other side left"),
            }
        })
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

enum Came {
    All,
    Nothing,
    End,
}

/// Receives until `into` is full; where nothing comes for `patience`, nothing.
fn receive(mut stream: &TcpStream, into: &mut [u8], patience: Option<Duration>) -> Result<Came> {
    let begun = Instant::now();
    let mut have = 0;
    while have < into.len() {
        match stream.read(&mut into[have..]) {
            Ok(0) => return Ok(Came::End),
            Ok(came) => have += came,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let is_over = have == 0 && patience.is_some_and(|patience| begun.elapsed() > patience);
                if is_over {
                    return Ok(Came::Nothing);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Came::All)
}

/// The other side: says where it listens, and answers one that comes.
pub fn answer(tell: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    tell(listener.local_addr()?)?;
    let (mut stream, _) = listener.accept()?;
    let mut sizes = [0; 8];
    stream.read_exact(&mut sizes)?;
    let [ping, pong] =
        [0, 4].map(|at| u32::from_le_bytes([sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]]));
    let (mut ping, pong) = (vec![0; ping as usize], vec![1; pong as usize]);
    look_only(&stream)?;
    loop {
        match receive(&stream, &mut ping, Some(LOOKING))? {
            Came::All => send(&stream, &pong)?,
            Came::Nothing => {
                stream.set_nonblocking(false)?;
                // Until something is there, or the end.
                let mut first = [0];
                stream.peek(&mut first)?;
                stream.set_nonblocking(true)?;
            }
            Came::End => return Ok(()),
        }
    }
}
