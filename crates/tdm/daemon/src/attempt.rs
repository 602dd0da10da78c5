//! One attempt to write a log back after a reboot. It may be killed and repeated.
//!
//! A file written since the boot is left alone, as it may be newer than its records; so is one written later than its log announced. An attempt
//! writes the file itself, so it stores in the file's slot until when it may: the next attempt recognises those writes.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use byway_tdm_engine::log::LowerFile;
use byway_tdm_region::Memory;

use crate::boot;
use crate::lower::{Lower, Sought};
use crate::outcome::{Outcome, Terms};
use crate::table::{Assignment, SlotNumber, Table};

/// Length of that announcement, renewed at half of it.
const LEASE: Duration = Duration::from_secs(1);

/// Resolution of the boot time: a file written within 1 s of it may have been written before.
const BOOT_CLOCK: Duration = Duration::from_secs(1);

/// A slot of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot<'t, M> {
    pub(crate) table: &'t Table<'t, M>,
    pub(crate) number: SlotNumber,
}

/// The file, as a log is written back to it.
#[derive(Debug)]
pub(crate) struct Attempt<'t, M> {
    lower: Lower,
    slot: Slot<'t, M>,
    /// Time until which the log announced writes of the file.
    logged_until: Option<Duration>,
    until: Cell<Duration>,
}

impl<'t, M: Memory> Attempt<'t, M> {
    /// Opens the file of a slot, whose log announced writes until then. The outcome if it cannot be written.
    pub(crate) fn at(
        slot: Slot<'t, M>,
        was: &Assignment,
        terms: Terms,
        until_ms: Option<u64>,
    ) -> Result<(PathBuf, Self), (PathBuf, Outcome)> {
        let failed = |why: String| (was.path.clone(), Outcome::Failed { why });
        let sought = Sought { key: was.key, is_renumbered: true, is_written: true };
        let found = Lower::find(&was.path, sought).map_err(|error| failed(error.to_string()))?;
        let Some((path, lower)) = found else { return Err((was.path.clone(), Outcome::Missing)) };
        if lower.owner_uid().map_err(|error| failed(error.to_string()))? != was.uid {
            return Err(failed("it belongs to another user by now".to_owned()));
        }
        let logged_until = until_ms.map(Duration::from_millis);
        let attempt = Self { lower, slot, logged_until, until: Cell::new(Duration::ZERO) };
        if !terms.is_forced && attempt.is_written_by_others() {
            return Err((path, Outcome::WrittenSince));
        }
        Ok((path, attempt))
    }

    /// Whether other programs wrote the file since the boot or since its log's announcement, or that is unknown.
    fn is_written_by_others(&self) -> bool {
        let (Ok(written), Some(booted)) = (self.lower.written(), boot::began()) else { return true };
        let until_ns = self.slot.table.recovers_until_ns(self.slot.number).unwrap_or(0);
        let is_since_log = self.logged_until.is_some_and(|until| written > until);
        (written > booted + BOOT_CLOCK || is_since_log) && written > Duration::from_nanos(until_ns)
    }

    fn announce(&self) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
        if now + LEASE / 2 < self.until.get() {
            return Ok(());
        }
        let until = now + LEASE;
        self.slot
            .table
            .set_recovers_until_ns(self.slot.number, until.as_nanos() as u64)
            .map_err(io::Error::other)?;
        self.until.set(until);
        Ok(())
    }
}

impl<M: Memory> LowerFile for Attempt<'_, M> {
    fn write_all_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.announce()?;
        self.lower.write_all_at(data, at)
    }

    fn set_size(&self, size_bytes: u64) -> io::Result<()> {
        self.announce()?;
        self.lower.set_size(size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.lower.sync()
    }
}
