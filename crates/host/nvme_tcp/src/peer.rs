//! The peer of a connection: address, subsystem, host name, credentials.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use byway_core::{Error, ErrorKind, Result};
use byway_fabrics::authentication::{AuthSecrets, Parties};
use byway_fabrics::tls::{PskForm, TlsKey, TlsPsk};
use byway_fabrics::{HostId, Nqn};
use byway_nvme_tcp::Digests;
use byway_sys::Idle;
use byway_tls::TlsHost;
use parking_lot::Mutex;

/// Port of I/O subsystems, where none is given.
pub const PORT: u16 = 4420;

/// Port of discovery services, where none is given.
pub const DISCOVERY_PORT: u16 = 8009;

/// A subsystem at a TCP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpPlace {
    /// Name or address of the machine.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Name of the subsystem.
    pub subsystem: Nqn,
}

/// Options of a connection to a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpOptions {
    /// NQN of this host; [`default_host`] where it is `None`, the default.
    pub host: Option<Nqn>,
    /// Host identifier. `None`, the default: the UUID in the host's NQN, or else this boot's identifier.
    pub host_id: Option<HostId>,
    /// DH-HMAC-CHAP secrets, of this host and, to authenticate the controller too, of the controller. None by default.
    pub dhchap: Option<AuthSecrets>,
    /// TLS pre-shared key. `None`, the default, is clear text, unless `concatenate` is set.
    pub tls: Option<TlsWith>,
    /// Secure channel concatenation: authentication makes the TLS key, in place of a configured one. Off by default.
    pub concatenate: bool,
    /// Digests that every connection must have; none by default.
    pub digests: Digests,
    /// Keep Alive Timeout (KATO), 5 s by default; a Keep Alive is sent twice in that time. Zero disables it.
    pub keep_alive: Duration,
    /// How long to reconnect to a lost controller before the commands that wait for it fail, 600 s by default.
    pub controller_loss: Duration,
    /// How long one attempt to connect to a controller, or to connect a queue, may take, 10 s by default.
    pub connect_timeout: Duration,
    /// How long an admin command may take, 30 s by default.
    pub admin_timeout: Duration,
    /// Most I/O queues to request of the controller, 128 by default.
    pub queues: u16,
    /// Whether a queue polls, sleeps, or polls and then sleeps while its program waits.
    pub idle: Idle,
}

/// TLS by a pre-shared key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsWith {
    /// The pre-shared key, which the subsystem has too.
    pub key: TlsKey,
    /// Which of the pre-shared keys that it makes.
    pub form: PskForm,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            host: None,
            host_id: None,
            dhchap: None,
            tls: None,
            concatenate: false,
            digests: Digests::NONE,
            keep_alive: Duration::from_secs(5),
            controller_loss: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(10),
            admin_timeout: Duration::from_secs(30),
            queues: 128,
            idle: Idle::default(),
        }
    }
}

impl TcpOptions {
    byway_sys::setters! {
        /// NQN of this host; [`default_host`] where it is `None`, the default.
        host: impl Into<Option<Nqn>>;
        /// Host identifier. `None`, the default: the UUID in the host's NQN, or else this boot's identifier.
        host_id: impl Into<Option<HostId>>;
        /// DH-HMAC-CHAP secrets, of this host and, to authenticate the controller too, of the controller. None by default.
        dhchap: impl Into<Option<AuthSecrets>>;
        /// TLS pre-shared key. `None`, the default, is clear text, unless `concatenate` is set.
        tls: impl Into<Option<TlsWith>>;
        /// Secure channel concatenation: authentication makes the TLS key, in place of a configured one. Off by default.
        concatenate: bool;
        /// Digests that every connection must have; none by default.
        digests: Digests;
        /// Keep Alive Timeout (KATO), 5 s by default; a Keep Alive is sent twice in that time. Zero disables it.
        keep_alive: Duration;
        /// How long to reconnect to a lost controller before the commands that wait for it fail, 600 s by default.
        controller_loss: Duration;
        /// How long one attempt to connect to a controller, or to connect a queue, may take, 10 s by default.
        connect_timeout: Duration;
        /// How long an admin command may take, 30 s by default.
        admin_timeout: Duration;
        /// Most I/O queues to request of the controller, 128 by default.
        queues: u16;
        /// Whether a queue polls, sleeps, or polls and then sleeps while its program waits.
        idle: Idle;
    }
}

/// The two ends of every connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub place: TcpPlace,
    pub options: TcpOptions,
    pub host: Nqn,
    pub host_id: HostId,
    pub security: Security,
}

/// What is between this host and the controller.
#[derive(Clone, Debug)]
pub(crate) enum Security {
    /// No TLS: commands and data are sent in clear text.
    Clear,
    /// TLS, by a configured key.
    Configured(TlsHost),
    /// TLS, by the key that was made when the controller was connected to last.
    Made(Arc<Mutex<Option<TlsHost>>>),
}

impl Security {
    fn of(options: &TcpOptions, parties: &Parties) -> Result<Self> {
        match &options.tls {
            Some(_) if options.concatenate => Err(Error::host(
                ErrorKind::InvalidArgument,
                "a TLS key is configured or made by authentication, not both",
            )),
            Some(TlsWith { key, form }) => tls_host(TlsPsk::of(key, parties, *form)).map(Self::Configured),
            None if options.concatenate => Ok(Self::Made(Arc::default())),
            None => Ok(Self::Clear),
        }
    }

    /// What TLS is begun by, where there is anything.
    pub fn tls(&self) -> Option<TlsHost> {
        match self {
            Self::Clear => None,
            Self::Configured(tls) => Some(tls.clone()),
            Self::Made(tls) => tls.lock().clone(),
        }
    }

    /// Whether an authentication makes the key, and has made one: there is nothing left to show then.
    pub fn is_by_authentication(&self) -> bool {
        matches!(self, Self::Made(_)) && self.tls().is_some()
    }

    /// Goes by this key from here on, or by none until there is one, where an authentication makes it.
    ///
    /// # Errors
    /// Where there is no OpenSSL.
    pub fn renew(&self, psk: Option<TlsPsk>) -> Result<()> {
        let Self::Made(tls) = self else { return Ok(()) };
        *tls.lock() = psk.map(tls_host).transpose()?;
        Ok(())
    }
}

fn tls_host(psk: TlsPsk) -> Result<TlsHost> {
    TlsHost::new(psk).map_err(|why| Error::host(ErrorKind::Unsupported, why.to_string()))
}

impl Peer {
    pub fn new(place: TcpPlace, options: TcpOptions) -> Result<Self> {
        let host = match &options.host {
            Some(host) => host.clone(),
            None => default_host()?,
        };
        let host_id = options.host_id.or_else(|| uuid_of(&host)).unwrap_or_else(boot);
        let parties = Parties { host: host.clone(), subsystem: place.subsystem.clone() };
        let security = Security::of(&options, &parties)?;
        Ok(Self { place, options, host, host_id, security })
    }

    /// Names of both parties, by which keys are derived and secrets proven.
    pub fn parties(&self) -> Parties {
        Parties { host: self.host.clone(), subsystem: self.place.subsystem.clone() }
    }

    /// The other end, for messages.
    pub fn shown(&self) -> String {
        format!("{}:{}", self.place.host, self.place.port)
    }
}

/// The prefix of a name that is a UUID.
const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// The name of this machine: that of `/etc/nvme/hostnqn` where an administrator gave it one, else one that holds until the
/// machine is started anew.
///
/// # Errors
/// For a file that holds no name.
pub fn default_host() -> Result<Nqn> {
    let (name, from) = match byway_sys::text::read_settings(Path::new("/etc/nvme/hostnqn")) {
        Ok(text) => (text.trim().to_owned(), "/etc/nvme/hostnqn"),
        Err(_) => (format!("{UUID_PREFIX}{}", boot()), "this boot's identifier"),
    };
    Nqn::new(&name).map_err(|wrong| Error::host(ErrorKind::InvalidArgument, format!("{from}: {wrong}")))
}

fn boot() -> HostId {
    HostId(byway_sys::boot::boot_id().unwrap_or([0xb1; 16]))
}

fn uuid_of(host: &Nqn) -> Option<HostId> {
    host.as_str().strip_prefix(UUID_PREFIX)?.parse().ok()
}
