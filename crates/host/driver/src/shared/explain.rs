//! Why a device refused a command, in its own words.
//!
//! A status names a kind of failure. What it was beyond that stands in a vendor log, beside the entry that the Error
//! Information log keeps of the command; the status says by its More bit that there is such an entry. To look there costs
//! two admin commands, so calls that wait for their command do it, and completions that are taken do not.

use byway_core::{AdminCommand, Error, Outcome, Result};
use byway_spec::Status;
use byway_spec::base::log::{ErrorEntry, LogPage};
use byway_spec::vendor::ErrorText;
use zerocopy::FromBytes;

use crate::bus::Bus;
use crate::device::Shared;
use crate::queue_pair::Queue;
use crate::table::OpIndex;

/// Entries that are looked at: all that the embedded device keeps.
const ENTRIES: usize = 64;

impl<B: Bus> Queue<B> {
    /// Ends an operation that a call has waited for, and says what came of it.
    ///
    /// # Errors
    /// The operation's own failure, explained.
    #[inline]
    pub(crate) fn conclude_call(&mut self, op: OpIndex) -> Result<Outcome> {
        self.conclude(op).map_err(|failed| self.device.explained(failed.error, self.qid()))
    }
}

impl<B: Bus> Shared<B> {
    /// An error of queue `qid`, with what the device says of it beyond its status.
    #[cold]
    pub(crate) fn explained(&self, error: Error, qid: u16) -> Error {
        let is_explained = std::error::Error::source(&error).is_some();
        let Some(status) = error.nvme_status().filter(|status| status.more()) else { return error };
        if is_explained || !self.announced.byway {
            return error;
        }
        match self.words_of(status, qid) {
            Ok(Some(words)) => error.with_source(words),
            // That the log cannot be read is no news to who waits for the command.
            Ok(None) | Err(_) => error,
        }
    }

    /// The words for the newest error of a queue with this status.
    fn words_of(&self, status: Status, qid: u16) -> Result<Option<String>> {
        let is_it = |entry: &ErrorEntry| entry.sqid == qid && entry.phase_and_status >> 1 == status.0;
        let Some(entry) = self.find::<ErrorEntry>(LogPage::ERROR, is_it)? else { return Ok(None) };
        if entry.vendor_log != LogPage::ERROR_TEXTS.0 {
            return Ok(None);
        }
        let is_it = |text: &ErrorText| text.error_count == entry.error_count;
        let text = self.find::<ErrorText>(LogPage::ERROR_TEXTS, is_it)?;
        Ok(text.and_then(|text| text.words().map(str::to_owned)))
    }

    /// The first entry of a log page that is the one looked for.
    fn find<T: FromBytes>(&self, page: LogPage, is_it: impl Fn(&T) -> bool) -> Result<Option<T>> {
        let mut into = self.pool.take(ENTRIES * size_of::<T>())?;
        // What lies past the end of a page is left as it is.
        into.as_mut_slice().fill(0);
        let log = page.0;
        let command =
            AdminCommand::GetLog { log, csi: 0, nsid: None, retain_event: true, offset_bytes: 0, into };
        let Some(buffer) = self.admin_unexplained(command)?.buffer else { return Ok(None) };
        let entries = buffer.as_slice().chunks_exact(size_of::<T>());
        Ok(entries.flat_map(T::read_from_bytes).find(|entry| is_it(entry)))
    }
}
