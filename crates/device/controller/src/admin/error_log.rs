//! The error log (Base 2.1, section 5.1.12.1.2), and the statuses that are logged.

use std::borrow::Cow;
use std::collections::VecDeque;

use byway_spec::Status;
use byway_spec::base::log::{ErrorEntry, LogPage};
use byway_spec::base::status::sct;
use byway_spec::vendor::ErrorText;
use zerocopy::IntoBytes;

use crate::error::CommandError;

/// Entries kept; Identify Controller ELPE is this less one.
pub(super) const ENTRIES: usize = 64;

/// Bytes of a text in the vendor log.
const TEXT_BYTES: usize = 120;

/// The newest errors, newest first.
#[derive(Debug, Default)]
pub(super) struct ErrorLog {
    entries: VecDeque<Noted>,
    /// The newest of them that have no number yet: where they were added, the device's count was out of reach.
    unnumbered: u64,
}

/// An error for the log, with its text.
#[derive(Debug, Clone)]
pub(crate) struct Noted {
    pub entry: ErrorEntry,
    pub words: Cow<'static, str>,
}

impl ErrorLog {
    /// Logs the failure of a command, in words of its own where there are some; the status of its completion.
    pub fn log(&mut self, sqid: u16, cid: u16, error: &CommandError, text: Option<String>) -> Status {
        let (status, noted) = note(sqid, cid, error);
        if let Some(noted) = noted {
            let words = text.map_or(noted.words, |text| Cow::Owned(cut(text)));
            self.add(Noted { words, ..noted });
        }
        status
    }

    /// Adds an entry; the oldest makes room.
    pub fn add(&mut self, noted: Noted) {
        self.unnumbered += 1;
        self.entries.truncate(ENTRIES - 1);
        let entry = ErrorEntry { vendor_log: LogPage::ERROR_TEXTS.0, ..noted.entry };
        self.entries.push_front(Noted { entry, ..noted });
    }

    /// Numbers new entries. `count` counts them for the device, and returns the number of the newest.
    #[inline]
    pub fn number(&mut self, count: impl FnOnce(u64) -> u64) {
        if self.unnumbered > 0 {
            self.number_new(count);
        }
    }

    #[cold]
    fn number_new(&mut self, count: impl FnOnce(u64) -> u64) {
        let new = std::mem::take(&mut self.unnumbered);
        let newest = count(new);
        let numbers = (0..new).map(|age| newest.saturating_sub(age));
        self.entries.iter_mut().zip(numbers).for_each(|(noted, number)| noted.entry.error_count = number);
    }

    /// The errors, newest first.
    pub fn entries(&self) -> impl Iterator<Item = &Noted> {
        self.entries.iter()
    }

    /// The log page.
    pub fn page(&self) -> Vec<u8> {
        let entries = self.entries.iter().flat_map(|noted| noted.entry.as_bytes().to_vec());
        let mut page: Vec<u8> = entries.collect();
        page.resize(ENTRIES * size_of::<ErrorEntry>(), 0);
        page
    }

    /// The vendor log page with the words for each entry.
    pub fn texts_page(&self) -> Vec<u8> {
        let text = |noted: &Noted| ErrorText::new(noted.entry.error_count, &noted.words);
        let mut page: Vec<u8> =
            self.entries.iter().flat_map(|noted| text(noted).as_bytes().to_vec()).collect();
        page.resize(ENTRIES * size_of::<ErrorText>(), 0);
        page
    }
}

/// The beginning of a text that an [`ErrorText`] has room for.
fn cut(mut text: String) -> String {
    let end = (0..=TEXT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

/// The status of a failed command's completion, and its entry for the error log, if it has one.
pub(crate) fn note(sqid: u16, cid: u16, error: &CommandError) -> (Status, Option<Noted>) {
    let status = if may_pass(error.status) { error.status } else { error.status.with_dnr() };
    if is_answer(status) {
        return (status, None);
    }
    let entry = ErrorEntry {
        sqid,
        cid,
        phase_and_status: status.with_more().0 << 1,
        parameter: error.location,
        ..ErrorEntry::default()
    };
    (status.with_more(), Some(Noted { entry, words: error.cause.into() }))
}

/// Statuses that answer a question and are not logged. Path statuses have a log of their own (ANA).
fn is_answer(status: Status) -> bool {
    if status.sct() == sct::PATH {
        return true;
    }
    [Status::KEY_DOES_NOT_EXIST, Status::KEY_EXISTS, Status::COMPARE_FAILURE].iter().any(|s| status.is(*s))
}

/// Statuses after which the same command may succeed unchanged.
fn may_pass(status: Status) -> bool {
    if status.sct() == sct::PATH {
        return true;
    }
    const PASSING: [Status; 12] = [
        Status::KEY_DOES_NOT_EXIST,
        Status::KEY_EXISTS,
        Status::COMPARE_FAILURE,
        Status::CAPACITY_EXCEEDED,
        Status::NAMESPACE_NOT_READY,
        Status::COMMAND_INTERRUPTED,
        Status::ABORT_REQUESTED,
        Status::ABORTED_SQ_DELETION,
        Status::INTERNAL_ERROR,
        Status::DATA_TRANSFER_ERROR,
        Status::EVENT_REQUEST_LIMIT_EXCEEDED,
        Status::PAYLOAD_LIMIT_EXCEEDED,
    ];
    PASSING.iter().any(|s| status.is(*s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_error_is_listed_first_and_the_oldest_is_dropped() {
        let mut log = ErrorLog::default();
        for cid in 0..100 {
            log.add(Noted { entry: ErrorEntry { cid, ..ErrorEntry::default() }, words: "it failed".into() });
            if cid == 89 {
                log.number(|new| new);
            }
        }
        log.number(|new| 90 + new);
        let page = log.page();
        assert_eq!(page.len(), ENTRIES * 64);
        assert_eq!((page[0], page[10]), (100, 99));
        assert_eq!((page[63 * 64], page[63 * 64 + 10]), (37, 36));
        let texts = log.texts_page();
        assert_eq!((texts[0], &texts[8..18]), (100, b"it failed\0".as_slice()));
        assert_eq!((texts.len(), texts[63 * 128]), (ENTRIES * 128, 37));
    }
}
