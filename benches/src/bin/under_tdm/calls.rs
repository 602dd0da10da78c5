//! Write and fdatasync by a loop of this program's own, run once more under the library.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use byway_benches::paired::quantile;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::{Channel, Order, Reply, Request, SOCKET_VARIABLE};
use byway_tdm_engine::table::{FileKey, Level};
use clap::Args;

use crate::in_mount::InMount;
use crate::program::{Place, Program, Role, Setting};

/// Timeout of a request to the daemon.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Untimed calls at the start: a file is absorbed after a few.
const WARM_UP: u32 = 100;

/// Writes without syncs are timed in groups of so many: reading the clock takes a tenth of one.
const AT_ONCE: u32 = 100;

/// Options of the child process that runs the loop.
#[derive(Debug, Args)]
pub struct Side {
    /// The file to write; given to the child alone.
    #[arg(long, hide = true)]
    write_to: Option<PathBuf>,
    #[arg(long, hide = true, default_value_t = 64)]
    len: usize,
    #[arg(long, hide = true, default_value_t = 1000)]
    calls: u32,
    #[arg(long, hide = true)]
    sync: bool,
    #[arg(long, hide = true)]
    resident: bool,
}

impl Side {
    /// Whether this process is the child.
    pub const fn is_asked_for(&self) -> bool {
        self.write_to.is_some()
    }

    /// Runs the loop and prints the nanoseconds of the median call, or of one call of the median group.
    pub fn run(&self) -> Result<()> {
        let path = self.write_to.as_ref().context("a file")?;
        let mut file = File::options().create(true).append(true).open(path)?;
        let data = vec![b'w'; self.len];
        if self.resident {
            promote_if_requested(&file)?;
        }
        let at_once = if self.sync { 1 } else { AT_ONCE };
        let mut each_ns = Vec::with_capacity((self.calls / at_once) as usize);
        for call in (0..self.calls + WARM_UP).step_by(at_once as usize) {
            let begun = Instant::now();
            for _ in 0..at_once {
                file.write_all(&data)?;
                if self.sync {
                    sync(&file)?;
                }
            }
            if call >= WARM_UP {
                each_ns.push(begun.elapsed().as_nanos() as f64 / f64::from(at_once));
            }
        }
        println!("{}", quantile(&each_ns, 0.5));
        Ok(())
    }
}

/// Has a file promoted at its next sync.
pub fn request_promotion(path: &Path, socket: &Path) -> Result<()> {
    let key = FileKey::of(File::open(path)?)?.context("the file system has no birth times")?.key;
    let (reply, _) = Channel::connect(socket, LOCK_TIMEOUT)?.ask(Request::Order(Order::Promote, key), &[])?;
    ensure!(reply == Reply::Done, "it cannot be promoted: {reply:?}");
    Ok(())
}

/// Promotes a file while it is still empty.
fn promote_if_requested(file: &File) -> Result<()> {
    let socket = PathBuf::from(std::env::var_os(SOCKET_VARIABLE).context("no daemon")?);
    let key = FileKey::of(file)?.context("the file system has no birth times")?.key;
    let (reply, _) =
        Channel::connect(&socket, LOCK_TIMEOUT)?.ask(Request::Order(Order::Promote, key), &[])?;
    sync(file)?;
    let session = Session::begin(&socket)?;
    let level_state =
        session.file_table().find(key).context("the file is not in the file table")?.level_state();
    ensure!(level_state.level == Level::Dax, "it is not DAX-resident: {reply:?}, {}", level_state.why);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "what is measured")]
fn sync(file: &File) -> std::io::Result<()> {
    file.sync_data()
}

/// The loop as a program to measure.
#[derive(Debug)]
pub struct Calls {
    len: usize,
    sync: bool,
}

impl Calls {
    /// Each write followed by a sync.
    pub const fn synced(len: usize) -> Self {
        Self { len, sync: true }
    }

    /// Writes alone: a file without syncs stays at PASS.
    pub const fn unsynced(len: usize) -> Self {
        Self { len, sync: false }
    }
}

impl Program for Calls {
    fn name(&self) -> String {
        format!("{}-{}", if self.sync { "calls" } else { "writes" }, self.len)
    }

    fn version(&self) -> Option<String> {
        Some("a loop of this program".to_owned())
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings = vec![Setting::Always, Setting::AlwaysAbsorbed];
        // The cost of a write at PASS is below the noise of the file system.
        settings.push(if self.sync { Setting::AlwaysResident } else { Setting::AlwaysAgain });
        if self.sync && InMount::is_possible() {
            settings.extend([Setting::AlwaysMounted, Setting::MountedAlone]);
        }
        settings
    }

    fn run(&mut self, setting: Setting, place: &Place) -> Result<f64> {
        let folder = place.fresh()?;
        let _mount = place.mount(folder.path(), setting)?;
        let calls = if self.sync && !setting.is_served() { 300 } else { 20_000 };
        let mut command = place.command(std::env::current_exe()?, Role::Program, setting)?;
        command.arg("--write-to").arg(folder.path().join("log"));
        command.args(["--len", &self.len.to_string(), "--calls", &calls.to_string()]);
        if self.sync {
            command.arg("--sync");
        }
        if setting == Setting::AlwaysResident {
            command.arg("--home");
        }
        let said = command.stderr(Stdio::inherit()).output()?;
        let ns: f64 = String::from_utf8_lossy(&said.stdout).trim().parse().context("the loop's median")?;
        Ok(1e9 / ns)
    }
}
