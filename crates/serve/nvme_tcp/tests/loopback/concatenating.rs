//! Hosts whose authentication makes the key of TLS by which they come then.

use std::io::Read;
use std::net::TcpStream;

use byway_fabrics::authentication::{
    AuthSecrets, AuthSuites, AuthenticationError, Concatenation, DhGroup, Entropy, HostNegotiation, Parties,
};
use byway_fabrics::tls::TlsPsk;
use byway_fabrics::{ConnectRefusal, ControllerChoice, Property, RefusalKind};
use byway_spec::Command;
use byway_spec::authentication::AuthFailure;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::register::Cc;
use byway_spec::fabrics::status;
use byway_spec::nvm::NvmOpcode;
use byway_tcp_target::{Dhchap, Keys, Tls, TlsPolicy};

use crate::authenticating::{new_secret, receive, send};
use crate::caller::DISCOVERY;
use crate::host::{By, HOST, Host, Proposal, blocks, pattern};
use crate::served::{SUBSYSTEM, Served, TIMEOUT, name};
use crate::tunnel::Tunnel;

fn suites() -> AuthSuites {
    AuthSuites { groups: vec![DhGroup::Ffdhe2048], ..AuthSuites::default() }
}

fn keys(tls: Option<TlsPolicy>) -> (Keys, AuthSecrets) {
    let secrets = AuthSecrets { host: new_secret(), controller: Some(new_secret()) };
    let hosts = vec![(name(HOST), secrets.clone())];
    let dhchap = Dhchap { hosts, suites: suites(), timeout: Dhchap::TIMEOUT };
    let tls = tls.map(|policy| Tls::new(&name(SUBSYSTEM), &[], policy).unwrap());
    (Keys { dhchap: Some(dhchap), tls }, secrets)
}

/// A target with TLS configured and without any key.
fn served() -> (Served, AuthSecrets) {
    served_with(TlsPolicy::Allowed)
}

fn served_with(policy: TlsPolicy) -> (Served, AuthSecrets) {
    let (keys, secrets) = keys(Some(policy));
    (Served::with(|options| (options.first().dhchap, options.first().tls) = (keys.dhchap, keys.tls)), secrets)
}

/// Begins an authentication without a key.
fn negotiate(host: &Host, secrets: &AuthSecrets) -> (HostNegotiation, Vec<u8>) {
    let parties = Parties { host: host.name.clone(), subsystem: name(SUBSYSTEM) };
    HostNegotiation::begin(parties, secrets.clone(), suites(), 7, Entropy::of_system().unwrap())
}

/// Authenticates the host, and generates a key.
fn concatenate(
    host: &mut Host,
    asked: Concatenation,
    secrets: &AuthSecrets,
) -> Result<TlsPsk, AuthenticationError> {
    let parties = Parties { host: host.name.clone(), subsystem: name(SUBSYSTEM) };
    let entropy = Entropy::of_system().unwrap();
    let (negotiation, negotiate) =
        HostNegotiation::concatenating(asked, parties, secrets.clone(), &suites(), 7, entropy);
    assert!(send(host, &negotiate).is_success());
    let (challenged, reply) = negotiation.take(&receive(host)).map_err(|failed| failed.error)?;
    assert!(send(host, &reply).is_success());
    let psk = challenged.psk().unwrap();
    let last = challenged.take(&receive(host)).map_err(|failed| failed.error)?;
    last.into_iter().for_each(|last| assert!(send(host, &last).is_success()));
    Ok(psk)
}

fn admin(served: &Served) -> Host {
    let mut admin = served.greet(Proposal::default());
    admin.connect_admin(0).unwrap();
    admin
}

/// Blocks are written and read over TLS by a key that an authentication made, and nothing is asked of the host there.
fn check(served: &Served, psk: TlsPsk) -> Host {
    let tunnel = Tunnel::by(served.address(), psk);
    let mut admin = Host::greet(tunnel.address, Proposal::default());
    admin.connect_admin(0).unwrap();
    admin.enable();
    let mut io = Host::greet(tunnel.address, Proposal::default());
    io.connect_io(1, admin.controller()).unwrap();
    let data = pattern(5, 4096);
    assert!(io.write(blocks(NvmOpcode::WRITE, 0, 4096), By::R2t, &data).status().is_success());
    assert_eq!(io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1, data);
    admin
}

#[test]
fn a_host_comes_by_the_key_that_its_authentication_made_and_has_it_replaced_there() {
    let (served, secrets) = served();
    let first = concatenate(&mut admin(&served), Concatenation::New, &secrets).unwrap();
    let mut secured = check(&served, first.clone());
    let second = concatenate(&mut secured, Concatenation::Replacement, &secrets).unwrap();
    assert!(first.identity() != second.identity());
    check(&served, second);
}

#[test]
fn each_of_a_hosts_controllers_has_a_key_of_its_own() {
    let (served, secrets) = served();
    let keys: Vec<_> =
        (0..3).map(|_| concatenate(&mut admin(&served), Concatenation::New, &secrets).unwrap()).collect();
    keys.into_iter().for_each(|psk| drop(check(&served, psk)));
}

#[test]
fn no_key_is_made_where_no_tls_is_spoken_nor_on_queues_of_commands() {
    let mismatch = Err(AuthenticationError::Refused(AuthFailure::SECURE_CHANNEL_MISMATCH));
    let (keys, secrets) = keys(None);
    let served_in_clear = Served::with(|options| options.first().dhchap = keys.dhchap);
    let asked = concatenate(&mut admin(&served_in_clear), Concatenation::New, &secrets);
    assert_eq!(asked.map(drop), mismatch);
    let (served, secrets) = served();
    let mut admin = admin(&served);
    concatenate(&mut admin, Concatenation::New, &secrets).unwrap();
    admin.enable();
    let mut io = served.queue(&admin, 1, Proposal::default());
    assert_eq!(concatenate(&mut io, Concatenation::New, &secrets).map(drop), mismatch);
}

#[test]
fn a_host_in_the_clear_may_authenticate_and_do_nothing_else_until_it_comes_by_that_key() {
    let (served, secrets) = served_with(TlsPolicy::Concatenated);
    let refused = |host: &mut Host| {
        let cc = Cc::new().with_en(true).into_bits().into();
        assert!(host.set_property(Property::Cc, cc).is(status::AUTHENTICATION_REQUIRED));
        let identify = host.read(Command::new(AdminOpcode::IDENTIFY.0, 0, 0), 4096).0;
        assert!(identify.status().is(status::AUTHENTICATION_REQUIRED));
    };
    let mut host = admin(&served);
    refused(&mut host);
    let controller = ControllerChoice::Id(host.controller());
    let in_clear = served.greet(Proposal::default()).connect(1, controller, SUBSYSTEM, 0);
    assert_eq!(in_clear, Err(ConnectRefusal::for_good(RefusalKind::InvalidHost)));
    let psk = concatenate(&mut host, Concatenation::New, &secrets).unwrap();
    refused(&mut host);
    let mut secured = check(&served, psk);
    let second = concatenate(&mut secured, Concatenation::Replacement, &secrets).unwrap();
    check(&served, second);
    // Authentication without a key is not enough, nor another host's secret.
    let mut host = admin(&served);
    let (negotiation, negotiate) = negotiate(&host, &secrets);
    assert!(send(&mut host, &negotiate).is_success());
    let failed = negotiation.take(&receive(&mut host)).map(drop).map_err(|failed| failed.error);
    assert_eq!(failed, Err(AuthenticationError::Refused(AuthFailure::SECURE_CHANNEL_MISMATCH)));
    let other = AuthSecrets { host: new_secret(), ..secrets };
    let wrong = concatenate(&mut admin(&served), Concatenation::New, &other).map(drop);
    assert_eq!(wrong, Err(AuthenticationError::Refused(AuthFailure::FAILED)));
    // Discovery is event in the clear, and says what is to be done.
    let mut host = served.greet(Proposal::default());
    host.connect(0, ControllerChoice::Dynamic, DISCOVERY, 0).unwrap();
    host.enable();
    let mut log = Command::new(AdminOpcode::GET_LOG_PAGE.0, 0, 0);
    log.cdw10 = 0x70 | (2048 / 4 - 1) << 16;
    let log = host.read(log, 2048).1;
    assert_eq!(log[1024 + 3] & 3, 1, "TREQ: a secure channel is required");
}

#[test]
fn generated_keys_are_void_after_a_change_of_secrets() {
    let (served, secrets) = served();
    let psk = concatenate(&mut admin(&served), Concatenation::New, &secrets).unwrap();
    let (keys, _) = keys(Some(TlsPolicy::Allowed));
    served.renew(keys);
    let tunnel = Tunnel::by(served.address(), psk);
    let mut stream = TcpStream::connect(tunnel.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}
