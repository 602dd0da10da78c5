//! Messages and secrets, as they are written and read.

use byway_fabrics::authentication::{
    AuthHash, AuthMessage, Challenge, DhGroup, DhchapSecret, MessageError, Negotiate, Reply, SecretError,
    Success1,
};
use byway_spec::authentication::{AuthFailure, DhGroupId, HashId};
use proptest::prelude::*;

use crate::known::SECRETS;

fn ids() -> impl Strategy<Value = (Vec<HashId>, Vec<DhGroupId>)> {
    let list = || prop::collection::vec(any::<u8>(), 0..=30);
    (list(), list()).prop_map(|(hashes, groups)| {
        (hashes.into_iter().map(HashId).collect(), groups.into_iter().map(DhGroupId).collect())
    })
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=most)
}

fn challenge() -> impl Strategy<Value = AuthMessage> {
    (any::<u16>(), any::<u8>(), any::<u8>(), any::<u32>(), bytes(255), bytes(1100)).prop_map(
        |(transaction, hash, group, sequence, challenge, dh_value)| {
            let (hash, group) = (HashId(hash), DhGroupId(group));
            AuthMessage::Challenge(Challenge { transaction, hash, group, sequence, challenge, dh_value })
        },
    )
}

fn reply() -> impl Strategy<Value = AuthMessage> {
    (any::<u16>(), any::<u32>(), bytes(64), any::<bool>(), bytes(1100)).prop_map(
        |(transaction, sequence, response, is_challenge, dh_value)| {
            let challenge = is_challenge.then(|| response.iter().rev().copied().collect());
            AuthMessage::Reply(Reply { transaction, sequence, response, challenge, dh_value })
        },
    )
}

fn success1() -> impl Strategy<Value = AuthMessage> {
    (any::<u16>(), any::<bool>(), bytes(255)).prop_map(|(transaction, has_response, response)| {
        let hash_bytes = response.len() as u8;
        let response = has_response.then_some(response);
        AuthMessage::Success1(Success1 { transaction, hash_bytes, response })
    })
}

fn message() -> impl Strategy<Value = AuthMessage> {
    let negotiate =
        (any::<u16>(), any::<u8>(), ids()).prop_map(|(transaction, secure_channel, (hashes, groups))| {
            let is_dh_hmac_chap = true;
            AuthMessage::Negotiate(Negotiate { transaction, secure_channel, hashes, groups, is_dh_hmac_chap })
        });
    let failure = |make: fn(u16, AuthFailure) -> AuthMessage| {
        (any::<u16>(), any::<u8>()).prop_map(move |(transaction, why)| make(transaction, AuthFailure(why)))
    };
    prop_oneof![
        negotiate,
        challenge(),
        reply(),
        success1(),
        any::<u16>().prop_map(|transaction| AuthMessage::Success2 { transaction }),
        failure(|transaction, explanation| AuthMessage::Failure1 { transaction, explanation }),
        failure(|transaction, explanation| AuthMessage::Failure2 { transaction, explanation }),
    ]
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(message in message(), behind in bytes(8)) {
        let mut written = message.encode();
        let end = written.len();
        for end in 0..end {
            let short = AuthMessage::parse(&written[..end]);
            prop_assert!(matches!(short, Err(MessageError::Short { .. })), "{end} of {}: {short:?}", written.len());
        }
        written.extend_from_slice(&behind);
        prop_assert_eq!(AuthMessage::parse(&written), Ok(message));
    }
}

#[test]
fn fields_that_say_too_much_are_refused() {
    let (hashes, groups) = (vec![HashId::SHA256], vec![DhGroupId::NULL]);
    let negotiate = Negotiate { transaction: 1, secure_channel: 0, hashes, groups, is_dh_hmac_chap: true };
    let mut written = AuthMessage::Negotiate(negotiate.clone()).encode();
    written[10] = 31;
    assert_eq!(AuthMessage::parse(&written), Err(MessageError::Identifiers(31)));
    // A protocol that is not known before the one that is.
    let mut two = AuthMessage::Negotiate(negotiate.clone()).encode();
    let descriptor = two.split_off(8);
    two[7] = 2;
    two.extend([7; 64]);
    two.extend(descriptor);
    assert_eq!(AuthMessage::parse(&two), Ok(AuthMessage::Negotiate(negotiate)));
    let success = Success1 { transaction: 1, hash_bytes: 32, response: None };
    let mut written = AuthMessage::Success1(success).encode();
    written[8] = 2;
    assert_eq!(AuthMessage::parse(&written), Err(MessageError::Flag(2)));
}

#[test]
fn a_secret_is_read_as_it_is_written_and_never_shown() {
    for text in SECRETS.iter().flatten() {
        let secret: DhchapSecret = text.parse().unwrap();
        assert_eq!(secret.reveal(), *text);
        assert_eq!(format!("{secret:?}"), "DhchapSecret(..)");
    }
    for hash in [None, Some(AuthHash::Sha256), Some(AuthHash::Sha384), Some(AuthHash::Sha512)] {
        let made = DhchapSecret::generate(hash).unwrap();
        assert_eq!(made.reveal().parse(), Ok(made.clone()));
        assert_ne!(made, DhchapSecret::generate(hash).unwrap());
    }
}

#[test]
fn invalid_secrets_are_distinguished() {
    let good = SECRETS[1][0];
    let parsed = |text: &str| text.parse::<DhchapSecret>().unwrap_err();
    assert_eq!(parsed(""), SecretError::Form);
    assert_eq!(parsed("NVMeTLSkey-1:01:abcd:"), SecretError::Form);
    assert_eq!(parsed(good.trim_end_matches(':')), SecretError::Form);
    assert_eq!(parsed(&good.replace(":01:", ":04:")), SecretError::Hash);
    assert_eq!(parsed(&good.replace(":01:", ":02:")), SecretError::Length);
    assert_eq!(parsed("DHHC-1:00:!!!!:"), SecretError::Base64);
    assert_eq!(parsed("DHHC-1:00::"), SecretError::Length);
    assert_eq!(parsed(&good.replace("OQm", "OQn")), SecretError::Checksum);
}

#[test]
fn hashes_and_groups_have_names() {
    for hash in AuthHash::ALL {
        assert_eq!(hash.name().parse(), Ok(hash));
    }
    for group in DhGroup::ALL {
        assert_eq!(group.name().parse(), Ok(group));
    }
    assert!("md5".parse::<AuthHash>().is_err());
    assert!("modp2048".parse::<DhGroup>().is_err());
}
