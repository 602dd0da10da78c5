//! Hosts that come by TLS, those that should, and what is no TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use byway_fabrics::authentication::Parties;
use byway_fabrics::tls::{PskForm, PskHash, TlsKey, TlsPsk};
use byway_fabrics::{ConnectRefusal, ControllerChoice, Parameter, RefusalKind};
use byway_nvme_tcp::IcReq;
use byway_spec::nvm::NvmOpcode;
use byway_spec::tcp::FatalStatus;
use byway_tcp_target::{Keys, TargetEvent, Tls, TlsPolicy};
use byway_tls::{FIRST_BYTE, TlsHost, TlsSession};

use crate::host::{By, HOST, Host, Proposal, blocks, pattern};
use crate::served::{SUBSYSTEM, Served, TIMEOUT, name};
use crate::tunnel::Tunnel;

const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

fn parties(subsystem: &str) -> Parties {
    Parties { host: name(HOST), subsystem: name(subsystem) }
}

/// A target with a key for the host.
fn served(policy: TlsPolicy) -> (Served, TlsKey) {
    let (tls, key) = new_key(policy);
    (Served::with(|options| options.first().tls = Some(tls)), key)
}

/// What a target has where the host has this key.
fn new_key(policy: TlsPolicy) -> (Tls, TlsKey) {
    let key = TlsKey::generate(Some(PskHash::Sha384)).unwrap();
    let tls = Tls::new(&name(SUBSYSTEM), &[(name(HOST), key.clone())], policy).unwrap();
    (tls, key)
}

/// A session that has said its ClientHello.
fn begun(key: &TlsKey) -> TlsSession {
    let mut session =
        TlsHost::new(TlsPsk::of(key, &parties(SUBSYSTEM), PskForm::LATEST)).unwrap().session().unwrap();
    assert!(!session.shake().unwrap());
    session
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Why a connection was ended, as the target reports it.
fn why(served: &Served) -> String {
    match served.await_event(|event| matches!(event, TargetEvent::ConnectionEnded { .. })) {
        TargetEvent::ConnectionEnded { why, .. } => why,
        _ => unreachable!(),
    }
}

/// A host comes and finds everything as it is.
fn check(served: &Served, key: &TlsKey) {
    let tunnel = Tunnel::new(served.address(), key, &parties(SUBSYSTEM));
    let mut host = Host::greet(tunnel.address, Proposal::DIGESTS);
    host.connect_admin(0).unwrap();
    host.enable();
    let mut io = Host::greet(tunnel.address, Proposal::DIGESTS);
    io.connect_io(1, host.controller()).unwrap();
    let data = pattern(3, 300_000);
    let data = &data[..299_520];
    assert!(io.write(blocks(NvmOpcode::WRITE, 0, data.len()), By::R2t, data).status().is_success());
    assert!(io.read(blocks(NvmOpcode::READ, 0, data.len()), data.len()).1 == data);
}

#[test]
fn a_host_with_its_key_writes_and_reads_more_than_a_record() {
    let (served, key) = served(TlsPolicy::Required);
    check(&served, &key);
}

#[test]
fn a_key_is_for_its_host_and_for_its_subsystem_alone() {
    let (served, key) = served(TlsPolicy::Required);
    let tunnel = Tunnel::new(served.address(), &key, &parties(SUBSYSTEM));
    let mut host = Host::greet(tunnel.address, Proposal::default());
    host.name = name("nqn.2026-01.example:other");
    assert_eq!(host.connect_admin(0), Err(ConnectRefusal::for_good(RefusalKind::InvalidHost)));
    host.name = name(HOST);
    let discovery = host.connect(0, ControllerChoice::Dynamic, DISCOVERY, 0);
    assert_eq!(discovery, Err(ConnectRefusal::invalid(Parameter::SUBNQN)));
    host.connect_admin(0).unwrap();
    // That of the discovery service is another, of the same key.
    let tunnel = Tunnel::new(served.address(), &key, &parties(DISCOVERY));
    let mut host = Host::greet(tunnel.address, Proposal::default());
    assert_eq!(host.connect_admin(0), Err(ConnectRefusal::invalid(Parameter::SUBNQN)));
    host.connect(0, ControllerChoice::Dynamic, DISCOVERY, 0).unwrap();
}

#[test]
fn clear_text_where_tls_is_required_is_reported_and_ends_alone() {
    let (served, key) = served(TlsPolicy::Required);
    let mut stream = connect(served.address());
    stream.write_all(&IcReq::default().encode()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!((answer[0], answer[8]), (3, FatalStatus::SEQUENCE_ERROR.0 as u8), "a termination request");
    assert!(why(&served).contains("TLS is required"));
    check(&served, &key);
}

#[test]
fn discovery_port_takes_clear_text_under_required_tls() {
    let (served, _) = served(TlsPolicy::Required);
    let mut host = Host::greet(served.discovery(), Proposal::default());
    host.connect(0, ControllerChoice::Dynamic, DISCOVERY, 0).unwrap();
}

#[test]
fn clear_text_is_accepted_if_tls_is_only_allowed() {
    let (served, key) = served(TlsPolicy::Allowed);
    check(&served, &key);
    let (_admin, mut io) = served.host(Proposal::default());
    assert!(io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
    // Any name is accepted: a clear-text connection proves none.
    let mut other = served.greet(Proposal::default());
    other.name = name("nqn.2026-01.example:other");
    other.connect_admin(0).unwrap();
}

#[test]
fn tls_with_an_unknown_key_is_reported_by_its_identity() {
    let (served, key) = served(TlsPolicy::Required);
    let mut stranger = begun(&TlsKey::generate(None).unwrap());
    let mut stream = connect(served.address());
    stream.write_all(stranger.unsent()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(stranger.put(&answer).and_then(|()| stranger.shake()).is_err());
    let why = why(&served);
    assert!(why.contains("no host has the TLS identity") && why.contains(HOST), "{why}");
    check(&served, &key);
}

#[test]
fn malformed_tls_handshake_ends_its_connection_only() {
    let (served, key) = served(TlsPolicy::Required);
    let hello = begun(&key).unsent().to_vec();
    let changed = |at: usize| {
        let mut bytes = hello.clone();
        bytes[at] ^= 0x55;
        bytes
    };
    let noise = [&[FIRST_BYTE, 3, 1, 2, 0][..], &pattern(5, 512)].concat();
    let alert = vec![FIRST_BYTE, 3, 3, 0, 2, 2, 40];
    let twice = [&hello[..], &hello[..]].concat();
    let cases =
        [noise, alert, twice, changed(1), changed(5), changed(40), changed(hello.len() - 1)].map(|bytes| {
            let mut stream = connect(served.address());
            stream.write_all(&bytes).unwrap();
            stream
        });
    for mut stream in cases {
        // An alert, or the subsystem's part of a handshake and then an alert; what was not read has the connection reset. What
        // is cut off is ended in time.
        let _ = stream.read_to_end(&mut Vec::new());
        assert!(!why(&served).is_empty());
    }
    check(&served, &key);
}

#[test]
fn a_handshake_that_is_cut_off_leaves_nothing_behind() {
    let (served, key) = served(TlsPolicy::Required);
    let hello = begun(&key).unsent().to_vec();
    for cut in [1, 2, 5, 6, hello.len() / 2, hello.len() - 1, hello.len()] {
        let mut stream = connect(served.address());
        stream.write_all(&hello[..cut]).unwrap();
    }
    check(&served, &key);
}

#[test]
fn a_handshake_that_does_not_end_is_ended_in_time() {
    let (served, key) = served(TlsPolicy::Required);
    let hello = begun(&key).unsent().to_vec();
    let mut streams: Vec<_> =
        [0, 1, hello.len() / 2, hello.len()].map(|bytes| (connect(served.address()), bytes)).into();
    for (stream, bytes) in &mut streams {
        stream.write_all(&hello[..*bytes]).unwrap();
    }
    for (mut stream, _) in streams {
        // The connection ends before this test times out.
        stream.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(why(&served), "the host did not connect in time");
    }
    check(&served, &key);
}

#[test]
fn a_handshake_byte_by_byte_is_a_handshake() {
    let (served, key) = served(TlsPolicy::Required);
    let mut session = begun(&key);
    let mut stream = connect(served.address());
    stream.set_nodelay(true).unwrap();
    while !session.is_open() {
        for byte in session.unsent() {
            stream.write_all(&[*byte]).unwrap();
        }
        session.sent(session.unsent().len());
        let mut bytes = [0; 1];
        stream.read_exact(&mut bytes).unwrap();
        session.put(&bytes).unwrap();
        session.shake().unwrap();
    }
}

#[test]
fn changed_tls_key_applies_to_new_connections_only() {
    let (served, key) = served(TlsPolicy::Required);
    let tunnel = Tunnel::new(served.address(), &key, &parties(SUBSYSTEM));
    let mut admin = Host::greet(tunnel.address, Proposal::default());
    admin.connect_admin(0).unwrap();
    admin.enable();
    let mut io = Host::greet(tunnel.address, Proposal::default());
    io.connect_io(1, admin.controller()).unwrap();
    let (tls, another) = new_key(TlsPolicy::Required);
    served.renew(Keys { tls: Some(tls), ..Keys::default() });
    assert!(io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).0.status().is_success());
    let mut late = begun(&key);
    let mut stream = connect(served.address());
    stream.write_all(late.unsent()).unwrap();
    late.sent(late.unsent().len());
    assert!(why(&served).contains("no host has the TLS identity"));
    check(&served, &another);
    assert!(io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).0.status().is_success());
}

#[test]
fn clear_text_connection_is_refused_once_keys_are_set() {
    let served = Served::new();
    let mut host = served.greet(Proposal::default());
    served.renew(Keys { tls: Some(new_key(TlsPolicy::Required).0), ..Keys::default() });
    assert_eq!(host.connect_admin(0), Err(ConnectRefusal::for_good(RefusalKind::InvalidHost)));
}
