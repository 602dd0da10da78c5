//! Hosts and devices that show each other who they are, by both of this library's ends.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use byway::serve::{
    AuthHash, AuthSecrets, AuthSuites, DhGroup, Dhchap, DhchapSecret, Nqn, ServeOptions, TcpOptions,
};
use byway::{CreateOptions, ErrorKind};
use byway_conformance::scratch::Scratch;
use byway_conformance::served::Serving;

const HOST: &str = "nqn.2026-11.org.example:host";

/// Any port.
const ANYWHERE: &str = "127.0.0.1:0";

/// What is known of a host and of the device.
struct Known {
    secrets: AuthSecrets,
    suites: AuthSuites,
}

impl Known {
    /// Both, by the group that takes no time.
    fn new() -> Self {
        Self::by(None, AuthSuites { groups: vec![DhGroup::Null], ..AuthSuites::default() })
    }

    fn by(transform: Option<AuthHash>, suites: AuthSuites) -> Self {
        let secrets = AuthSecrets { host: secret(transform), controller: Some(secret(transform)) };
        Self { secrets, suites }
    }

    fn serve_at(&self, device: &str, address: &str) -> Serving {
        let hosts = vec![(Nqn::new(HOST).unwrap(), self.secrets.clone())];
        let dhchap = Dhchap { hosts, suites: self.suites.clone(), timeout: Dhchap::TIMEOUT };
        let address: SocketAddr = address.parse().unwrap();
        let tcp = TcpOptions::at(address).dhchap(dhchap);
        Serving::start_with(device, &ServeOptions::over_tcp(tcp))
    }

    fn serve(&self) -> Serving {
        self.serve_at("ram:64M", ANYWHERE)
    }

    /// The options of a host that knows both secrets.
    fn both(&self) -> String {
        let controller = self.secrets.controller.as_ref().unwrap();
        format!("{}&dhchap-ctrl-secret={}", self.alone(), controller.reveal())
    }

    /// Of one that knows its own.
    fn alone(&self) -> String {
        format!("?hostnqn={HOST}&dhchap-secret={}", self.secrets.host.reveal())
    }
}

fn secret(transform: Option<AuthHash>) -> DhchapSecret {
    DhchapSecret::generate(transform).unwrap()
}

#[test]
fn every_hash_and_group_leads_to_a_device_that_stores_and_retrieves() {
    for (hash, transform) in
        AuthHash::ALL.into_iter().zip([None, Some(AuthHash::Sha256), Some(AuthHash::Sha512)])
    {
        for group in DhGroup::ALL {
            let suites = AuthSuites { hashes: vec![hash], groups: vec![group] };
            let known = Known::by(transform, suites);
            let serving = known.serve();
            let device =
                serving.open(&known.both()).unwrap_or_else(|error| panic!("{hash} {group}: {error}"));
            let mut kv = device.kv(None).unwrap();
            kv.put(b"key", b"value").unwrap();
            assert_eq!(kv.get(b"key").unwrap().as_deref(), Some(&b"value"[..]), "{hash} {group}");
        }
    }
}

#[test]
fn a_wrong_secret_is_reported_on_the_side_that_finds_it() {
    let known = Known::new();
    let serving = known.serve();
    assert!(serving.open(&known.alone()).is_ok(), "a host need not ask the device");
    let strange = Known::new();
    assert!(serving.refused(&strange.alone()).contains("does not accept the secret of"));
    let mixed = Known {
        secrets: AuthSecrets { controller: strange.secrets.controller.clone(), ..known.secrets.clone() },
        suites: known.suites.clone(),
    };
    assert!(serving.refused(&mixed.both()).contains("does not know the secret of"));
    assert!(serving.refused(&format!("?hostnqn={HOST}")).contains("has no secret"));
    let other = known.alone().replace(HOST, "nqn.2026-11.org.example:other");
    assert!(serving.refused(&other).contains("does not let"));
    assert!(serving.open(&known.both()).is_ok(), "nothing of that is left behind");
}

#[test]
fn device_that_must_authenticate_and_does_not_is_refused() {
    let plain = ServeOptions::over_tcp(TcpOptions::at(ANYWHERE.parse().unwrap()));
    let serving = Serving::start_with("ram:64M", &plain);
    let known = Known::new();
    assert!(serving.refused(&known.both()).contains("does not show who it is"));
    assert!(serving.open(&known.alone()).is_ok());
    // One that has no secret to answer with.
    let silent = Known {
        secrets: AuthSecrets { controller: None, ..known.secrets.clone() },
        suites: known.suites.clone(),
    };
    assert!(silent.serve().refused(&known.both()).contains("does not accept the secret of"));
}

#[test]
fn secrets_are_read_from_a_file() {
    let known = Known::new();
    let serving = known.serve();
    let scratch = Scratch::new();
    let AuthSecrets { host, controller } = &known.secrets;
    let text = format!("{}\n{}\n", host.reveal(), controller.as_ref().unwrap().reveal());
    std::fs::write(&scratch.path, text).unwrap();
    let options = format!("?hostnqn={HOST}&dhchap-secret-file={}", scratch.path.display());
    assert!(serving.open(&options).is_ok());
}

#[test]
fn a_discovery_service_asks_for_no_secret_and_lists_to_known_hosts_alone() {
    let known = Known::new();
    let serving = known.serve();
    let at = format!("tcp://{}", serving.tcp_address());
    let count = |options: &str| {
        let found = byway::discover(&format!("{at}{options}")).unwrap().entries;
        found.iter().filter(|entry| !entry.subsystem.is_discovery()).count()
    };
    assert_eq!(count(&known.alone()), 1);
    assert_eq!(count("?hostnqn=nqn.2026-11.org.example:other"), 0);
    let error = byway::discover(&format!("{at}{}", known.both())).unwrap_err();
    assert!(error.to_string().contains("does not show who it is"), "{error}");
}

#[test]
fn host_authenticates_again_on_reconnect() {
    let known = Known::new();
    let scratch = Scratch::new();
    std::fs::remove_file(&scratch.path).unwrap();
    byway::create(&scratch.path, &CreateOptions::new(64 << 20)).unwrap();
    let image = format!("embedded:{}", scratch.path.display());
    let serving = known.serve_at(&image, ANYWHERE);
    let address = serving.tcp_address().to_string();
    let device = serving.open(&format!("{}&ctrl-loss-tmo=60", known.both())).unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"key", b"value").unwrap();
    drop(serving);
    let serving = known.serve_at(&image, &address);
    assert_eq!(kv.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    drop(serving);
    // With other secrets it is not let in any more, and not looked for for a minute either.
    let _other = Known::new().serve_at(&image, &address);
    let error = kv.get(b"key").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    assert!(error.to_string().contains("does not accept the secret of"), "{error}");
}
