//! Who comes to a subsystem and how, by what it asks of its hosts and what each of them has.

use std::net::SocketAddr;

use byway_fabrics::authentication::{AuthSecrets, AuthSuites, Parties};
use byway_fabrics::tls::TlsKey;
use byway_fabrics::{ConnectRefusal, Property, RefusalKind};
use byway_spec::fabrics::status::AUTHENTICATION_REQUIRED;
use byway_tcp_target::{Dhchap, Keys, SubsystemTerms, Tls, TlsPolicy};

use crate::authenticating::new_secret;
use crate::discovery_client::discover;
use crate::host::{HOST, Host, Proposal};
use crate::served::{SUBSYSTEM, Served, name};
use crate::tunnel::Tunnel;

const OTHER: &str = "nqn.2026-01.example:other";

/// The host that has a secret or key: none, the connecting one, or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    NoHost,
    This,
    Another,
}

impl Of {
    fn host(self) -> Option<&'static str> {
        match self {
            Self::NoHost => None,
            Self::This => Some(HOST),
            Self::Another => Some(OTHER),
        }
    }
}

/// What becomes of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Met {
    Refused,
    /// It has to authenticate.
    Asked,
    /// It has to authenticate for a key of TLS, and may do nothing else.
    AskedForKey,
    LetIn,
}

use Met::{Asked, AskedForKey, LetIn, Refused};
use Of::{Another, NoHost, This};
use TlsPolicy::{Allowed, Concatenated, Required};

/// A policy, whose secrets there are, whose keys of TLS, and what becomes of the host in the clear, and by TLS where it has a key.
type Row = (Option<TlsPolicy>, Of, Of, Met, Option<Met>);

const ROWS: &[Row] = &[
    (None, NoHost, NoHost, LetIn, None),
    (None, This, NoHost, Asked, None),
    (None, Another, NoHost, Refused, None),
    (Some(Allowed), NoHost, This, LetIn, Some(LetIn)),
    (Some(Allowed), NoHost, Another, LetIn, None),
    (Some(Allowed), This, NoHost, Asked, None),
    (Some(Allowed), This, This, Asked, Some(Asked)),
    (Some(Allowed), Another, This, Refused, Some(Refused)),
    (Some(Required), NoHost, This, Refused, Some(LetIn)),
    (Some(Required), NoHost, Another, Refused, None),
    (Some(Required), This, This, Refused, Some(Asked)),
    (Some(Required), This, Another, Refused, None),
    (Some(Required), Another, This, Refused, Some(Refused)),
    (Some(Concatenated), NoHost, NoHost, Refused, None),
    (Some(Concatenated), NoHost, This, Refused, Some(LetIn)),
    (Some(Concatenated), NoHost, Another, Refused, None),
    (Some(Concatenated), This, NoHost, AskedForKey, None),
    (Some(Concatenated), This, This, AskedForKey, Some(Asked)),
    (Some(Concatenated), Another, This, Refused, Some(Refused)),
    (Some(Concatenated), Another, Another, Refused, None),
];

fn keys(policy: Option<TlsPolicy>, secrets: Of, keys: Of, key: &TlsKey) -> Keys {
    let dhchap = secrets.host().map(|host| {
        let secrets = AuthSecrets { host: new_secret(), controller: None };
        Dhchap { hosts: vec![(name(host), secrets)], suites: AuthSuites::default(), timeout: Dhchap::TIMEOUT }
    });
    let hosts: Vec<_> = keys.host().map(|host| (name(host), key.clone())).into_iter().collect();
    let tls = policy.map(|policy| Tls::new(&name(SUBSYSTEM), &hosts, policy).unwrap());
    Keys { dhchap, tls }
}

/// What becomes of a host that connects there.
fn met(at: SocketAddr) -> Met {
    let mut host = Host::greet(at, Proposal::default());
    if let Err(refusal) = host.connect_admin(0) {
        assert_eq!(refusal, ConnectRefusal::for_good(RefusalKind::InvalidHost));
        return Refused;
    }
    let accepted = host.accepted();
    let cc = host.set_property(Property::Cc, 0);
    assert_eq!(cc.is(AUTHENTICATION_REQUIRED), accepted.authenticate, "what it is event holds");
    match (accepted.authenticate, accepted.secure) {
        (true, true) => AskedForKey,
        (true, false) => Asked,
        (false, secure) => {
            assert!(!secure);
            LetIn
        }
    }
}

#[test]
fn connect_and_discovery_follow_policy_secrets_and_keys() {
    // A second subsystem open to all hosts, so that no connection is refused before its Connect.
    let open = SubsystemTerms::of(name("nqn.2026-01.example:byway:open"));
    let served = Served::with(|asked| asked.subsystems.push(open));
    let key = TlsKey::generate(None).unwrap();
    for row @ (policy, secrets, owner, in_clear, by_tls) in ROWS {
        served.renew(keys(*policy, *secrets, *owner, &key));
        assert_eq!(met(served.address()), *in_clear, "{row:?}");
        if let Some(by_tls) = by_tls {
            let parties = Parties { host: name(HOST), subsystem: name(SUBSYSTEM) };
            let tunnel = Tunnel::new(served.address(), &key, &parties);
            assert_eq!(met(tunnel.address), *by_tls, "{row:?}");
        }
        let entries = discover(&mut Host::greet(served.discovery(), Proposal::default()));
        let is_notified = entries.iter().any(|entry| entry.subsystem.as_str() == SUBSYSTEM);
        let may_come = [*in_clear, by_tls.unwrap_or(Refused)].iter().any(|met| *met != Refused);
        assert_eq!(is_notified, may_come, "{row:?}");
    }
}
