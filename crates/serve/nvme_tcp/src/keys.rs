//! Secrets and TLS keys of a subsystem's hosts, set when it is added and replaceable at run time.
//!
//! Changes apply to new connections and to Connects of existing ones; connected queues continue.

use byway_fabrics::Nqn;

use crate::options::{Dhchap, Tls, TlsPolicy};

/// Secrets and TLS keys of hosts.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// As [`SubsystemTerms::dhchap`](crate::SubsystemTerms::dhchap).
    pub dhchap: Option<Dhchap>,
    /// As [`SubsystemTerms::tls`](crate::SubsystemTerms::tls).
    pub tls: Option<Tls>,
}

impl Keys {
    /// Adds the secrets and keys of `more`, which replace those of the same hosts.
    #[must_use]
    pub fn with(self, more: Self) -> Self {
        let dhchap = match (self.dhchap, more.dhchap) {
            (Some(mut here), Some(more)) => {
                here.hosts.retain(|(host, _)| more.hosts.iter().all(|(other, _)| other != host));
                here.hosts.extend(more.hosts);
                Some(here)
            }
            (here, more) => here.or(more),
        };
        let tls = match (self.tls, more.tls) {
            (Some(here), Some(more)) => Some(here.with(more)),
            (here, more) => here.or(more),
        };
        Self { dhchap, tls }
    }

    /// Removes the secret and key of a host. The requirement stays, even if no host has a secret or key any more.
    #[must_use]
    pub(crate) fn without(mut self, host: &Nqn) -> Self {
        self.dhchap.iter_mut().for_each(|dhchap| dhchap.hosts.retain(|(name, _)| name != host));
        self.tls = self.tls.map(|tls| tls.without(host));
        self
    }

    /// Whether a host has the secret or key that is required.
    #[must_use]
    pub fn admit(&self, host: &Nqn) -> bool {
        let has_secret = |dhchap: &Dhchap| dhchap.hosts.iter().any(|(name, _)| name == host);
        let may_come = |tls: &Tls| match tls.policy {
            TlsPolicy::Allowed => true,
            TlsPolicy::Required => tls.hosts.contains(host),
            TlsPolicy::Concatenated => self.dhchap.is_some() || tls.hosts.contains(host),
        };
        self.dhchap.as_ref().is_none_or(has_secret) && self.tls.as_ref().is_none_or(may_come)
    }

    /// Whether every queue requires TLS.
    pub(crate) fn require_tls(&self) -> bool {
        !self.admit_in_clear(0)
    }

    /// Whether a host may connect this queue without TLS.
    pub(crate) fn admit_in_clear(&self, qid: u16) -> bool {
        match self.tls_policy() {
            None | Some(TlsPolicy::Allowed) => true,
            Some(TlsPolicy::Required) => false,
            Some(TlsPolicy::Concatenated) => qid == 0 && self.dhchap.is_some(),
        }
    }

    /// The TLS policy; `None` without TLS.
    pub(crate) fn tls_policy(&self) -> Option<TlsPolicy> {
        self.tls.as_ref().map(|tls| tls.policy)
    }
}
