//! Programs to measure, the settings they run at, and their folders.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use byway_sys::affinity;

use crate::in_mount::InMount;

/// A setting that a program runs at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Without a log: the upper bound.
    NoLog,
    /// No syncs, on the file system alone.
    Unsynced,
    /// A sync for each write, on the file system alone.
    Always,
    /// The same once more, for the noise.
    AlwaysAgain,
    /// The same with its files absorbed.
    AlwaysAbsorbed,
    /// The same with its file DAX-resident.
    AlwaysResident,
    /// The same in a mount, without the library.
    AlwaysMounted,
    /// In a mount without a daemon: the cost of the mount alone.
    MountedAlone,
    /// Under the library, with the level left to the policy.
    Served,
    /// A sync each second, on the file system alone.
    EverySecond,
    /// The same with its files absorbed.
    EverySecondAbsorbed,
    /// The same with its log DAX-resident.
    EverySecondResident,
}

impl Setting {
    /// Its name in tables and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoLog => "no log",
            Self::Unsynced => "never synced",
            Self::Always => "file system",
            Self::AlwaysAgain => "file system, again",
            Self::AlwaysAbsorbed => "absorbed",
            Self::AlwaysResident => "DAX-resident",
            Self::AlwaysMounted => "absorbed in a mount",
            Self::MountedAlone => "a mount, unserved",
            Self::Served => "under the library",
            Self::EverySecond => "file system, every second",
            Self::EverySecondAbsorbed => "absorbed, every second",
            Self::EverySecondResident => "DAX-resident, every second",
        }
    }

    /// The same on the file system alone.
    pub const fn alone(self) -> Option<Self> {
        match self {
            Self::AlwaysAgain
            | Self::AlwaysAbsorbed
            | Self::AlwaysResident
            | Self::AlwaysMounted
            | Self::MountedAlone
            | Self::Served => Some(Self::Always),
            Self::EverySecondAbsorbed | Self::EverySecondResident => Some(Self::EverySecond),
            _ => None,
        }
    }

    /// Whether a daemon serves it.
    pub const fn is_served(self) -> bool {
        matches!(self, Self::AlwaysMounted) || self.loads_library()
    }

    /// Whether its log is DAX-resident.
    pub const fn is_resident(self) -> bool {
        matches!(self, Self::AlwaysResident | Self::EverySecondResident)
    }

    /// Whether the library is loaded.
    const fn loads_library(self) -> bool {
        self.is_resident() || matches!(self, Self::AlwaysAbsorbed | Self::EverySecondAbsorbed | Self::Served)
    }
}

/// A program that runs at several settings.
pub trait Program {
    /// Its name in results.
    fn name(&self) -> String;

    /// Its version line; `None` where it is not installed.
    fn version(&self) -> Option<String>;

    /// The settings to compare.
    fn settings(&self) -> Vec<Setting>;

    /// Runs it from scratch; returns its operations per second.
    ///
    /// # Errors
    /// Why it did not run.
    fn run(&mut self, setting: Setting, place: &Place) -> Result<f64>;
}

/// The folder, the daemon and the processors of a run.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    library: PathBuf,
    cpus: [usize; 2],
    /// Library loaded behind ours that delays each sync below.
    slow: Option<(PathBuf, u64)>,
}

/// The processor of the program, or of its load generator.
#[derive(Debug, Clone, Copy)]
pub enum Role {
    Program,
    Driver,
}

impl Place {
    /// In a folder that has the daemon's socket, above a disk whose syncs take so much longer for programs, whether the library has their files or not.
    pub fn new(folder: &Path, cpus: &[usize], sync_us: u64) -> Result<Self> {
        let me = std::env::current_exe()?;
        let library = me.with_file_name("libbyway_tdm.so");
        if !library.is_file() {
            bail!("{} is not there: cargo build --release -p byway-tdm-interpose", library.display());
        }
        let cpus = cpus.try_into().ok().context("--cpus takes two processors")?;
        let slow = if sync_us > 0 { Some((below(folder)?, sync_us)) } else { None };
        Ok(Self { folder: folder.canonicalize()?, library, cpus, slow })
    }

    /// Delay of each sync below.
    pub fn sync_us(&self) -> u64 {
        self.slow.as_ref().map_or(0, |(_, sync_us)| *sync_us)
    }

    /// Path of `libbyway_tdm.so`.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Socket of the daemon.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Mounts a folder if the setting says so, until the result is dropped. Its threads run on the program's processor, which waits for them.
    pub fn mount(&self, folder: &Path, setting: Setting) -> Result<Option<InMount>> {
        let socket = match setting {
            Setting::AlwaysMounted => self.socket(),
            Setting::MountedAlone => self.folder.join("no-daemon"),
            _ => return Ok(None),
        };
        self.pin(Role::Program)?;
        InMount::begin(folder, socket).map(Some)
    }

    /// An empty folder for one run.
    pub fn fresh(&self) -> Result<tempfile::TempDir> {
        Ok(tempfile::tempdir_in(&self.folder)?)
    }

    /// Pins this thread, and all that it starts, to a processor.
    pub fn pin(&self, role: Role) -> Result<()> {
        Ok(affinity::pin(self.cpus[role as usize])?)
    }

    /// A command for a run at a setting, on its processor: a process inherits that of the thread that starts it.
    pub fn command(
        &self,
        program: impl AsRef<std::ffi::OsStr>,
        role: Role,
        setting: Setting,
    ) -> Result<Command> {
        self.pin(role)?;
        let mut command = Command::new(program);
        let mut libraries = Vec::new();
        if setting.loads_library() {
            libraries.push(&self.library);
            command.env(byway_tdm_engine::control::SOCKET_VARIABLE, self.socket());
        }
        if let (Some((library, sync_us)), Role::Program) = (&self.slow, role) {
            libraries.push(library);
            // In three steps one after the other, each a third of it.
            command.env("BYWAY_BELOW", format!("{},0", sync_us * 1000 / 3));
        }
        if !libraries.is_empty() {
            let names: Vec<_> = libraries.iter().map(|library| library.display().to_string()).collect();
            command.env("LD_PRELOAD", names.join(":"));
        }
        Ok(command)
    }
}

/// Builds the library that delays syncs below, in a folder.
pub fn below(folder: &Path) -> Result<PathBuf> {
    let source = folder.join("below.c");
    std::fs::write(&source, include_str!("below.c"))?;
    let made = folder.join("below.so");
    let status = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).args([&made, &source]).status();
    if !status.context("run cc")?.success() {
        bail!("below.c does not compile");
    }
    Ok(made)
}

/// The first line of a program's version output.
pub fn version_of(program: &str, argument: &str) -> Option<String> {
    let said = Command::new(program).arg(argument).output().ok()?;
    let text = String::from_utf8_lossy(if said.stdout.is_empty() { &said.stderr } else { &said.stdout })
        .into_owned();
    text.lines().next().map(|line| line.trim().to_owned())
}
