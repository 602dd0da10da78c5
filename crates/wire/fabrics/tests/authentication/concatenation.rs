//! Authentications that make a key of TLS as well.

use byway_fabrics::authentication::{
    AuthHash, AuthMessage, AuthSecrets, AuthSuites, AuthenticationError, Concatenation,
    ControllerAuthentication, DhGroup, HostChallenged, HostNegotiation, Verdict,
};
use byway_spec::authentication::HashId;

use crate::{TRANSACTION, controller, entropy, parties, secrets, suites};

/// A suite that can make a key, and costs little.
fn quick() -> AuthSuites {
    suites(AuthHash::Sha384, DhGroup::Ffdhe2048)
}

fn host(asked: Concatenation, secrets: AuthSecrets, suites: &AuthSuites) -> (HostNegotiation, Vec<u8>) {
    HostNegotiation::concatenating(asked, parties(), secrets, suites, TRANSACTION, entropy("host"))
}

fn send(controller: &mut ControllerAuthentication, message: &[u8]) -> Verdict {
    controller.send(message, entropy("controller"))
}

/// Both, with the host's reply taken.
fn replied(asked: Concatenation, secrets: AuthSecrets) -> (HostChallenged, ControllerAuthentication) {
    let mut controller = controller(secrets.clone(), AuthSuites::default()).allowing(asked);
    let (negotiation, negotiate) = host(asked, secrets, &quick());
    assert_eq!(send(&mut controller, &negotiate), Verdict::GoesOn);
    let (challenged, reply) = negotiation.take(&controller.receive().0).unwrap();
    assert_eq!(send(&mut controller, &reply), Verdict::GoesOn);
    (challenged, controller)
}

#[test]
fn both_sides_come_to_the_same_key_and_have_it_when_they_know_each_other() {
    for asked in [Concatenation::New, Concatenation::Replacement] {
        let (challenged, mut controller) = replied(asked, secrets());
        let of_host = challenged.psk().unwrap();
        let success2 = challenged.take(&controller.receive().0).unwrap().unwrap();
        assert_eq!(controller.take_psk(), None);
        assert_eq!(send(&mut controller, &success2), Verdict::Authenticated);
        let of_controller = controller.take_psk().unwrap();
        assert_eq!(of_host.identity(), of_controller.identity());
        assert_eq!(of_host.reveal(), of_controller.reveal());
        assert!(of_host.identity().starts_with("NVMe1G02 "));
        assert_eq!(controller.take_psk(), None);
    }
}

#[test]
fn a_host_that_need_not_know_the_controller_challenges_it_for_the_key_alone() {
    let (challenged, mut controller) =
        replied(Concatenation::New, AuthSecrets { controller: None, ..secrets() });
    let of_host = challenged.psk().unwrap();
    let (success, verdict) = controller.receive();
    assert_eq!(verdict, Verdict::Authenticated);
    assert_eq!(challenged.take(&success).unwrap(), None);
    assert_eq!(controller.take_psk().unwrap().reveal(), of_host.reveal());
}

#[test]
fn a_key_is_made_only_where_it_is_allowed_and_of_the_kind_that_is() {
    for (allowed, asked) in [
        (None, Concatenation::New),
        (Some(Concatenation::New), Concatenation::Replacement),
        (Some(Concatenation::Replacement), Concatenation::New),
    ] {
        let mut controller = controller(secrets(), AuthSuites::default());
        if let Some(allowed) = allowed {
            controller = controller.allowing(allowed);
        }
        let (_, negotiate) = host(asked, secrets(), &quick());
        let failed = Verdict::Failed(AuthenticationError::SecureChannel);
        assert_eq!(send(&mut controller, &negotiate), failed);
    }
}

#[test]
fn a_host_that_asks_for_no_key_gets_none_where_it_could_have_one() {
    let mut controller = controller(secrets(), quick()).allowing(Concatenation::New);
    let (negotiation, negotiate) = crate::host(secrets(), quick(), "host");
    assert_eq!(send(&mut controller, &negotiate), Verdict::GoesOn);
    let (challenged, reply) = negotiation.take(&controller.receive().0).unwrap();
    assert_eq!(send(&mut controller, &reply), Verdict::GoesOn);
    assert_eq!(challenged.psk(), None);
    let last = challenged.take(&controller.receive().0).unwrap().unwrap();
    assert_eq!(send(&mut controller, &last), Verdict::Authenticated);
    assert_eq!(controller.take_psk(), None);
}

#[test]
fn a_key_is_made_with_no_hash_that_tls_has_not_and_in_no_group_that_is_none() {
    for (suites, why) in [
        (suites(AuthHash::Sha512, DhGroup::Ffdhe2048), AuthenticationError::Hash),
        (suites(AuthHash::Sha256, DhGroup::Null), AuthenticationError::Group),
    ] {
        let (_, negotiate) = host(Concatenation::New, secrets(), &AuthSuites::default());
        let mut controller = controller(secrets(), suites).allowing(Concatenation::New);
        assert_eq!(send(&mut controller, &negotiate), Verdict::Failed(why));
    }
    let (_, negotiate) = host(Concatenation::New, secrets(), &AuthSuites::default());
    let Ok(AuthMessage::Negotiate(asked)) = AuthMessage::parse(&negotiate) else { panic!("no Negotiate") };
    assert!(!asked.hashes.contains(&HashId::SHA512) && !asked.groups.contains(&DhGroup::Null.id()));
}

#[test]
fn a_key_that_is_asked_for_without_a_challenge_is_not_made() {
    let mut controller = controller(secrets(), quick()).allowing(Concatenation::New);
    let (negotiation, negotiate) = host(Concatenation::New, secrets(), &quick());
    assert_eq!(send(&mut controller, &negotiate), Verdict::GoesOn);
    let (_, reply) = negotiation.take(&controller.receive().0).unwrap();
    let Ok(AuthMessage::Reply(reply)) = AuthMessage::parse(&reply) else { panic!("no Reply") };
    let bare = AuthMessage::Reply(byway_fabrics::authentication::Reply { challenge: None, ..reply }).encode();
    assert_eq!(send(&mut controller, &bare), Verdict::Failed(AuthenticationError::Unchallenged));
    assert_eq!(controller.take_psk(), None);
}

#[test]
fn altered_negotiation_fails_the_authentication() {
    let mut controller = controller(secrets(), quick()).allowing(Concatenation::New);
    let (negotiation, negotiate) = host(Concatenation::New, secrets(), &quick());
    let Ok(AuthMessage::Negotiate(mut asked)) = AuthMessage::parse(&negotiate) else {
        panic!("no Negotiate")
    };
    asked.secure_channel = 0;
    assert_eq!(send(&mut controller, &AuthMessage::Negotiate(asked).encode()), Verdict::GoesOn);
    let (_, reply) = negotiation.take(&controller.receive().0).unwrap();
    assert_eq!(send(&mut controller, &reply), Verdict::Failed(AuthenticationError::HostSecret));
}
