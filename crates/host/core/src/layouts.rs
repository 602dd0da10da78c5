//! What the commands of each namespace mean, as the device said it last: so that no command is sent whose data is
//! shorter than what the device will move.
//!
//! A device is given the pages of a buffer and moves as much as the command says in *its* units. Where a buffer has
//! fewer pages, the device would take whatever follows for addresses. So lengths are checked before sending, against what
//! the device itself reported.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

use byway_spec::Command as Entry;
use byway_spec::base::admin::AdminOpcode;
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};
use crate::moves::Layout;

/// How often a layout is asked for when each answer is overtaken by a change.
const ASKS_MAX: u32 = 8;

/// The layouts of a device's namespaces that were asked for.
///
/// Each layout is from an *epoch*. An admin command that may change namespaces begins a new one before
/// it is sent, and until it has ended no layout is learned.
#[derive(Debug, Default)]
pub struct Layouts {
    epoch: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    layouts: BTreeMap<u32, Layout>,
    /// Commands under way that may change namespaces.
    changes: u32,
}

impl Layouts {
    /// A command that may change namespaces is about to be sent.
    pub fn begin_change(&self) {
        let mut known = self.known.lock();
        known.changes += 1;
        known.layouts.clear();
        self.epoch.fetch_add(1, Release);
    }

    /// It has completed.
    pub fn end_change(&self) {
        let mut known = self.known.lock();
        known.changes = known.changes.saturating_sub(1);
    }

    /// The epoch that it is.
    #[must_use]
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// The epoch, with the layout of a namespace if it is known.
    fn look(&self, nsid: u32) -> Result<(u64, Option<Layout>)> {
        let known = self.known.lock();
        if known.changes > 0 {
            return Err(changing());
        }
        Ok((self.epoch(), known.layouts.get(&nsid).copied()))
    }

    /// The layout of a namespace, with the epoch that it is from: as it is known, or as `ask` finds out.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while a command that may change namespaces is under way, and `ask`'s.
    pub fn layout(&self, nsid: u32, ask: impl Fn() -> Result<Layout>) -> Result<(u64, Layout)> {
        for _ in 0..ASKS_MAX {
            let (epoch, known) = self.look(nsid)?;
            if let Some(layout) = known {
                return Ok((epoch, layout));
            }
            let layout = ask()?;
            if self.note(epoch, nsid, layout) {
                return Ok((epoch, layout));
            }
            // A change came and went, such as a controller that was lost and found: what was said may be of before it.
        }
        Err(changing())
    }

    /// Notes what the device said, unless it may have changed since `epoch`; says whether it did not.
    pub fn note(&self, epoch: u64, nsid: u32, layout: Layout) -> bool {
        let mut known = self.known.lock();
        let holds = known.changes == 0 && self.epoch() == epoch;
        if holds {
            known.layouts.insert(nsid, layout);
        }
        holds
    }
}

/// Whether an admin command may change what namespaces are: by its meaning, or for all that is known of it.
#[must_use]
pub fn changes_namespaces(entry: &Entry) -> bool {
    const VENDOR: u8 = 0xc0;
    let opcode = AdminOpcode(entry.opcode());
    let changing = [
        AdminOpcode::FORMAT_NVM,
        AdminOpcode::NAMESPACE_MANAGEMENT,
        AdminOpcode::NAMESPACE_ATTACHMENT,
        AdminOpcode::FIRMWARE_COMMIT,
        AdminOpcode::SANITIZE,
    ];
    changing.contains(&opcode) || opcode.0 >= VENDOR
}

/// For a layout that may be another one now.
#[cold]
fn changing() -> Error {
    Error::host(ErrorKind::Busy, "a command that changes namespaces is under way")
}
