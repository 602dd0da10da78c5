//! Namespaces of an image that another process writes: brought up to date before each command (decision 0069).

use byway_flash::{Flash, FlashError, ImageError, NamespaceRecord};
use byway_spec::Status;

use super::{Slot, Subsystem, SubsystemError, flash_events};
use crate::error::CommandError;
use crate::namespace::Namespace;
use crate::namespace::media::read_error;
use crate::reservation::{Access, Reservations};
use crate::subsystem::controllers::ControllerSet;

/// Times that a read is executed again whose data the writer changed meanwhile.
pub(crate) const READS: u32 = 100;

/// Attempts of one command.
#[derive(Debug, Default)]
pub(crate) struct Attempts(u32);

impl Subsystem {
    /// Has the next command on namespace `nsid` see what the writer committed before.
    ///
    /// # Errors
    /// [`OVERTAKEN`] while the device cannot be opened anew; what is damaged.
    #[cold]
    pub(super) fn follow(&mut self, nsid: u32) -> Result<(), CommandError> {
        self.follow_device()?;
        let index = (nsid as usize).wrapping_sub(1);
        match self.slots.get_mut(index) {
            Some(Some(Slot { namespace: Namespace::Kv(kv), .. })) => Ok(kv.follow(&mut self.flash)?),
            _ => Ok(()),
        }
    }

    /// Opens the device anew if its writer changed it as a whole, where this process does not write it itself.
    ///
    /// # Errors
    /// As [`follow`](Self::follow).
    pub(crate) fn follow_device(&mut self) -> Result<(), CommandError> {
        if !self.flash.has_changed() {
            return Ok(());
        }
        self.reopen().map_err(|error| {
            tracing::warn!(%error, "the image that is followed cannot be opened anew");
            match error {
                SubsystemError::Flash(error) => of_reopening(error),
                _ => OVERTAKEN,
            }
        })
    }

    fn reopen(&mut self) -> Result<(), SubsystemError> {
        let mut flash = self.flash.reopened()?;
        let mut opened = Vec::new();
        for record in records_of(&flash) {
            if let Some(namespace) = Namespace::open_beside(&mut flash, &record, &self.options)? {
                opened.push((record, namespace));
            }
        }
        self.flash = flash;
        self.flash.report_to(flash_events::log);
        let is_in_image = |slot: &Option<Slot>| {
            slot.as_ref().is_some_and(|slot| matches!(slot.namespace, Namespace::Nvm(_) | Namespace::Kv(_)))
        };
        self.slots.iter_mut().filter(|slot| is_in_image(slot)).for_each(|slot| *slot = None);
        for (record, namespace) in opened {
            let nsid = record.nsid;
            if self.slot(nsid).is_some() {
                // An exported namespace has taken its number.
                continue;
            }
            let reservations =
                Reservations::from_stored(&record.access_state).ok_or(SubsystemError::Reservations(nsid))?;
            self.place_namespace(nsid, namespace, ControllerSet::ALL, reservations)
                .ok_or(SubsystemError::Nsid(nsid))?;
        }
        Ok(())
    }

    /// Whether a command has to be executed again: the writer changed what it read.
    #[inline]
    pub(crate) fn is_overtaken<R>(
        &self,
        nsid: u32,
        access: Access,
        done: &Result<R, CommandError>,
        attempts: &mut Attempts,
    ) -> bool {
        self.flash.is_following() && access == Access::Read && self.was_overtaken(nsid, done, attempts)
    }

    #[cold]
    fn was_overtaken<R>(&self, nsid: u32, done: &Result<R, CommandError>, attempts: &mut Attempts) -> bool {
        attempts.0 += 1;
        let is_moved = self.flash.has_changed()
            || match (done, self.namespace(nsid)) {
                (Err(error), _) if error.status == OVERTAKEN.status => true,
                (Err(error), Some(Namespace::Kv(kv))) => is_of_media(error) && kv.is_behind(&self.flash),
                _ => false,
            };
        is_moved && attempts.0 < READS
    }
}

/// The namespaces of a device, in order.
pub(super) fn records_of(flash: &Flash) -> Vec<NamespaceRecord> {
    flash.namespaces().cloned().collect()
}

fn of_reopening(error: FlashError) -> CommandError {
    match error {
        FlashError::Image(ImageError::Damaged { .. } | ImageError::NotAnImage { .. }) => OVERTAKEN,
        FlashError::Image(_) => GONE,
        error => read_error(error),
    }
}

/// Whether a failure may be of data that was something else meanwhile.
fn is_of_media(error: &CommandError) -> bool {
    [Status::UNRECOVERED_ERROR, Status::UNRECOVERED_READ_ERROR, Status::INTERNAL_ERROR]
        .contains(&error.status)
}

/// The path leads to no image any more that can be read beside a writer.
const GONE: CommandError = CommandError::new(
    Status::INTERNAL_ERROR,
    "the image that is followed is gone from its path, or was not closed",
);

/// The writer of the image changes faster than this process reads, or is in the midst of a change of the whole device.
pub(crate) const OVERTAKEN: CommandError = CommandError::new(
    Status::NAMESPACE_NOT_READY,
    "the process that writes the image was changing what was read: try again",
);
