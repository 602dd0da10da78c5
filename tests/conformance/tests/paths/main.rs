//! A device that is reached by several ports of its server: which of them gets commands, and what becomes of commands when one is
//! lost.

#![allow(clippy::unwrap_used, clippy::panic)]

mod aborting;
mod authentication;
mod choosing;
mod failover;
mod forwarding;
mod ordering;
mod relay;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use byway::serve::{AnaSetting, PortId, ServeOptions, TcpOptions};
use byway::tcp::AnaState;
use byway::{
    Backend, BackendQueue, Buffer, Command, Device, Finished, KvCommand, Nsid, NvmCommand, Payload, Queue,
    QueueOptions,
};
use byway_conformance::served::Serving;
use relay::Relay;

/// Ends of waits that nothing should reach.
const LONG: Duration = Duration::from_secs(60);

const LBA_BYTES: usize = 512;

/// A device with keys and blocks, served at two ports, each behind a relay.
struct Served {
    relays: [Relay; 2],
    serving: Serving,
}

fn two_ports() -> TcpOptions {
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    TcpOptions::at_each([anywhere; 2])
}

impl Served {
    fn new() -> Self {
        Self::with(two_ports())
    }

    fn with(tcp: TcpOptions) -> Self {
        let serving = Serving::start_with("ram:64M", &ServeOptions::over_tcp(tcp));
        let relays = [0, 1].map(|port| Relay::to(serving.tcp_addresses()[port]));
        Self { relays, serving }
    }

    fn uri(&self, options: &str) -> String {
        let portals = [0, 1].map(|port| self.relays[port].address);
        format!("{}?{options}", self.serving.uri_by(&portals))
    }

    /// Opens it, and waits until both paths are live.
    fn open(&self, options: &str) -> Device {
        let device = byway::open(&self.uri(options)).unwrap();
        stand(&device, 2);
        device
    }

    fn set(&self, port: u16, state: AnaState) {
        self.serving.paths().set(AnaSetting { port: PortId(port), nsid: None, state }).unwrap();
    }
}

/// Waits until `wanted` paths are live.
fn stand(device: &Device, wanted: usize) {
    until(|| device.paths().unwrap().iter().filter(|path| path.lost.is_none()).count() == wanted);
}

fn until(mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONG, "it does not come to be");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn queue(device: &Device, depth: u32) -> Queue {
    Backend::queue(device, QueueOptions::default().depth(depth).timeout(LONG)).unwrap()
}

/// The namespace of blocks of a device with both kinds.
fn blocks_of(device: &Device) -> Nsid {
    device.nvm_namespace(None).unwrap().nsid
}

fn write(nsid: Nsid, slba: u64, blocks: u32, byte: u8) -> Command {
    let data = Payload::copy_of(&vec![byte; blocks as usize * LBA_BYTES]).unwrap();
    NvmCommand::Write { nsid, slba, blocks, data }.into()
}

fn read(nsid: Nsid, slba: u64, blocks: u32) -> Command {
    let into = Buffer::zeroed(blocks as usize * LBA_BYTES).unwrap();
    NvmCommand::Read { nsid, slba, blocks, into }.into()
}

/// The byte that every byte of a range is.
fn byte_of(finished: Finished) -> u8 {
    let buffer = finished.result.unwrap().buffer.unwrap();
    let first = buffer.as_slice()[0];
    assert!(buffer.as_slice().iter().all(|byte| *byte == first), "a torn range");
    first
}

fn byte_at(queue: &mut Queue, nsid: Nsid, slba: u64) -> u8 {
    let outcome = queue.alone(read(nsid, slba, 1)).unwrap();
    byte_of(Finished { tag: 0, result: Ok(outcome) })
}

/// Takes everything that is outstanding.
fn drain(queue: &mut Queue) -> Vec<Finished> {
    let mut all = Vec::new();
    queue.drain(&mut |finished| all.push(finished)).unwrap();
    all
}

/// Takes the next that is finished.
fn next(queue: &mut Queue) -> Finished {
    queue.next_within(LONG).unwrap().expect("it is finished in time")
}
