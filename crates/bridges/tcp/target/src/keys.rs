//! By what hosts show who they are: told when the target begins, and anew while it serves.
//!
//! What is changed holds for connections that come, and for what they ask for when they connect. Those that are there go on.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use byway_fabrics::Nqn;

use crate::options::{Dhchap, Tls, TlsPolicy};
use crate::premises::Place;
use crate::worker::Crew;

/// By what hosts show who they are.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// As [`TargetOptions::dhchap`](crate::TargetOptions::dhchap).
    pub dhchap: Option<Dhchap>,
    /// As [`TargetOptions::tls`](crate::TargetOptions::tls).
    pub tls: Option<Tls>,
}

/// The keys of a target, to be changed while it serves. It does not keep the target.
#[derive(Debug, Clone)]
pub struct TargetKeys(Weak<Crew>);

/// The keys of now.
#[derive(Debug)]
pub(crate) struct KeyRing(Mutex<Arc<Keys>>);

impl Keys {
    /// Whether a host has what is asked of it.
    pub(crate) fn admit(&self, host: &Nqn) -> bool {
        let has_secret = |dhchap: &Dhchap| dhchap.hosts.iter().any(|(name, _)| name == host);
        let may_come = |tls: &Tls| tls.policy == TlsPolicy::Allowed || tls.hosts.contains(host);
        self.dhchap.as_ref().is_none_or(has_secret) && self.tls.as_ref().is_none_or(may_come)
    }

    /// Whether nothing but TLS is spoken at `place`. Where discovery alone is, hosts learn that it is elsewhere.
    pub(crate) fn require_tls(&self, place: &Place) -> bool {
        place.port.is_some() && self.tls.as_ref().is_some_and(|tls| tls.policy == TlsPolicy::Required)
    }
}

impl TargetKeys {
    pub(crate) fn of(crew: &Arc<Crew>) -> Self {
        Self(Arc::downgrade(crew))
    }

    /// Has connections that come go by `keys`, all of them at once. Nothing happens where the target has ended.
    pub fn set(&self, keys: Keys) {
        if let Some(crew) = self.0.upgrade() {
            crew.premises.keys.set(keys);
        }
    }
}

impl KeyRing {
    /// These, to begin with.
    pub fn new(keys: Keys) -> Self {
        Self(Mutex::new(Arc::new(keys)))
    }

    /// What holds now.
    pub fn now(&self) -> Arc<Keys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, keys: Keys) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }
}
