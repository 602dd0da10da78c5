//! A program, the ways it is run, and where.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use byway_sys::affinity;

use crate::in_mount::InMount;

/// A way to run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// It keeps nothing: the most that it can do.
    NoLog,
    /// It syncs nothing, on the file system alone.
    Unsynced,
    /// It syncs each write, on the file system alone.
    Always,
    /// The same once more: what this differs by is noise.
    AlwaysAgain,
    /// The same with its files absorbed.
    AlwaysAbsorbed,
    /// The same with device memory as its file's home.
    AlwaysResident,
    /// The same in a mount, without the library.
    AlwaysMounted,
    /// In a mount that no daemon serves: what the mount alone takes.
    MountedAlone,
    /// Whatever it does, under the library: the policy decides.
    Served,
    /// It syncs once a second, on the file system alone.
    EverySecond,
    /// The same with its files absorbed.
    EverySecondAbsorbed,
    /// The same with device memory as its log's home.
    EverySecondResident,
}

impl Setting {
    /// In tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoLog => "no log",
            Self::Unsynced => "never synced",
            Self::Always => "file system",
            Self::AlwaysAgain => "file system, again",
            Self::AlwaysAbsorbed => "absorbed",
            Self::AlwaysResident => "at home",
            Self::AlwaysMounted => "absorbed in a mount",
            Self::MountedAlone => "a mount, unserved",
            Self::Served => "under the library",
            Self::EverySecond => "file system, every second",
            Self::EverySecondAbsorbed => "absorbed, every second",
            Self::EverySecondResident => "at home, every second",
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

    /// Whether device memory is to be the home of its log.
    pub const fn is_resident(self) -> bool {
        matches!(self, Self::AlwaysResident | Self::EverySecondResident)
    }

    /// Whether the library is loaded.
    const fn loads_library(self) -> bool {
        self.is_resident() || matches!(self, Self::AlwaysAbsorbed | Self::EverySecondAbsorbed | Self::Served)
    }
}

/// A program that can be run in some ways.
pub trait Program {
    /// Its name in results.
    fn name(&self) -> String;

    /// What it says it is; `None` where it is not installed.
    fn version(&self) -> Option<String>;

    /// The ways to run it that are compared.
    fn settings(&self) -> Vec<Setting>;

    /// Runs it from scratch; how much it did in a second.
    ///
    /// # Errors
    /// Why it did not run.
    fn run(&mut self, setting: Setting, place: &Place) -> Result<f64>;
}

/// Where programs run.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    library: PathBuf,
    cpus: [usize; 2],
    /// Loaded behind the library: has each sync below take longer by so much.
    slow: Option<(PathBuf, u64)>,
}

/// The program, or who drives it.
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

    /// By how much syncs of programs take longer below.
    pub fn sync_us(&self) -> u64 {
        self.slow.as_ref().map_or(0, |(_, sync_us)| *sync_us)
    }

    /// The library that absorbs.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Where the daemon is.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Has a folder mounted where a setting says so, until the result goes. It is answered for on the program's processor, as that waits.
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

    /// What is started from here on, threads too, runs on that processor.
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

/// The library by which syncs below take longer, made in a folder.
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

/// The first line of what a program says when it is asked what it is.
pub fn version_of(program: &str, argument: &str) -> Option<String> {
    let said = Command::new(program).arg(argument).output().ok()?;
    let text = String::from_utf8_lossy(if said.stdout.is_empty() { &said.stderr } else { &said.stdout })
        .into_owned();
    text.lines().next().map(|line| line.trim().to_owned())
}
