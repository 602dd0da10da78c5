//! Both sides.

use byway_fabrics::authentication::{
    AuthHash, AuthMessage, AuthSecrets, AuthSuites, AuthenticationError, ControllerAuthentication, DhGroup,
    DhchapSecret, Entropy, HostNegotiation, MessageError, Negotiate, Verdict,
};
use byway_spec::authentication::{AuthFailure, AuthId, AuthType, DhGroupId, HashId};
use sha2::{Digest, Sha256};

use crate::known::{KNOWN, SECRETS};
use crate::{Known, TRANSACTION, controller, entropy, host, parties, plain, secret, secrets, suites};

fn digest(message: &[u8]) -> String {
    Sha256::digest(message).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(known: &Known) {
    let [of_host, of_controller] = SECRETS[known.transform];
    let secrets = AuthSecrets { host: secret(of_host), controller: Some(secret(of_controller)) };
    let suites = suites(known.hash, known.group);
    let (negotiation, negotiate) = host(secrets.clone(), suites.clone(), known.host_entropy);
    let mut controller = controller(secrets, suites);
    assert_eq!(controller.send(&negotiate, entropy("controller")), Verdict::GoesOn);
    let (challenge, _) = controller.receive();
    let (challenged, reply) = negotiation.take(&challenge).unwrap();
    assert_eq!(controller.send(&reply, entropy("controller")), Verdict::GoesOn);
    let (success, _) = controller.receive();
    let last = challenged.take(&success).unwrap().expect("the controller learns that it is authenticated");
    let found = [challenge, reply, success].map(|message| digest(&message));
    assert_eq!(found, known.messages, "{} {}", known.hash, known.group);
    assert_eq!(controller.send(&last, entropy("controller")), Verdict::Authenticated);
}

#[test]
fn every_hash_and_group_gives_what_another_implementation_gives() {
    KNOWN[..18].iter().for_each(check);
}

#[test]
fn a_secret_that_begins_with_a_byte_of_zero_keeps_it() {
    check(&KNOWN[18]);
}

/// A host of which Challenge is to be taken, and a controller that has made it.
fn challenged(
    host_secrets: AuthSecrets,
    controller_secrets: AuthSecrets,
    suites: &AuthSuites,
) -> (HostNegotiation, ControllerAuthentication, Vec<u8>) {
    let (negotiation, negotiate) = host(host_secrets, suites.clone(), "host");
    let mut controller = controller(controller_secrets, suites.clone());
    assert_eq!(controller.send(&negotiate, entropy("controller")), Verdict::GoesOn);
    let (challenge, verdict) = controller.receive();
    assert_eq!(verdict, Verdict::GoesOn);
    (negotiation, controller, challenge)
}

fn send(controller: &mut ControllerAuthentication, message: &[u8]) -> Verdict {
    controller.send(message, entropy("controller"))
}

#[test]
fn a_host_alone_is_authenticated_without_success2() {
    let mine = AuthSecrets { controller: None, ..secrets() };
    let (negotiation, mut controller, challenge) = challenged(mine.clone(), mine, &plain());
    let (challenged, reply) = negotiation.take(&challenge).unwrap();
    assert_eq!(send(&mut controller, &reply), Verdict::GoesOn);
    let (success, verdict) = controller.receive();
    assert_eq!(verdict, Verdict::Authenticated);
    assert_eq!(challenged.take(&success).unwrap(), None);
    assert!(!controller.is_under_way());
}

#[test]
fn host_with_a_wrong_secret_gets_a_failure_and_no_second_try() {
    for suites in [plain(), suites(AuthHash::Sha512, DhGroup::Ffdhe2048)] {
        let wrong = AuthSecrets { host: DhchapSecret::generate(None).unwrap(), ..secrets() };
        let (negotiation, mut controller, challenge) = challenged(wrong, secrets(), &suites);
        let (challenged, reply) = negotiation.take(&challenge).unwrap();
        assert_eq!(send(&mut controller, &reply), Verdict::Failed(AuthenticationError::HostSecret));
        let (_, negotiate) = host(secrets(), suites, "host");
        assert_eq!(send(&mut controller, &negotiate), Verdict::Failed(AuthenticationError::HostSecret));
        let (failure, verdict) = controller.receive();
        assert_eq!(verdict, Verdict::Failed(AuthenticationError::HostSecret));
        let failed = challenged.take(&failure).unwrap_err();
        assert_eq!(failed.error, AuthenticationError::Refused(AuthFailure::FAILED));
        assert_eq!(failed.message, None);
        assert!(matches!(send(&mut controller, &negotiate), Verdict::Failed(_)));
    }
}

#[test]
fn controller_with_a_wrong_secret_is_detected_and_gets_a_failure() {
    let wrong = AuthSecrets { controller: Some(DhchapSecret::generate(None).unwrap()), ..secrets() };
    let (negotiation, mut controller, challenge) = challenged(secrets(), wrong, &plain());
    let (challenged, reply) = negotiation.take(&challenge).unwrap();
    assert_eq!(send(&mut controller, &reply), Verdict::GoesOn);
    let (success, _) = controller.receive();
    let failed = challenged.take(&success).unwrap_err();
    assert_eq!(failed.error, AuthenticationError::ControllerSecret);
    let verdict = send(&mut controller, &failed.message.unwrap());
    assert_eq!(verdict, Verdict::Failed(AuthenticationError::Refused(AuthFailure::FAILED)));
}

#[test]
fn a_controller_that_was_challenged_must_answer() {
    let (negotiation, mut controller, challenge) = challenged(secrets(), secrets(), &plain());
    let (challenged, reply) = negotiation.take(&challenge).unwrap();
    assert_eq!(send(&mut controller, &reply), Verdict::GoesOn);
    let AuthMessage::Success1(mut success) = AuthMessage::parse(&controller.receive().0).unwrap() else {
        panic!("Success1 is next");
    };
    success.response = None;
    let failed = challenged.take(&AuthMessage::Success1(success).encode()).unwrap_err();
    assert_eq!(failed.error, AuthenticationError::Unanswered);

    let none = AuthSecrets { controller: None, ..secrets() };
    let (negotiation, mut controller, challenge) = challenged_by(none);
    let (_, reply) = negotiation.take(&challenge).unwrap();
    assert_eq!(send(&mut controller, &reply), Verdict::Failed(AuthenticationError::NoControllerSecret));
}

fn challenged_by(theirs: AuthSecrets) -> (HostNegotiation, ControllerAuthentication, Vec<u8>) {
    challenged(secrets(), theirs, &plain())
}

#[test]
fn the_controller_prefers_and_the_host_holds_to_what_it_offered() {
    let order = AuthSuites {
        hashes: vec![AuthHash::Sha384, AuthHash::Sha256],
        groups: vec![DhGroup::Ffdhe2048, DhGroup::Null],
    };
    let (_, negotiate) = host(secrets(), AuthSuites::default(), "host");
    let mut chooses = controller(secrets(), order.clone());
    send(&mut chooses, &negotiate);
    let AuthMessage::Challenge(challenge) = AuthMessage::parse(&chooses.receive().0).unwrap() else {
        panic!("Challenge is next");
    };
    assert_eq!((challenge.hash, challenge.group), (HashId::SHA384, DhGroupId::FFDHE2048));

    for (offer, why) in [
        (suites(AuthHash::Sha512, DhGroup::Null), AuthenticationError::Hash),
        (suites(AuthHash::Sha256, DhGroup::Ffdhe8192), AuthenticationError::Group),
    ] {
        let (negotiation, negotiate) = host(secrets(), offer, "host");
        assert_eq!(send(&mut controller(secrets(), order.clone()), &negotiate), Verdict::Failed(why.clone()));
        // A controller that does not keep to it.
        let (_, _, mut other) = challenged(secrets(), secrets(), &plain());
        if why == AuthenticationError::Group {
            other[8] = HashId::SHA256.0;
        }
        assert_eq!(negotiation.take(&other).unwrap_err().error, why);
    }
}

#[test]
fn a_secure_channel_and_other_protocols_are_refused() {
    let asked = Negotiate {
        transaction: TRANSACTION,
        secure_channel: 0,
        hashes: vec![HashId::SHA256],
        groups: vec![DhGroupId::NULL],
        is_dh_hmac_chap: true,
    };
    for (asked, why, explanation) in [
        (
            Negotiate { secure_channel: 1, ..asked.clone() },
            AuthenticationError::SecureChannel,
            AuthFailure::SECURE_CHANNEL_MISMATCH,
        ),
        (
            Negotiate { is_dh_hmac_chap: false, ..asked.clone() },
            AuthenticationError::Protocol,
            AuthFailure::PROTOCOL_NOT_USABLE,
        ),
        (
            Negotiate { hashes: vec![HashId(9)], ..asked.clone() },
            AuthenticationError::Hash,
            AuthFailure::HASH_NOT_USABLE,
        ),
        (Negotiate { groups: vec![], ..asked }, AuthenticationError::Group, AuthFailure::GROUP_NOT_USABLE),
    ] {
        let mut controller = controller(secrets(), AuthSuites::default());
        let message = AuthMessage::Negotiate(asked).encode();
        assert_eq!(send(&mut controller, &message), Verdict::Failed(why));
        let failure = AuthMessage::parse(&controller.receive().0).unwrap();
        assert_eq!(failure, AuthMessage::Failure1 { transaction: TRANSACTION, explanation });
    }
}

#[test]
fn a_message_out_of_order_fails_the_authentication() {
    let (negotiation, _, challenge) = challenged(secrets(), secrets(), &plain());
    let (_, reply) = negotiation.take(&challenge).unwrap();
    // Reply before Negotiate, and before Challenge was received.
    let order = |expected| AuthenticationError::Order { found: AuthId::REPLY, expected };
    let mut fresh = controller(secrets(), plain());
    assert_eq!(send(&mut fresh, &reply), Verdict::Failed(order("Negotiate")));
    let mut early = controller(secrets(), plain());
    send(&mut early, &host(secrets(), plain(), "host").1);
    assert_eq!(send(&mut early, &reply), Verdict::Failed(order("Authentication Receive")));
    // Success2 without an authentication, and a message that only controllers send.
    let success2 = AuthMessage::Success2 { transaction: TRANSACTION }.encode();
    let mut forged = controller(secrets(), plain());
    assert!(matches!(send(&mut forged, &success2), Verdict::Failed(_)));
    let (_, mut controller, challenge) = challenged(secrets(), secrets(), &plain());
    assert!(matches!(send(&mut controller, &challenge), Verdict::Failed(AuthenticationError::Order { .. })));
    // Something is to be received before anything was sent.
    let (message, verdict) = crate::controller(secrets(), plain()).receive();
    let explanation = AuthFailure::INCORRECT_MESSAGE;
    assert_eq!(AuthMessage::parse(&message), Ok(AuthMessage::Failure1 { transaction: 0, explanation }));
    assert!(matches!(verdict, Verdict::Failed(AuthenticationError::Early { .. })));
    // The host's side.
    let (negotiation, _) = host(secrets(), plain(), "host");
    assert!(matches!(negotiation.take(&success2).unwrap_err().error, AuthenticationError::Order { .. }));
}

#[test]
fn a_message_of_another_transaction_fails_the_authentication() {
    let (negotiation, mut controller, mut challenge) = challenged(secrets(), secrets(), &plain());
    let (other, _) = host(secrets(), plain(), "host");
    let (_, mut reply) = negotiation.take(&challenge).unwrap();
    let wrong = AuthenticationError::Transaction { found: TRANSACTION + 1, expected: TRANSACTION };
    reply[4] += 1;
    assert_eq!(send(&mut controller, &reply), Verdict::Failed(wrong.clone()));
    let explanation = AuthFailure::INCORRECT_PAYLOAD;
    let failure = AuthMessage::Failure1 { transaction: TRANSACTION, explanation };
    assert_eq!(AuthMessage::parse(&controller.receive().0), Ok(failure));
    challenge[4] += 1;
    assert_eq!(other.take(&challenge).unwrap_err().error, wrong);
}

#[test]
fn a_reply_that_was_right_before_is_not_right_again() {
    let (negotiation, mut controller, challenge) = challenged(secrets(), secrets(), &plain());
    let (_, reply) = negotiation.take(&challenge).unwrap();
    assert_eq!(send(&mut controller, &reply), Verdict::GoesOn);
    // The same messages, replayed to a controller with other random bytes.
    let mut again = crate::controller(secrets(), plain());
    let fresh = || Entropy::of_system().unwrap();
    assert_eq!(again.send(&host(secrets(), plain(), "host").1, fresh()), Verdict::GoesOn);
    again.receive();
    assert_eq!(again.send(&reply, fresh()), Verdict::Failed(AuthenticationError::HostSecret));
}

#[test]
fn a_host_that_repeats_the_challenge_is_refused() {
    let (negotiation, mut controller, challenge) = challenged(secrets(), secrets(), &plain());
    let (_, reply) = negotiation.take(&challenge).unwrap();
    let AuthMessage::Challenge(challenge) = AuthMessage::parse(&challenge).unwrap() else { panic!() };
    let AuthMessage::Reply(mut reply) = AuthMessage::parse(&reply).unwrap() else { panic!() };
    reply.challenge = Some(challenge.challenge);
    let reply = AuthMessage::Reply(reply).encode();
    assert_eq!(send(&mut controller, &reply), Verdict::Failed(AuthenticationError::Repeated));
}

#[test]
fn dh_values_outside_the_group_are_refused() {
    let suites = suites(AuthHash::Sha256, DhGroup::Ffdhe2048);
    let bytes = DhGroup::Ffdhe2048.bytes();
    let number = |last: u8| [vec![0; bytes - 1], vec![last]].concat();
    // The prime ends in 64 ones, and is less than this.
    for value in [vec![], number(0), number(1), vec![0xff; bytes], vec![1; bytes + 4]] {
        let (negotiation, mut controller, challenge) = challenged(secrets(), secrets(), &suites);
        let (other, _) = host(secrets(), suites.clone(), "host");
        let (_, reply) = negotiation.take(&challenge).unwrap();
        let AuthMessage::Reply(mut reply) = AuthMessage::parse(&reply).unwrap() else { panic!() };
        reply.dh_value = value.clone();
        let verdict = send(&mut controller, &AuthMessage::Reply(reply).encode());
        assert_eq!(verdict, Verdict::Failed(AuthenticationError::DhValue));
        let AuthMessage::Challenge(mut challenge) = AuthMessage::parse(&challenge).unwrap() else { panic!() };
        challenge.dh_value = value;
        let failed = other.take(&AuthMessage::Challenge(challenge).encode()).unwrap_err();
        assert_eq!(failed.error, AuthenticationError::DhValue);
    }
}

#[test]
fn truncated_messages_fail_and_nothing_more() {
    let (_, _, challenge) = challenged(secrets(), secrets(), &plain());
    for end in 0..challenge.len() {
        let (negotiation, _) = host(secrets(), plain(), "host");
        let failed = negotiation.take(&challenge[..end]).unwrap_err();
        assert!(matches!(failed.error, AuthenticationError::Message(MessageError::Short { .. })));
        let (negotiation, mut controller, challenge) = challenged(secrets(), secrets(), &plain());
        let (_, reply) = negotiation.take(&challenge).unwrap();
        let verdict = send(&mut controller, &reply[..end]);
        assert!(matches!(verdict, Verdict::Failed(AuthenticationError::Message(MessageError::Short { .. }))));
    }
}

#[test]
fn a_host_may_authenticate_again_and_a_broken_try_may_begin_anew() {
    let (_, mut controller, _) = challenged(secrets(), secrets(), &plain());
    for _ in 0..2 {
        let (negotiation, negotiate) = host(secrets(), plain(), "host");
        assert_eq!(send(&mut controller, &negotiate), Verdict::GoesOn);
        let (challenged, reply) = negotiation.take(&controller.receive().0).unwrap();
        assert_eq!(send(&mut controller, &reply), Verdict::GoesOn);
        let last = challenged.take(&controller.receive().0).unwrap().unwrap();
        assert_eq!(send(&mut controller, &last), Verdict::Authenticated);
    }
}

#[test]
fn names_are_part_of_a_response() {
    let (negotiation, mut controller, challenge) = challenged(secrets(), secrets(), &plain());
    let mut others = parties();
    std::mem::swap(&mut others.host, &mut others.subsystem);
    let (swapped, _) = HostNegotiation::begin(others, secrets(), plain(), TRANSACTION, entropy("host"));
    drop(negotiation);
    let (_, reply) = swapped.take(&challenge).unwrap();
    assert_eq!(send(&mut controller, &reply), Verdict::Failed(AuthenticationError::HostSecret));
}

#[test]
fn unknown_messages_are_incorrect_messages() {
    let mut controller = controller(secrets(), plain());
    let verdict = send(&mut controller, &[2, 9, 0, 0, 7, 0, 0, 0]);
    let unknown = MessageError::Unknown { kind: AuthType(2), id: AuthId(9) };
    assert_eq!(verdict, Verdict::Failed(unknown.into()));
    let failure = AuthMessage::parse(&controller.receive().0).unwrap();
    assert_eq!(
        failure,
        AuthMessage::Failure1 { transaction: 7, explanation: AuthFailure::INCORRECT_MESSAGE }
    );
}
