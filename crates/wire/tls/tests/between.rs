//! Both sides of a connection in one process; the test carries the bytes.
#![allow(clippy::unwrap_used)]

use byway_fabrics::Nqn;
use byway_fabrics::authentication::Parties;
use byway_fabrics::tls::{PskForm, PskHash, TlsKey, TlsPsk};
use byway_tls::{FIRST_BYTE, TlsError, TlsHost, TlsSession, TlsSubsystem};
use proptest::prelude::*;

fn parties(host: &str) -> Parties {
    Parties { host: Nqn::new(host).unwrap(), subsystem: Nqn::new("nqn.2026-11.example:disk").unwrap() }
}

fn psk(key: &TlsKey, form: PskForm) -> TlsPsk {
    TlsPsk::of(key, &parties("host"), form)
}

fn key(hash: Option<PskHash>) -> TlsKey {
    TlsKey::generate(hash).unwrap()
}

/// A subsystem that knows these keys of one host, in all forms.
fn subsystem(keys: &[&TlsKey]) -> TlsSubsystem {
    let all = keys.iter().flat_map(|key| PskForm::ALL_DISTINGUISHABLE.map(|form| psk(key, form)));
    TlsSubsystem::new(all.collect::<Vec<_>>()).unwrap()
}

/// Passes one side's unsent bytes to the other, in pieces of `piece_bytes`.
fn carry(from: &mut TlsSession, to: &mut TlsSession, piece_bytes: usize) -> Result<bool, TlsError> {
    let bytes = from.unsent().to_vec();
    from.sent(bytes.len());
    for piece in bytes.chunks(piece_bytes) {
        to.put(piece)?;
        to.shake()?;
    }
    Ok(!bytes.is_empty())
}

/// The result of the handshake on each side: host, then subsystem.
fn shake(host: &mut TlsSession, subsystem: &mut TlsSession, piece_bytes: usize) -> [Result<(), TlsError>; 2] {
    let mut results = [host.shake().map(drop), Ok(())];
    for _ in 0..10 {
        let there = carry(host, subsystem, piece_bytes);
        let back = carry(subsystem, host, piece_bytes);
        let is_over = matches!((&there, &back), (Ok(false), Ok(false)));
        for (result, now) in results.iter_mut().zip([back, there]) {
            *result = std::mem::replace(result, Ok(())).and(now.map(drop));
        }
        if is_over {
            return results;
        }
    }
    panic!("the handshake does not end");
}

fn connected(hash: Option<PskHash>, form: PskForm, piece_bytes: usize) -> (TlsSession, TlsSession) {
    let key = key(hash);
    let mut host = TlsHost::new(psk(&key, form)).unwrap().session().unwrap();
    let mut other = subsystem(&[&key]).session().unwrap();
    assert_eq!(shake(&mut host, &mut other, piece_bytes), [Ok(()), Ok(())]);
    assert!(host.is_open() && other.is_open());
    (host, other)
}

fn read_all(from: &mut TlsSession) -> Vec<u8> {
    let (mut all, mut room) = (Vec::new(), vec![0; 5000]);
    loop {
        match from.read(&mut room).unwrap() {
            0 => return all,
            bytes => all.extend_from_slice(&room[..bytes]),
        }
    }
}

#[test]
fn handshake_of_every_hash_and_form_identifies_the_host() {
    for hash in [None, Some(PskHash::Sha256), Some(PskHash::Sha384)] {
        for form in PskForm::ALL_DISTINGUISHABLE.into_iter().take(if hash.is_none() { 2 } else { 3 }) {
            for piece_bytes in [1, 7, usize::MAX] {
                let (host, other) = connected(hash, form, piece_bytes);
                assert_eq!(host.psk().map(TlsPsk::parties), Some(&parties("host")));
                assert_eq!(other.psk().map(TlsPsk::parties), Some(&parties("host")));
            }
        }
    }
}

#[test]
fn data_arrives_in_order_and_is_encrypted_in_transit() {
    let (mut host, mut other) = connected(Some(PskHash::Sha256), PskForm::LATEST, usize::MAX);
    let data: Vec<u8> = (0..1_000_000u32).map(|at| (at / 7) as u8).collect();
    let (mut left, mut seen, mut came) = (&data[..], Vec::new(), Vec::new());
    while !left.is_empty() {
        left = &left[host.write(left).unwrap()..];
        let on_the_way = host.unsent().to_vec();
        host.sent(on_the_way.len());
        other.put(&on_the_way).unwrap();
        seen.extend_from_slice(&on_the_way);
        came.extend_from_slice(&read_all(&mut other));
    }
    assert!(came == data, "it came changed");
    assert!(!seen.windows(64).any(|window| window == &data[..64]), "it was sent in the clear");
}

#[test]
fn nothing_more_is_written_while_much_is_unsent() {
    let (mut host, _) = connected(None, PskForm::LATEST, usize::MAX);
    let mut total = 0;
    while let bytes @ 1.. = host.write(&[7; 100_000]).unwrap() {
        total += bytes;
    }
    assert!((128 << 10..256 << 10).contains(&total), "{total}");
}

#[test]
fn no_data_or_identity_before_the_handshake_ends() {
    let key = key(None);
    let mut host = TlsHost::new(psk(&key, PskForm::LATEST)).unwrap().session().unwrap();
    assert_eq!(host.write(b"early"), Ok(0));
    assert_eq!((host.is_open(), host.psk().map(TlsPsk::parties)), (false, None));
    assert!(!host.shake().unwrap());
    assert_eq!(host.unsent().first(), Some(&FIRST_BYTE));
    let mut other = subsystem(&[&key]).session().unwrap();
    carry(&mut host, &mut other, usize::MAX).unwrap();
    assert_eq!((other.is_open(), other.psk().map(TlsPsk::parties)), (false, None));
}

#[test]
fn wrong_key_fails_on_both_sides() {
    let [right, wrong] = [key(Some(PskHash::Sha384)), key(Some(PskHash::Sha384))];
    // Of version 0 the identity is the same.
    let mut host = TlsHost::new(psk(&wrong, PskForm::V0)).unwrap().session().unwrap();
    let mut other = subsystem(&[&right]).session().unwrap();
    let [at_host, at_subsystem] = shake(&mut host, &mut other, usize::MAX);
    assert!(matches!(at_host, Err(TlsError::Alert(_))), "{at_host:?}");
    let identity = psk(&right, PskForm::V0).identity().to_owned();
    assert_eq!(at_subsystem, Err(TlsError::WrongKey(identity)));
    assert!(!host.is_open() && !other.is_open() && other.psk().map(TlsPsk::parties).is_none());
}

#[test]
fn unknown_identity_is_reported() {
    let [right, wrong] = [key(None), key(None)];
    let mut host = TlsHost::new(psk(&wrong, PskForm::LATEST)).unwrap().session().unwrap();
    let mut other = subsystem(&[&right]).session().unwrap();
    let [at_host, at_subsystem] = shake(&mut host, &mut other, usize::MAX);
    const UNKNOWN_PSK_IDENTITY: u8 = 115;
    assert_eq!(at_host, Err(TlsError::Alert(UNKNOWN_PSK_IDENTITY)));
    assert_eq!(
        at_subsystem,
        Err(TlsError::UnknownIdentity(psk(&wrong, PskForm::LATEST).identity().to_owned()))
    );
}

/// As GnuTLS before 3.8.11 does for every key: a ClientHello whose last binder has the length of SHA-256.
fn bound_by_sha256(hello: &[u8], identity_bytes: usize) -> Vec<u8> {
    const SHORTER_BYTES: usize = 48 - 32;
    let mut hello = hello[..hello.len() - SHORTER_BYTES].to_vec();
    let binders = hello.len() - 32 - 3;
    hello[binders + 2] = 32;
    // Lengths of the record, the message and the binders; behind random, session, suites and methods that of extensions.
    let session = 5 + 4 + 2 + 32;
    let suites = session + 1 + usize::from(hello[session]);
    let methods = suites + 2 + usize::from(hello[suites + 1]);
    let extensions = methods + 1 + usize::from(hello[methods]);
    // Before the binders the age, the identity, its length, that of all, and that of the extension.
    let psk = binders - 4 - identity_bytes - 2 - 2 - 2;
    for length in [3, 7, binders, extensions, psk] {
        let bytes = u16::from_be_bytes([hello[length], hello[length + 1]]) - SHORTER_BYTES as u16;
        hello[length..length + 2].copy_from_slice(&bytes.to_be_bytes());
    }
    hello
}

#[test]
fn sha384_key_bound_by_sha256_is_reported() {
    let key = key(Some(PskHash::Sha384));
    let psk = psk(&key, PskForm::V0);
    let mut host = TlsHost::new(psk.clone()).unwrap().session().unwrap();
    let mut subsystem = subsystem(&[&key]).session().unwrap();
    host.shake().unwrap();
    let identity = psk.identity().to_owned();
    subsystem.put(&bound_by_sha256(host.unsent(), identity.len())).unwrap();
    assert_eq!(subsystem.shake(), Err(TlsError::OtherHash { identity, bytes: 32 }));
    assert!(!subsystem.unsent().is_empty(), "the host gets an alert");
}

#[test]
fn the_suite_is_that_of_the_key_whichever_it_is_among_others() {
    let [one, other] = [key(Some(PskHash::Sha256)), key(Some(PskHash::Sha384))];
    for used in [&one, &other] {
        let mut host = TlsHost::new(psk(used, PskForm::V0)).unwrap().session().unwrap();
        let mut subsystem = subsystem(&[&one, &other]).session().unwrap();
        assert_eq!(shake(&mut host, &mut subsystem, usize::MAX), [Ok(()), Ok(())]);
    }
}

#[test]
fn peer_without_tls_is_reported() {
    let key = key(None);
    let mut host = TlsHost::new(psk(&key, PskForm::LATEST)).unwrap().session().unwrap();
    assert_eq!(host.put(&[3, 0, 24, 0, 24, 0, 0, 0]), Err(TlsError::NotTls));
    assert_eq!(subsystem(&[&key]).session().unwrap().put(&[0; 128]), Err(TlsError::NotTls));
}

#[test]
fn a_changed_byte_ends_the_connection() {
    let (mut host, mut other) = connected(Some(PskHash::Sha256), PskForm::LATEST, usize::MAX);
    host.write(b"some bytes").unwrap();
    let mut bytes = host.unsent().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    other.put(&bytes).unwrap();
    assert!(matches!(other.read(&mut [0; 100]), Err(TlsError::Broken(_))));
    // The peer gets an alert.
    assert!(!other.unsent().is_empty());
}

#[test]
fn closed_connection_is_distinguished_from_a_cut_one() {
    let (mut host, mut other) = connected(None, PskForm::LATEST, usize::MAX);
    host.write(b"last").unwrap();
    host.close();
    let bytes = host.unsent().to_vec();
    other.put(&bytes).unwrap();
    let mut room = [0; 100];
    assert_eq!(other.read(&mut room), Ok(4));
    assert_eq!(other.read(&mut room), Err(TlsError::Closed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_host_bytes_are_answered_or_end_the_session(
        mut bytes in proptest::collection::vec(any::<u8>(), 1..2000),
        at in 0..600usize,
        change in any::<u8>(),
    ) {
        let key = key(None);
        let subsystem = subsystem(&[&key]);
        let mut other = subsystem.session().unwrap();
        bytes[0] = FIRST_BYTE;
        other.put(&bytes).unwrap();
        let _ = other.shake();
        prop_assert!(!other.is_open());
        // A ClientHello with one byte changed.
        let mut host = TlsHost::new(psk(&key, PskForm::LATEST)).unwrap().session().unwrap();
        host.shake().unwrap();
        let mut hello = host.unsent().to_vec();
        let at = 1 + at % (hello.len() - 1);
        hello[at] ^= change;
        let mut other = subsystem.session().unwrap();
        other.put(&hello).unwrap();
        let _ = other.shake();
        prop_assert!(!other.is_open());
    }
}
