//! Hosts that show who they are, and those that do not.

use std::time::Duration;

use byway_fabrics::authentication::{
    AuthMessage, AuthSecrets, AuthSuites, AuthenticationError, DhGroup, DhchapSecret, Entropy,
    HostNegotiation, Parties,
};
use byway_fabrics::{Authentication, ConnectRefusal, FabricsCommand, Property, PropertyAccess, RefusalKind};
use byway_spec::authentication::AuthFailure;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::fabrics::status::AUTHENTICATION_REQUIRED;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};
use byway_tcp_target::{Dhchap, TargetEvent};

use crate::host::{By, End, HOST, Host, Proposal, blocks, pattern};
use crate::served::{SUBSYSTEM, Served, name};

pub fn new_secret() -> DhchapSecret {
    DhchapSecret::generate(None).unwrap()
}

/// The group that takes no time.
fn plain() -> AuthSuites {
    AuthSuites { groups: vec![DhGroup::Null], ..AuthSuites::default() }
}

/// A target with a secret for the host and one for itself.
fn served(suites: AuthSuites, timeout: Duration) -> (Served, AuthSecrets) {
    let secrets = AuthSecrets { host: new_secret(), controller: Some(new_secret()) };
    let hosts = vec![(name(HOST), secrets.clone())];
    let dhchap = Dhchap { hosts, suites, timeout };
    (Served::with(|options| options.first().dhchap = Some(dhchap)), secrets)
}

fn usual() -> (Served, AuthSecrets) {
    served(plain(), Dhchap::TIMEOUT)
}

/// An admin queue that is connected, and nothing more.
fn admin(served: &Served) -> Host {
    let mut admin = served.greet(Proposal::default());
    admin.connect_admin(0).unwrap();
    admin
}

pub fn send(host: &mut Host, message: &[u8]) -> Status {
    let send = FabricsCommand::AuthenticationSend(Authentication { bytes: message.len() as u32 });
    host.fabrics(&send, message).0.status()
}

pub fn receive(host: &mut Host) -> Vec<u8> {
    let (completion, data) =
        host.fabrics(&FabricsCommand::AuthenticationReceive(Authentication { bytes: 4096 }), &[]);
    assert!(completion.status().is_success());
    data
}

fn begin(host: &Host, secrets: &AuthSecrets) -> (HostNegotiation, Vec<u8>) {
    let parties = Parties { host: host.name.clone(), subsystem: name(SUBSYSTEM) };
    let entropy = Entropy::of_system().unwrap();
    HostNegotiation::begin(parties, secrets.clone(), AuthSuites::default(), 7, entropy)
}

/// All of it, as far as it goes.
fn authenticate(host: &mut Host, secrets: &AuthSecrets) -> Result<(), AuthenticationError> {
    let (negotiation, negotiate) = begin(host, secrets);
    assert!(send(host, &negotiate).is_success());
    let challenge = receive(host);
    let (challenged, reply) = negotiation.take(&challenge).map_err(|failed| failed.error)?;
    assert!(send(host, &reply).is_success());
    let success = receive(host);
    let last = challenged.take(&success).map_err(|failed| {
        failed.message.map(|message| send(host, &message));
        failed.error
    })?;
    last.into_iter().for_each(|last| assert!(send(host, &last).is_success()));
    Ok(())
}

fn await_end(served: &Served, host: &mut Host, why: &str) {
    assert_eq!(host.wait_for_end(), End::Closed);
    let event = served.await_event(|event| matches!(event, TargetEvent::ConnectionEnded { .. }));
    let TargetEvent::ConnectionEnded { why: said, .. } = event else { panic!() };
    assert!(said.contains(HOST) && said.contains(why), "{said}");
}

#[test]
fn authenticated_host_reads_and_writes_on_authenticated_queues() {
    for suites in [plain(), AuthSuites { groups: vec![DhGroup::Ffdhe2048], ..AuthSuites::default() }] {
        let (served, secrets) = served(suites, Dhchap::TIMEOUT);
        let mut admin = admin(&served);
        assert_eq!(authenticate(&mut admin, &secrets), Ok(()));
        served.await_event(
            |event| matches!(event, TargetEvent::HostConnected { host, .. } if host.as_str() == HOST),
        );
        admin.enable();
        let mut io = served.queue(&admin, 1, Proposal::default());
        let data = pattern(1, 4096);
        let refused = io.write(blocks(NvmOpcode::WRITE, 0, 4096), By::R2t, &data);
        assert_eq!(refused.status(), AUTHENTICATION_REQUIRED.with_dnr());
        // One way is enough.
        let one_way = AuthSecrets { controller: None, ..secrets };
        assert_eq!(authenticate(&mut io, &one_way), Ok(()));
        assert!(io.write(blocks(NvmOpcode::WRITE, 0, 4096), By::R2t, &data).status().is_success());
        assert_eq!(io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1, data);
    }
}

#[test]
fn commands_before_authentication_are_refused() {
    let (served, secrets) = usual();
    let mut admin = admin(&served);
    let required = AUTHENTICATION_REQUIRED.with_dnr();
    let get = FabricsCommand::PropertyGet(PropertyAccess(Property::Cap));
    assert_eq!(admin.fabrics(&get, &[]).0.status(), required);
    assert_eq!(admin.set_property(Property::Cc, 1), required);
    assert_eq!(admin.read(Command::new(AdminOpcode::IDENTIFY.0, 0, 0), 4096).0.status(), required);
    assert_eq!(admin.read(Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0), 0).0.status(), required);
    assert_eq!(authenticate(&mut admin, &secrets), Ok(()));
    admin.enable();
}

#[test]
fn unauthenticated_hosts_at_the_limit_do_not_exclude_others() {
    let (served, secrets) = usual();
    let mut first = admin(&served);
    assert_eq!(authenticate(&mut first, &secrets), Ok(()));
    first.enable();
    let mut claims: Vec<Host> = (0..100).map(|_| admin(&served)).collect();
    let mut last = claims.pop().unwrap();
    assert_eq!(authenticate(&mut last, &secrets), Ok(()));
    last.enable();
    let mut io = served.queue(&first, 1, Proposal::default());
    assert_eq!(authenticate(&mut io, &secrets), Ok(()));
    assert!(io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).0.status().is_success());
}

#[test]
fn authentication_with_a_wrong_secret_fails_and_disconnects() {
    let (served, secrets) = usual();
    let mut admin = admin(&served);
    let wrong = AuthSecrets { host: new_secret(), ..secrets.clone() };
    let refused = Err(AuthenticationError::Refused(AuthFailure::FAILED));
    assert_eq!(authenticate(&mut admin, &wrong), refused);
    await_end(&served, &mut admin, "the host's response is not what its secret makes");
    // Its controller is free again, and the real host connects.
    let mut again = served.greet(Proposal::default());
    again.connect_admin(0).unwrap();
    assert_eq!(authenticate(&mut again, &secrets), Ok(()));
}

#[test]
fn host_reports_a_controller_with_a_wrong_secret() {
    let (served, secrets) = usual();
    let mut admin = admin(&served);
    let other = AuthSecrets { controller: Some(new_secret()), ..secrets };
    assert_eq!(authenticate(&mut admin, &other), Err(AuthenticationError::ControllerSecret));
    await_end(&served, &mut admin, "the peer says: Authentication failed");
}

#[test]
fn a_host_without_a_secret_is_not_let_in_and_finds_nothing() {
    let (served, _) = usual();
    let mut stranger = served.greet(Proposal::default());
    stranger.name = name("nqn.2026-01.example:stranger");
    assert_eq!(stranger.connect_admin(0), Err(ConnectRefusal::for_good(RefusalKind::InvalidHost)));
}

#[test]
fn host_not_authenticated_in_time_is_disconnected() {
    let (served, _) = served(plain(), Duration::from_millis(200));
    let mut silent = admin(&served);
    await_end(&served, &mut silent, "was not done in time");
}

#[test]
fn malformed_authentication_message_is_answered_by_a_failure() {
    let (served, secrets) = usual();
    let mut admin = admin(&served);
    let (_, negotiate) = begin(&admin, &secrets);
    assert!(send(&mut admin, &negotiate[..20]).is_success());
    // Nothing but the failure comes any more.
    assert!(send(&mut admin, &negotiate).is_success());
    let failure = AuthMessage::parse(&receive(&mut admin)).unwrap();
    let explanation = AuthFailure::INCORRECT_PAYLOAD;
    assert_eq!(failure, AuthMessage::Failure1 { transaction: 7, explanation });
    await_end(&served, &mut admin, "a message of authentication has");
}

#[test]
fn a_command_that_lies_about_its_message_fails_and_the_connection_goes_on() {
    let (served, secrets) = usual();
    let mut admin = admin(&served);
    let invalid = Status::INVALID_FIELD.with_dnr();
    let short = FabricsCommand::AuthenticationSend(Authentication { bytes: 80 });
    let mut command = short.encode(admin.next());
    command.cdw11 = 79;
    admin.send(&command, &[0; 80]);
    assert_eq!(admin.wait(command.cid()).0.status(), invalid);
    let long = FabricsCommand::AuthenticationReceive(Authentication { bytes: 1 << 20 });
    assert_eq!(admin.fabrics(&long, &[]).0.status(), invalid);
    let mut command = FabricsCommand::AuthenticationSend(Authentication { bytes: 1 << 20 }).encode(0);
    command.cdw0.set_cid(admin.next());
    let cid = admin.start(command, By::R2t, &vec![0; 1 << 20]);
    assert_eq!(admin.wait(cid).0.status(), invalid, "and nothing is asked for");
    assert_eq!(authenticate(&mut admin, &secrets), Ok(()));
}

#[test]
fn host_may_reauthenticate_and_is_disconnected_if_it_fails() {
    let (served, secrets) = usual();
    let mut admin = admin(&served);
    assert_eq!(authenticate(&mut admin, &secrets), Ok(()));
    admin.enable();
    let (_, negotiate) = begin(&admin, &secrets);
    assert!(send(&mut admin, &negotiate).is_success());
    assert!(admin.property(Property::Csts) & 1 == 1, "it is known meanwhile");
    assert_eq!(authenticate(&mut admin, &secrets), Ok(()));
    let wrong = AuthSecrets { host: new_secret(), ..secrets };
    assert!(authenticate(&mut admin, &wrong).is_err());
    assert_eq!(admin.wait_for_end(), End::Closed);
    let left = served.await_event(|event| matches!(event, TargetEvent::HostLeft { .. }));
    assert!(matches!(left, TargetEvent::HostLeft { why: Some(_), .. }));
}

#[test]
fn a_target_that_asks_for_nothing_knows_no_messages() {
    let served = Served::new();
    let mut admin = admin(&served);
    assert_eq!(send(&mut admin, &[0; 80]), Status::INVALID_OPCODE.with_dnr());
}
