//! The device's own text for a refused command.
//!
//! A status names a kind of failure. The text is in a vendor log, beside the command's entry in the Error Information log;
//! the More bit of the status says that there is such an entry. Reading both costs two admin commands. So synchronous calls
//! read them, and completions that a program takes from a queue do not.

use byway_core::{AdminCommand, Error, Result};
use byway_spec::Status;
use byway_spec::base::log::{ErrorEntry, LogPage};
use byway_spec::vendor::ErrorText;
use zerocopy::FromBytes;

use super::Shared;
use crate::bus::Bus;

/// Entries that are read: all that the embedded device keeps.
const ENTRIES: usize = 64;

impl<B: Bus> Shared<B> {
    /// An error of queue `qid`, with the device's text for it as its source.
    #[cold]
    pub(crate) fn explained(&self, error: Error, qid: u16) -> Error {
        let is_explained = std::error::Error::source(&error).is_some();
        let Some(status) = error.nvme_status().filter(|status| status.more()) else { return error };
        if is_explained || !self.announced.byway {
            return error;
        }
        match self.text_of(status, qid) {
            Ok(Some(text)) => error.with_source(text),
            // The caller waits for its command's status: a failure to read the log adds nothing.
            Ok(None) | Err(_) => error,
        }
    }

    /// The text for the newest error of a queue with this status.
    fn text_of(&self, status: Status, qid: u16) -> Result<Option<String>> {
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
