//! The other side: a process that serves a device, or answers pings.

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use byway::serve::{Idle, ServeOptions, TcpOptions};
use byway_benches::peer::{Folder, Peer, serve_for_peer};
use clap::{Args, ValueEnum};

use crate::ping;

/// Limit of every wait before a measurement.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How a side waits for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Waits {
    /// Polls for a while, then sleeps.
    Adaptive,
    /// Sleeps at once.
    Sleep,
    /// Polls without end.
    Poll,
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Adaptive => "adaptive",
            Self::Sleep => "sleep",
            Self::Poll => "poll",
        })
    }
}

/// Arguments of the other side.
#[derive(Debug, Args)]
pub struct Other {
    /// The device that it serves; without it, it answers pings.
    #[arg(long, hide = true)]
    serve: Option<String>,
    #[arg(long, hide = true, default_value = "adaptive")]
    idle: Waits,
    /// The file that it writes its address into.
    #[arg(long, hide = true)]
    at: Option<PathBuf>,
}

impl Other {
    /// Whether this process is the other side.
    pub fn is_asked_for(&self) -> bool {
        self.at.is_some()
    }

    /// Runs the other side, until the process that started it ends.
    pub fn run(&self) -> Result<()> {
        let at = self.at.as_ref().context("--at")?;
        let Some(uri) = &self.serve else { return ping::answer(|place| announce(at, &place.to_string())) };
        let idle = match self.idle {
            Waits::Adaptive => Idle::Adaptive,
            Waits::Sleep => Idle::Sleep,
            Waits::Poll => Idle::Poll,
        };
        let anywhere = TcpOptions::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        serve_for_peer(uri, &ServeOptions::over_tcp(anywhere).idle(idle), |served| {
            let place = served.tcp_address().context("it listens nowhere")?;
            announce(at, &format!("tcp://{place}/{}", served.nqn()))
        })
    }
}

/// Writes a line to a file that appears complete.
fn announce(at: &Path, what: &str) -> Result<()> {
    let draft = at.with_extension("draft");
    fs::write(&draft, what)?;
    Ok(fs::rename(draft, at)?)
}

/// The other side's process, and its address.
pub struct OtherSide {
    pub said: String,
    peer: Peer,
    _folder: Folder,
}

impl OtherSide {
    /// Starts it on a processor of its own.
    pub fn start(what: &str, arguments: &[&str], cpu: usize) -> Result<Self> {
        let folder = Folder::of(&format!("tcp-{what}"))?;
        let at = folder.path().join("at");
        let place = at.to_str().context("the folder for temporary files has no name in UTF-8")?;
        let cpus = format!("{cpu},{cpu}");
        let peer = Peer::start([&["--cpus", &cpus, "--at", place], arguments].concat())?;
        let until = Instant::now() + TIMEOUT;
        loop {
            match fs::read_to_string(&at) {
                Ok(said) => return Ok(Self { said, peer, _folder: folder }),
                Err(_) if Instant::now() > until => bail!("the other side does not begin"),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// A device that the other side serves.
pub struct Served(OtherSide);

impl Served {
    /// Serves the device at `uri`.
    pub fn start(uri: &str, waits: Waits, cpu: usize) -> Result<Self> {
        let what = format!("{}-{waits}", uri.split(':').next().unwrap_or_default());
        OtherSide::start(&what, &["--serve", uri, "--idle", &waits.to_string()], cpu).map(Self)
    }

    /// URI that connects to the served device.
    pub fn uri(&self) -> &str {
        &self.0.said
    }

    /// Memory that its process has.
    pub fn resident_bytes(&self) -> Result<Option<u64>> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.peer.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Ok(kib.map(|kib| kib << 10))
    }
}
