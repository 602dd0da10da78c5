//! Users that cannot be served.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::error::DaemonError;
use crate::report::UnservedReport;

/// For each user, the number of programs and the last reason.
#[derive(Debug, Default)]
pub(crate) struct Unserved(Mutex<BTreeMap<u32, (u64, String)>>);

impl Unserved {
    /// Counts a program of a user whose tenant could not be opened.
    pub(crate) fn count(&self, uid: u32, error: &DaemonError) {
        let mut users = self.0.lock();
        let (programs, why) = users.entry(uid).or_default();
        (*programs, *why) = (*programs + 1, error.in_full());
    }

    /// The users that are not served meanwhile.
    pub(crate) fn report(&self, is_served: impl Fn(u32) -> bool) -> Vec<UnservedReport> {
        let users = self.0.lock();
        let still = users.iter().filter(|(uid, _)| !is_served(**uid));
        still
            .map(|(uid, (programs, why))| UnservedReport { uid: *uid, programs: *programs, why: why.clone() })
            .collect()
    }
}
