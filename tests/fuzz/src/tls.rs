//! Keys of TLS, identities in a ClientHello, and whatever a host without a key sends.

use std::sync::OnceLock;

use byway_fabrics::Nqn;
use byway_fabrics::authentication::Parties;
use byway_fabrics::tls::{PskForm, TlsKey, TlsPsk};
use byway_tls::{TlsSubsystem, hello};

use crate::input::Input;

const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

/// The first byte selects what the rest is.
pub fn tls(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, text)) => key(text),
        Some((1, extension)) => identities(extension),
        Some((_, rest)) => host(&mut Input::new(rest)),
        None => {}
    }
}

fn key(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let _ = text.parse::<PskForm>();
    if let Ok(key) = text.parse::<TlsKey>() {
        assert_eq!(key.reveal(), text);
    }
}

/// Identities lie within the extension, in order and without overlap.
fn identities(extension: &[u8]) {
    let within = extension.as_ptr_range();
    let mut end = within.start;
    for identity in hello::identities(extension) {
        let found = identity.as_ptr_range();
        assert!(end < found.start && found.end <= within.end);
        end = found.end;
    }
    for place in 0..4 {
        assert!(hello::binder_bytes(extension, place).is_none_or(|bytes| bytes <= usize::from(u8::MAX)));
    }
}

/// A host sends whatever it likes, in any pieces: it is not let in.
fn host(input: &mut Input<'_>) {
    let Ok(mut session) = subsystem().session() else { return };
    let mut room = [0; 64];
    while !input.is_empty() {
        let piece = input.bytes(1 + usize::from(input.clone().byte())).to_vec();
        if session.put(&piece).is_err() || session.read(&mut room).is_err() {
            break;
        }
        session.sent(session.unsent().len());
    }
    assert!(!session.is_open() && session.psk().is_none(), "without the key");
}

#[expect(clippy::unwrap_used, reason = "a key and names that are known, and OpenSSL")]
fn subsystem() -> &'static TlsSubsystem {
    static ONE: OnceLock<TlsSubsystem> = OnceLock::new();
    ONE.get_or_init(|| {
        let key: TlsKey = KEY.parse().unwrap();
        let name = |name| Nqn::new(name).unwrap();
        let parties = Parties { host: name("nqn.psk-test-host"), subsystem: name("nqn.psk-test-subsys") };
        TlsSubsystem::new(PskForm::ALL_DISTINGUISHABLE.map(|form| TlsPsk::of(&key, &parties, form))).unwrap()
    })
}
