//! TLS between this library's initiator and target.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use byway::serve::{
    AuthSecrets, AuthSuites, DhGroup, Dhchap, DhchapSecret, Nqn, PskHash, ServeOptions, TcpOptions, TlsKey,
    TlsKeys, TlsPolicy,
};
use byway::{CreateOptions, Device, Error, ErrorKind};
use byway_conformance::keys::every_call;
use byway_conformance::scratch::Scratch;
use byway_conformance::served::Serving;

const HOST: &str = "nqn.2026-11.org.example:host";

/// Any port.
const ANYWHERE: &str = "127.0.0.1:0";

fn key(hash: Option<PskHash>) -> TlsKey {
    TlsKey::generate(hash).unwrap()
}

fn name(text: &str) -> Nqn {
    Nqn::new(text).unwrap()
}

/// Serves by TLS, and otherwise as `set` says.
fn serve_with(
    device: &str,
    address: &str,
    key: &TlsKey,
    policy: TlsPolicy,
    set: impl FnOnce(&mut TcpOptions),
) -> Serving {
    let address: SocketAddr = address.parse().unwrap();
    let tls = TlsKeys { hosts: vec![(name(HOST), key.clone())], policy };
    let mut tcp = TcpOptions::at(address).tls(tls);
    set(&mut tcp);
    Serving::start_with(device, &ServeOptions::over_tcp(tcp))
}

fn serve(key: &TlsKey) -> Serving {
    serve_with("ram:64M", ANYWHERE, key, TlsPolicy::Required, |_| {})
}

/// The options of a host that has a key.
fn with(key: &TlsKey) -> String {
    format!("?hostnqn={HOST}&tls-key={}", key.reveal())
}

/// A value that is longer than all that is sealed at once.
fn put_and_get(device: &Device, round: u8) {
    let mut kv = device.kv(None).unwrap();
    let value: Vec<u8> = (0..1_u32 << 20).map(|at| (at / 5) as u8 ^ round).collect();
    kv.put(b"key", &value).unwrap();
    assert!(kv.get(b"key").unwrap().unwrap() == value, "it came changed");
}

#[test]
fn every_key_and_identity_leads_to_a_device_that_stores_and_retrieves() {
    for hash in [None, Some(PskHash::Sha256), Some(PskHash::Sha384)] {
        let key = key(hash);
        let serving = serve(&key);
        for (round, form) in ["0", "1", "1-compat"].into_iter().enumerate() {
            if hash.is_none() && form == "1-compat" {
                // Its identity is that of the other derivation.
                continue;
            }
            for digests in ["none", "both"] {
                let options = format!("{}&tls-identity={form}&digests={digests}", with(&key));
                let device = serving.open(&options).unwrap_or_else(|error| panic!("{form}: {error}"));
                put_and_get(&device, round as u8);
            }
        }
    }
}

#[test]
fn keys_and_values_are_by_tls_what_they_are_in_the_clear() {
    let key = key(Some(PskHash::Sha256));
    let serving = serve(&key);
    let device = serving.open(&format!("{}&depth=5", with(&key))).unwrap();
    every_call(&mut device.kv(None).unwrap());
}

#[test]
fn a_host_with_another_key_or_another_name_is_refused() {
    let key_of_host = key(Some(PskHash::Sha256));
    let serving = serve(&key_of_host);
    let other = with(&key(Some(PskHash::Sha256)));
    // Of version 0 the identity is known, of version 1 it is not.
    for form in ["0", "1"] {
        let said = serving.refused(&format!("{other}&tls-identity={form}"));
        assert!(said.contains("does not accept the TLS key of nqn.2026-11.org.example:host"), "{said}");
    }
    let said = serving.refused(&with(&key_of_host).replace(HOST, "nqn.2026-11.org.example:other"));
    assert!(said.contains("does not accept the TLS key of nqn.2026-11.org.example:other"), "{said}");
    assert!(serving.open(&with(&key_of_host)).is_ok(), "nothing of that is left behind");
}

#[test]
fn clear_text_is_accepted_only_if_tls_is_optional() {
    let key = key(None);
    let clear = format!("?hostnqn={HOST}");
    let error = serve(&key).open(&clear).unwrap_err();
    assert!(error.to_string().contains("it may want TLS"), "{error}");
    let allowed = serve_with("ram:64M", ANYWHERE, &key, TlsPolicy::Allowed, |_| {});
    for options in [&clear, &with(&key)] {
        put_and_get(&allowed.open(options).unwrap(), 1);
    }
}

#[test]
fn host_with_a_key_refuses_a_server_without_tls() {
    let plain = ServeOptions::over_tcp(TcpOptions::at(ANYWHERE.parse().unwrap()));
    let serving = Serving::start_with("ram:64M", &plain);
    let said = serving.refused(&with(&key(None)));
    assert!(said.contains("does not speak TLS"), "{said}");
    assert!(serving.open("").is_ok());
}

#[test]
fn a_key_is_read_from_a_file() {
    let key = key(Some(PskHash::Sha384));
    let serving = serve(&key);
    let scratch = Scratch::new();
    std::fs::write(&scratch.path, format!("{}\n", key.reveal())).unwrap();
    let options = format!("?hostnqn={HOST}&tls-key-file={}", scratch.path.display());
    assert!(serving.open(&options).is_ok());
}

#[test]
fn discovery_lists_tls_and_whether_it_is_required() {
    use byway::tcp::{SecureChannel, TcpSecurity};
    let key = key(Some(PskHash::Sha256));
    let of = |policy, options: &str| {
        let serving = serve_with("ram:64M", ANYWHERE, &key, policy, |_| {});
        let found = byway::discover(&format!("tcp://{}{options}", serving.tcp_address()))?;
        let entry = found.entries.into_iter().find(|entry| !entry.subsystem.is_discovery()).unwrap();
        assert_eq!(entry.tcp_security, TcpSecurity::TLS_1_3);
        Ok::<_, Error>(entry.secure_channel)
    };
    let clear = format!("?hostnqn={HOST}");
    assert_eq!(of(TlsPolicy::Required, &with(&key)).unwrap(), SecureChannel::Required);
    assert_eq!(of(TlsPolicy::Allowed, &with(&key)).unwrap(), SecureChannel::NotRequired);
    assert_eq!(of(TlsPolicy::Allowed, &clear).unwrap(), SecureChannel::NotRequired);
    assert!(of(TlsPolicy::Required, &clear).unwrap_err().to_string().contains("it may want TLS"));
}

#[test]
fn hosts_authenticate_by_secrets_over_tls() {
    let key = key(Some(PskHash::Sha256));
    let secret = DhchapSecret::generate(None).unwrap();
    let secrets = AuthSecrets { host: secret.clone(), controller: None };
    let suites = AuthSuites { groups: vec![DhGroup::Null], ..AuthSuites::default() };
    let dhchap = Dhchap { hosts: vec![(name(HOST), secrets)], suites, timeout: Dhchap::TIMEOUT };
    let set = |tcp: &mut TcpOptions| tcp.dhchap = Some(dhchap);
    let serving = serve_with("ram:64M", ANYWHERE, &key, TlsPolicy::Required, set);
    let both = format!("{}&dhchap-secret={}", with(&key), secret.reveal());
    put_and_get(&serving.open(&both).unwrap(), 2);
    assert!(serving.refused(&with(&key)).contains("has no secret"));
    let strange = format!("{}&dhchap-secret={}", with(&key), DhchapSecret::generate(None).unwrap().reveal());
    assert!(serving.refused(&strange).contains("does not accept the secret of"));
}

#[test]
fn a_host_that_connects_anew_does_so_by_tls() {
    let key = key(Some(PskHash::Sha384));
    let scratch = Scratch::new();
    std::fs::remove_file(&scratch.path).unwrap();
    byway::create(&scratch.path, &CreateOptions::new(64 << 20)).unwrap();
    let image = format!("embedded:{}", scratch.path.display());
    let serve = |address: &str, key: &TlsKey| serve_with(&image, address, key, TlsPolicy::Required, |_| {});
    let serving = serve(ANYWHERE, &key);
    let address = serving.tcp_address().to_string();
    let device = serving.open(&format!("{}&ctrl-loss-tmo=60", with(&key))).unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"key", b"value").unwrap();
    drop(serving);
    let serving = serve(&address, &key);
    assert_eq!(kv.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    drop(serving);
    // With another key it is not let in any more, and not looked for for a minute either.
    let other = TlsKey::generate(Some(PskHash::Sha384)).unwrap();
    let _other = serve(&address, &other);
    let error = kv.get(b"key").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    assert!(error.to_string().contains("does not accept the TLS key of"), "{error}");
}

/// Secrets of a host and of the device, and a server's options with them.
fn secrets() -> (AuthSecrets, Dhchap) {
    let secret = || DhchapSecret::generate(None).unwrap();
    let secrets = AuthSecrets { host: secret(), controller: Some(secret()) };
    let suites = AuthSuites { groups: vec![DhGroup::Ffdhe2048, DhGroup::Null], ..AuthSuites::default() };
    let hosts = vec![(name(HOST), secrets.clone())];
    (secrets, Dhchap { hosts, suites, timeout: Dhchap::TIMEOUT })
}

/// The options of a host whose authentication makes the key.
fn concatenating(secrets: &AuthSecrets) -> String {
    format!("{}&concat=on", authenticating(secrets))
}

fn authenticating(secrets: &AuthSecrets) -> String {
    let controller = secrets.controller.as_ref().unwrap();
    format!(
        "?hostnqn={HOST}&dhchap-secret={}&dhchap-ctrl-secret={}",
        secrets.host.reveal(),
        controller.reveal()
    )
}

/// Serves hosts that have no key but what their authentication makes.
fn serve_concatenating(device: &str, addresses: &[&str], dhchap: &Dhchap, policy: TlsPolicy) -> Serving {
    let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
    let tls = Some(TlsKeys { hosts: Vec::new(), policy });
    let tcp = TcpOptions::at_each(addresses).tls(tls).dhchap(dhchap.clone());
    Serving::start_with(device, &ServeOptions::over_tcp(tcp))
}

#[test]
fn a_host_whose_authentication_makes_the_key_comes_by_tls_with_every_queue() {
    let (secrets, dhchap) = secrets();
    for policy in [TlsPolicy::Concatenated, TlsPolicy::Allowed] {
        let serving = serve_concatenating("ram:64M", &[ANYWHERE], &dhchap, policy);
        let device = serving.open(&format!("{}&digests=both", concatenating(&secrets))).unwrap();
        every_call(&mut device.kv(None).unwrap());
        let both = [(); 2].map(|()| serving.open(&concatenating(&secrets)).unwrap());
        both.iter().for_each(|device| put_and_get(device, 2));
    }
}

#[test]
fn a_host_that_connects_anew_has_another_key_made() {
    let (secrets, dhchap) = secrets();
    let scratch = Scratch::new();
    std::fs::remove_file(&scratch.path).unwrap();
    byway::create(&scratch.path, &CreateOptions::new(64 << 20)).unwrap();
    let image = format!("embedded:{}", scratch.path.display());
    let serve = |address: &str| serve_concatenating(&image, &[address], &dhchap, TlsPolicy::Concatenated);
    let serving = serve(ANYWHERE);
    let address = serving.tcp_address().to_string();
    let device = serving.open(&format!("{}&ctrl-loss-tmo=60", concatenating(&secrets))).unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"key", b"value").unwrap();
    drop(serving);
    // The new server does not have the earlier key.
    let _serving = serve(&address);
    assert_eq!(kv.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn by_two_portals_each_controller_has_a_key_of_its_own() {
    let (secrets, dhchap) = secrets();
    let serving = serve_concatenating("ram:64M", &[ANYWHERE; 2], &dhchap, TlsPolicy::Concatenated);
    let uri = serving.uri_by(serving.tcp_addresses());
    let device = byway::open(&format!("{uri}{}", concatenating(&secrets))).unwrap();
    put_and_get(&device, 3);
}

#[test]
fn failed_secure_concatenation_names_both_sides_options() {
    let (secrets, dhchap) = secrets();
    let serving = serve_concatenating("ram:64M", &[ANYWHERE], &dhchap, TlsPolicy::Concatenated);
    let said = serving.refused(&authenticating(&secrets));
    assert!(said.contains("a secure channel that authentication makes (concat=on)"), "{said}");
    let other = DhchapSecret::generate(None).unwrap();
    let strange = AuthSecrets { host: other.clone(), ..secrets.clone() };
    assert!(serving.refused(&concatenating(&strange)).contains("does not accept the secret of"));
    let impostor = AuthSecrets { controller: Some(other), ..secrets.clone() };
    assert!(serving.refused(&concatenating(&impostor)).contains("does not know the secret of"));
    let in_clear = TcpOptions::at(ANYWHERE.parse().unwrap()).dhchap(dhchap);
    let in_clear_without_secret = TcpOptions::at(ANYWHERE.parse().unwrap());
    for tcp in [in_clear, in_clear_without_secret] {
        let serving = Serving::start_with("ram:64M", &ServeOptions::over_tcp(tcp));
        let said = serving.refused(&concatenating(&secrets));
        assert!(said.contains("makes no key of TLS by authentication"), "{said}");
    }
    put_and_get(&serving.open(&concatenating(&secrets)).unwrap(), 4);
}
