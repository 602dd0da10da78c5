//! Why a device refused a command, in its own words.
//!
//! A status names a kind of failure. What it was beyond that stands in a vendor log, beside the entry that the Error
//! Information log keeps of the command; the status says by its More bit that there is such an entry.

use byway_core::{AdminCommand, Error, Result};
use byway_driver::Driver;
use byway_in_process::InProcessBus;
use byway_spec::Status;
use byway_spec::base::log::{ErrorEntry, LogPage};
use byway_spec::vendor::ErrorText;
use zerocopy::FromBytes;

/// Entries that are looked at: all that the embedded device keeps.
const ENTRIES: usize = 64;

/// The error of a command of queue `qid`, with what the device says of it beyond its status.
#[cold]
pub(crate) fn explained(error: Error, qid: u16, driver: &Driver<InProcessBus>) -> Error {
    let Some(status) = error.nvme_status().filter(|status| status.more()) else { return error };
    match words_of(status, qid, driver) {
        Ok(Some(words)) => error.with_source(words),
        // That the log cannot be read is no news to who waits for the command.
        Ok(None) | Err(_) => error,
    }
}

/// The words for the newest error of a queue with this status.
fn words_of(status: Status, qid: u16, driver: &Driver<InProcessBus>) -> Result<Option<String>> {
    let is_it = |entry: &ErrorEntry| entry.sqid == qid && entry.phase_and_status >> 1 == status.0;
    let Some(entry) = find::<ErrorEntry>(LogPage::ERROR, driver, is_it)? else { return Ok(None) };
    if entry.vendor_log != LogPage::ERROR_TEXTS.0 {
        return Ok(None);
    }
    let is_it = |text: &ErrorText| text.error_count == entry.error_count;
    let text = find::<ErrorText>(LogPage::ERROR_TEXTS, driver, is_it)?;
    Ok(text.and_then(|text| text.words().map(str::to_owned)))
}

/// The first entry of a log page that is the one looked for.
fn find<T: FromBytes>(
    page: LogPage,
    driver: &Driver<InProcessBus>,
    is_it: impl Fn(&T) -> bool,
) -> Result<Option<T>> {
    let mut into = driver.buffer(ENTRIES * size_of::<T>())?;
    // What lies past the end of a page is left as it is.
    into.as_mut_slice().fill(0);
    let log = page.0;
    let command = AdminCommand::GetLog { log, csi: 0, nsid: None, retain_event: true, offset_bytes: 0, into };
    let Some(buffer) = driver.admin(command)?.buffer else { return Ok(None) };
    let entries = buffer.as_slice().chunks_exact(size_of::<T>());
    Ok(entries.flat_map(T::read_from_bytes).find(|entry| is_it(entry)))
}
