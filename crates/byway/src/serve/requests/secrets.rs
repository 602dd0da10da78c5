//! Secrets and keys of hosts in a control request.

use std::fmt;

use byway_admin::{Fields, Text};
use byway_core::{Error, ErrorKind, Result};
use byway_tcp_target::{AuthSecrets, AuthSuites, Dhchap, Nqn, TlsPolicy};

use crate::serve::tcp::{HostKeys, TlsKeys, name};

/// Secret and key of a host, as `byway key new` writes them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HostSecrets {
    /// Its name.
    pub host: String,
    /// Its secret (DH-HMAC-CHAP), where it has one.
    pub dhchap: Option<String>,
    /// The controller's secret for it, if there is one.
    pub controller: Option<String>,
    /// Its key of TLS, where it has one.
    pub tls: Option<String>,
}

impl fmt::Debug for HostSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSecrets").field("host", &self.host).finish_non_exhaustive()
    }
}

impl HostSecrets {
    /// A host without secret and key.
    #[must_use]
    pub fn of(host: &str) -> Self {
        Self { host: host.to_owned(), ..Self::default() }
    }

    pub(super) fn add_to(&self, text: Text) -> Text {
        let text = text.with(&self.host).with_option(self.dhchap.as_ref());
        text.with_option(self.controller.as_ref()).with_option(self.tls.as_ref())
    }

    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (host, dhchap) = (fields.text()?, fields.option()?);
        Some(Self { host, dhchap, controller: fields.option()?, tls: fields.option()? })
    }

    fn secrets(&self) -> Result<Option<(Nqn, AuthSecrets)>> {
        let Some(host) = &self.dhchap else { return Ok(None) };
        let host = host.parse().map_err(|wrong| self.wrong(&wrong))?;
        let controller = self.controller.as_ref().map(|secret| secret.parse()).transpose();
        let controller = controller.map_err(|wrong| self.wrong(&wrong))?;
        Ok(Some((name(&self.host)?, AuthSecrets { host, controller })))
    }

    /// What is wrong, which repeats nothing of it.
    fn wrong(&self, wrong: &dyn fmt::Display) -> Error {
        Error::host(ErrorKind::InvalidArgument, format!("{}: {wrong}", self.host))
    }
}

/// The secrets and keys of these hosts; `None` where no host has any.
///
/// # Errors
/// A secret, a key or a name that is none.
pub(super) fn keys_of(all: &[HostSecrets]) -> Result<HostKeys> {
    let (mut secrets, mut keys) = (Vec::new(), Vec::new());
    for of in all {
        secrets.extend(of.secrets()?);
        if let Some(key) = &of.tls {
            keys.push((name(&of.host)?, key.parse().map_err(|wrong| of.wrong(&wrong))?));
        }
    }
    let suites = AuthSuites::default();
    let dhchap = (!secrets.is_empty()).then_some(Dhchap { hosts: secrets, suites, timeout: Dhchap::TIMEOUT });
    let tls = (!keys.is_empty()).then_some(TlsKeys { hosts: keys, policy: TlsPolicy::Required });
    Ok(HostKeys { dhchap, tls })
}
