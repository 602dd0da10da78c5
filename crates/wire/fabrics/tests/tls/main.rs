//! TLS keys: derivations checked against an independent implementation, and invalid keys.
#![allow(clippy::unwrap_used)]

mod known;

use byway_fabrics::Nqn;
use byway_fabrics::authentication::Parties;
use byway_fabrics::tls::{PskForm, PskHash, TlsKey, TlsKeyError, TlsPsk};
use proptest::prelude::*;

fn parties(subsystem: &str) -> Parties {
    Parties { host: Nqn::new("nqn.psk-test-host").unwrap(), subsystem: Nqn::new(subsystem).unwrap() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn identities_and_pre_shared_keys_are_those_of_another_implementation() {
    for [key, form, identity, psk] in known::KNOWN {
        let key: TlsKey = key.parse().unwrap();
        let found = TlsPsk::of(&key, &parties("nqn.psk-test-subsys"), form.parse().unwrap());
        assert_eq!((found.identity(), hex(found.reveal()).as_str()), (identity, psk), "{form}");
    }
}

#[test]
fn another_subsystem_has_another_pre_shared_key() {
    let key: TlsKey = known::KNOWN[0][0].parse().unwrap();
    for form in PskForm::ALL_DISTINGUISHABLE {
        let [one, other] = ["a", "b"].map(|name| TlsPsk::of(&key, &parties(name), form));
        assert_ne!(one.reveal(), other.reveal());
        assert_ne!(one.identity(), other.identity());
    }
}

#[test]
fn identities_of_one_key_are_distinct() {
    let key: TlsKey = known::KNOWN[8][0].parse().unwrap();
    let mut found =
        PskForm::ALL_DISTINGUISHABLE.map(|form| TlsPsk::of(&key, &parties("a"), form).identity().to_owned());
    found.sort();
    assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "{found:?}");
}

#[test]
fn names_of_full_length_make_keys() {
    let long = |letter: &str| Nqn::new(&letter.repeat(223)).unwrap();
    let parties = Parties { host: long("h"), subsystem: long("s") };
    for hash in [PskHash::Sha256, PskHash::Sha384] {
        let key = TlsKey::generate(Some(hash)).unwrap();
        for form in PskForm::ALL_DISTINGUISHABLE {
            assert_eq!(TlsPsk::of(&key, &parties, form).reveal().len(), hash.bytes());
        }
    }
}

#[test]
fn generated_keys_round_trip_and_differ() {
    for (hash, expected) in [
        (None, PskHash::Sha256),
        (Some(PskHash::Sha256), PskHash::Sha256),
        (Some(PskHash::Sha384), PskHash::Sha384),
    ] {
        let key = TlsKey::generate(hash).unwrap();
        assert_eq!(key.reveal().parse::<TlsKey>().unwrap(), key);
        assert_eq!(key.hash(), expected);
        assert_ne!(TlsKey::generate(hash).unwrap(), key);
    }
}

#[test]
fn invalid_key_error_names_the_cause_and_shows_no_key() {
    const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    let error = |text: &str| text.parse::<TlsKey>().unwrap_err();
    assert_eq!(error(&KEY.replace("-1:", "-2:")), TlsKeyError::Form);
    assert_eq!(error("DHHC-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"), TlsKeyError::Form);
    assert_eq!(error(KEY.strip_suffix(':').unwrap()), TlsKeyError::Form);
    assert_eq!(error("NVMeTLSkey-1:01"), TlsKeyError::Form);
    assert_eq!(error(&KEY.replace(":01:", ":03:")), TlsKeyError::Hash);
    assert_eq!(error(&KEY.replace(":01:", ":1:")), TlsKeyError::Hash);
    assert_eq!(error(&KEY.replace(":01:", ":02:")), TlsKeyError::Length);
    assert_eq!(error("NVMeTLSkey-1:01:AAAA:"), TlsKeyError::Length);
    assert_eq!(error(&KEY.replace("VRL", "VRM")), TlsKeyError::Checksum);
    assert_eq!(error(&KEY.replace("VRL", "V*L")), TlsKeyError::Base64);
    let key: TlsKey = KEY.parse().unwrap();
    let psk = TlsPsk::of(&key, &parties("a"), PskForm::LATEST);
    assert_eq!(format!("{key:?}"), "TlsKey(..)");
    assert!(!format!("{psk:?}").contains(&hex(psk.reveal())));
}

proptest! {
    #[test]
    fn no_text_has_the_parser_panic(text in "\\PC{0,80}", hash in "0[0-9]", body in "[A-Za-z0-9+/=]{0,72}") {
        let _ = text.parse::<TlsKey>();
        let _ = text.parse::<PskForm>();
        if let Ok(key) = format!("NVMeTLSkey-1:{hash}:{body}:").parse::<TlsKey>() {
            prop_assert_eq!(key.reveal().parse::<TlsKey>(), Ok(key));
        }
    }
}
