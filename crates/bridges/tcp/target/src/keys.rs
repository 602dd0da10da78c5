//! By what hosts show who they are to a subsystem: told when it is served, and anew while it is.
//!
//! What is changed holds for connections that come, and for what they ask for when they connect. Those that are there go on.

use byway_fabrics::Nqn;

use crate::control::{ControlError, TargetControl};
use crate::options::{Dhchap, Tls, TlsPolicy};

/// By what hosts show who they are.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// As [`SubsystemTerms::dhchap`](crate::SubsystemTerms::dhchap).
    pub dhchap: Option<Dhchap>,
    /// As [`SubsystemTerms::tls`](crate::SubsystemTerms::tls).
    pub tls: Option<Tls>,
}

/// The keys of a subsystem, to be changed while it is served. It does not keep the target.
#[derive(Debug, Clone)]
pub struct TargetKeys {
    control: TargetControl,
    subsystem: Nqn,
}

impl Keys {
    /// Whether a host has what is asked of it.
    pub(crate) fn admit(&self, host: &Nqn) -> bool {
        let has_secret = |dhchap: &Dhchap| dhchap.hosts.iter().any(|(name, _)| name == host);
        let may_come = |tls: &Tls| tls.policy == TlsPolicy::Allowed || tls.hosts.contains(host);
        self.dhchap.as_ref().is_none_or(has_secret) && self.tls.as_ref().is_none_or(may_come)
    }

    /// Whether hosts must come by TLS.
    pub(crate) fn require_tls(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.policy == TlsPolicy::Required)
    }
}

impl TargetKeys {
    pub(crate) fn of(control: TargetControl, subsystem: Nqn) -> Self {
        Self { control, subsystem }
    }

    /// Has connections that come go by `keys`, all of them at once. Nothing happens where the subsystem is served no more.
    ///
    /// # Errors
    /// Where there is no OpenSSL.
    pub fn set(&self, keys: Keys) -> Result<(), ControlError> {
        match self.control.set_keys(&self.subsystem, keys) {
            Err(ControlError::Gone | ControlError::NoSubsystem(_)) => Ok(()),
            set => set,
        }
    }
}
