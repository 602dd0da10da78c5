//! What a daemon is started with.

use std::path::PathBuf;

use byway_tdm_policy::Rules;
use byway_tdm_region::Opening;

use crate::clock::Clock;

/// Where it listens, and which memory it owns.
#[derive(Debug, Clone)]
pub struct Options {
    /// The region: `emu:PATH?size=1G` and the like.
    pub region: String,
    /// How it is opened.
    pub opening: Opening,
    /// Where it listens.
    pub socket: PathBuf,
    /// Where boards are: memory of the host, which ends with its power.
    pub boards: PathBuf,
    /// Bytes of a file's log.
    pub ring_bytes: u64,
    /// What is ordered of files by their paths.
    pub rules: Rules,
    /// Who has device memory as home.
    pub homing: Homing,
    /// The time that files are judged by.
    pub clock: Clock,
}

/// Which files have device memory as their home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Homing {
    /// Those that somebody pins there, by hand or by a rule. Nobody else's size and times are other than the system says.
    #[default]
    ByOrder,
    /// Absorbed files as well that are measured to be faster there.
    ByMerit,
}

impl Options {
    /// With what is usual for a region and a socket.
    #[must_use]
    pub fn new(region: &str, socket: PathBuf) -> Self {
        Self {
            region: region.to_owned(),
            opening: Opening::default(),
            socket,
            boards: "/dev/shm".into(),
            ring_bytes: 16 << 20,
            rules: Rules::default(),
            homing: Homing::default(),
            clock: Clock::default(),
        }
    }
}
