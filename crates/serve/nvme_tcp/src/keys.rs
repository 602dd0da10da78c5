//! By what hosts show who they are to a subsystem: told when it is served, and anew while it is.
//!
//! What is changed holds for connections that come, and for what they ask for when they connect. Those that are there go on.

use byway_fabrics::Nqn;

use crate::options::{Dhchap, Tls, TlsPolicy};

/// By what hosts show who they are.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// As [`SubsystemTerms::dhchap`](crate::SubsystemTerms::dhchap).
    pub dhchap: Option<Dhchap>,
    /// As [`SubsystemTerms::tls`](crate::SubsystemTerms::tls).
    pub tls: Option<Tls>,
}

impl Keys {
    /// These, with those of the hosts that `more` has in place of their own.
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

    /// These without what a host shows who it is by. What is asked of hosts stays, also where none is left that has it.
    #[must_use]
    pub(crate) fn without(mut self, host: &Nqn) -> Self {
        self.dhchap.iter_mut().for_each(|dhchap| dhchap.hosts.retain(|(name, _)| name != host));
        self.tls = self.tls.map(|tls| tls.without(host));
        self
    }

    /// Whether a host has what is asked of it.
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

    /// Whether hosts must come by TLS, whatever they want.
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

    /// What is asked of hosts, where TLS is spoken.
    pub(crate) fn tls_policy(&self) -> Option<TlsPolicy> {
        self.tls.as_ref().map(|tls| tls.policy)
    }
}
