//! The suite over a device that a server serves at a TCP address, by this library's own initiator.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::Duration;

use byway::serve::{Nqn, PskHash, ServeOptions, TcpOptions, TlsKey, TlsKeys, TlsPolicy};
use byway::{
    AdminCommand, Backend, BackendQueue, Buffer, Capabilities, CreateOptions, ErrorKind, Identity, Namespace,
    NewNamespace, Nsid, NvmCommand, Outcome, QueueOptions, Result,
};
use byway_conformance::conformance;
use byway_conformance::keys::every_call;
use byway_conformance::ranges::{every_range, without_commands};
use byway_conformance::scratch::Scratch;
use byway_conformance::served::Serving;

/// Any port.
const ANYWHERE: &str = "127.0.0.1:0";

/// A device at a TCP address, with its server.
struct Served {
    // Dropped first: the controller is left while it is still served.
    device: byway::Device,
    _serving: Serving,
}

fn serving(uri: &str, address: SocketAddr) -> Serving {
    Serving::start_with(uri, &ServeOptions::over_tcp(TcpOptions::at(address)))
}

/// A device with a namespace of blocks alone, in an image in place of the scratch file.
fn opened_with(scratch: &Scratch, options: &str) -> Served {
    let image = blocks_in(scratch);
    let serving = serving(&image, ANYWHERE.parse().unwrap());
    let device = byway::open(&format!("{}{options}", serving.tcp_uri())).unwrap();
    Served { device, _serving: serving }
}

fn blocks_in(scratch: &Scratch) -> String {
    std::fs::remove_file(&scratch.path).unwrap();
    let namespaces = vec![NewNamespace::NVM];
    let create = CreateOptions::new(2 * Scratch::BYTES).namespaces(namespaces);
    byway::create(&scratch.path, &create).unwrap();
    format!("embedded:{}", scratch.path.display())
}

fn opened(scratch: &Scratch) -> Served {
    opened_with(scratch, "")
}

/// By two ports, with a path by each.
fn opened_by_two_ports(scratch: &Scratch) -> Served {
    let anywhere: SocketAddr = ANYWHERE.parse().unwrap();
    let tcp = TcpOptions::at_each([anywhere; 2]);
    let serving = Serving::start_with(&blocks_in(scratch), &ServeOptions::over_tcp(tcp));
    let device = byway::open(&serving.uri_by(serving.tcp_addresses())).unwrap();
    Served { device, _serving: serving }
}

fn opened_with_digests(scratch: &Scratch) -> Served {
    opened_with(scratch, "?digests=both")
}

/// By TLS, with the suite of the longer hash, and digests below it.
fn opened_by_tls(scratch: &Scratch) -> Served {
    const HOST: &str = "nqn.2026-11.org.example:host";
    let key = TlsKey::generate(Some(PskHash::Sha384)).unwrap();
    let tls = TlsKeys { hosts: vec![(Nqn::new(HOST).unwrap(), key.clone())], policy: TlsPolicy::Required };
    let tcp = TcpOptions::at(ANYWHERE.parse().unwrap()).tls(tls);
    let serving = Serving::start_with(&blocks_in(scratch), &ServeOptions::over_tcp(tcp));
    let options = format!("?hostnqn={HOST}&digests=both&tls-key={}", key.reveal());
    let device = byway::open(&format!("{}{options}", serving.tcp_uri())).unwrap();
    Served { device, _serving: serving }
}

/// What `uri` names, exported by a server that has nothing else.
fn exported(uri: String) -> Served {
    let options = ServeOptions::over_tcp(TcpOptions::at(ANYWHERE.parse().unwrap()));
    let serving = Serving::export(&options.exports([uri]));
    let device = byway::open(&serving.tcp_uri()).unwrap();
    Served { device, _serving: serving }
}

fn exported_file(scratch: &Scratch) -> Served {
    exported(format!("file:{}", scratch.path.display()))
}

fn exported_memory(_: &Scratch) -> Served {
    exported(format!("blocks:{}", Scratch::BYTES))
}

impl Backend for Served {
    type Queue = byway::Queue;

    fn name(&self) -> &'static str {
        self.device.name()
    }

    fn identity(&self) -> &Identity {
        self.device.identity()
    }

    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.device.namespaces()
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        self.device.buffer(len)
    }

    fn queue(&self, options: QueueOptions) -> Result<Self::Queue> {
        Backend::queue(&self.device, options)
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.device.admin(command)
    }
}

conformance!(tcp, opened);
conformance!(tcp_with_digests, opened_with_digests);
conformance!(tcp_by_tls, opened_by_tls);
conformance!(tcp_by_two_ports, opened_by_two_ports);
conformance!(exported_file_over_tcp, exported_file);
conformance!(exported_memory_over_tcp, exported_memory);

#[test]
fn keys_and_values_are_over_the_network_what_they_are_in_this_process() {
    for options in ["", "?digests=both&depth=5"] {
        let serving = serving("ram:64M", ANYWHERE.parse().unwrap());
        let device = byway::open(&format!("{}{options}", serving.tcp_uri())).unwrap();
        every_call(&mut device.kv(None).unwrap());
    }
}

#[test]
fn ranges_and_many_keys_over_the_network() {
    for options in ["", "?digests=both&depth=5"] {
        let serving = serving("ram:256M", ANYWHERE.parse().unwrap());
        let device = byway::open(&format!("{}{options}", serving.tcp_uri())).unwrap();
        let mut kv = device.kv(None).unwrap();
        assert!(kv.can().scan && kv.can().retrieve_many);
        every_range(&mut kv);
        every_range(&mut without_commands(kv, device.capabilities()));
    }
}

#[test]
fn values_of_sixty_four_bytes_to_sixteen_mebibytes_go_over_the_network_by_one_command_each() {
    let serving = serving("ram:1G", ANYWHERE.parse().unwrap());
    for options in ["", "?digests=both"] {
        let device = serving.open(options).unwrap();
        assert_eq!(device.capabilities().limits.transfer_bytes, 16 << 20);
        let mut pairs = device.kv(None).unwrap();
        for len in [64, 4096, 16 << 10, 1 << 20, 16 << 20] {
            let value: Vec<u8> = (0..len).map(|at| (at / 7) as u8 ^ (at >> 16) as u8).collect();
            pairs.put(b"key", &value).unwrap();
            assert!(pairs.get(b"key").unwrap().unwrap() == value, "{len} bytes{options}");
        }
    }
}

#[test]
fn a_missing_namespace_is_reported_when_the_device_is_opened() {
    let serving = serving("ram:64M", ANYWHERE.parse().unwrap());
    let error = byway::open(&format!("{}?ns=7", serving.tcp_uri())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("namespace 7"), "{error}");
}

#[test]
fn a_server_that_is_started_anew_is_found_again_and_what_was_flushed_is_there() {
    let scratch = Scratch::new();
    let image = blocks_in(&scratch);
    let mut server = serving(&image, ANYWHERE.parse().unwrap());
    let (uri, address) = (server.tcp_uri(), server.tcp_address());
    let device = byway::open(&uri).unwrap();
    let options = QueueOptions::default().depth(8).timeout(Duration::from_secs(60));
    let mut queue = Backend::queue(&device, options).unwrap();
    let lba_bytes = device.nvm(None).unwrap().lba_bytes();
    for round in 1..=3_u8 {
        let data = Buffer::copy_of(&[round; 4096]).unwrap();
        let write =
            NvmCommand::Write { nsid: Nsid::FIRST, slba: 0, blocks: 4096 / lba_bytes, data: data.into() };
        queue.execute(write.into()).unwrap();
        queue.execute(NvmCommand::Flush { nsid: Nsid::FIRST }.into()).unwrap();
        drop(server);
        let into = Buffer::zeroed(4096).unwrap();
        let read = NvmCommand::Read { nsid: Nsid::FIRST, slba: 0, blocks: 4096 / lba_bytes, into };
        // It waits for the server, whether its connection was seen to end or not.
        queue.submit(read.into(), 7).unwrap();
        queue.start().unwrap();
        server = serving(&image, address);
        queue
            .drain(&mut |finished| {
                let read = finished.result.unwrap().buffer.unwrap();
                assert!(read.as_slice().iter().all(|byte| *byte == round), "round {round}");
            })
            .unwrap();
    }
}
