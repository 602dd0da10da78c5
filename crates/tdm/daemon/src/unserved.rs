//! Users whose programs come and cannot be served.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::error::DaemonError;
use crate::report::UnservedReport;

/// By user: for how many programs, and why not the last of them.
#[derive(Debug, Default)]
pub(crate) struct Unserved(Mutex<BTreeMap<u32, (u64, String)>>);

impl Unserved {
    /// A program of a user came, and his part could not be opened.
    pub(crate) fn count(&self, uid: u32, error: &DaemonError) {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (programs, why) = users.entry(uid).or_default();
        (*programs, *why) = (*programs + 1, error.in_full());
    }

    /// Those who are not served since.
    pub(crate) fn report(&self, is_served: impl Fn(u32) -> bool) -> Vec<UnservedReport> {
        let users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let still = users.iter().filter(|(uid, _)| !is_served(**uid));
        still
            .map(|(uid, (programs, why))| UnservedReport { uid: *uid, programs: *programs, why: why.clone() })
            .collect()
    }
}
