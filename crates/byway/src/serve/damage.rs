//! Images that another program truncates or overwrites while they are served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_core::{Error, ErrorKind, Result};

use crate::serve::events::{EventQueue, ServeEvent};
use crate::serve::live::ServeControl;
use crate::serve::subsystem::SubsystemTable;

/// A subsystem whose image another program has changed.
#[derive(Debug)]
pub(super) struct DamagedSubsystem {
    pub nqn: String,
    pub image: PathBuf,
}

/// Ends the service of damaged images.
#[derive(Debug)]
pub(super) struct DamageWatch {
    pub table: Arc<SubsystemTable>,
    pub control: ServeControl,
    pub events: Arc<EventQueue>,
}

impl DamageWatch {
    /// Reports each damaged image, and removes its subsystem. Loads a few words of each image; no system call where none is damaged.
    ///
    /// # Errors
    /// [`ErrorKind::Media`] if no other subsystem is served.
    pub fn inspect(&self) -> Result<()> {
        for DamagedSubsystem { nqn, image } in self.table.damaged() {
            self.events.put(ServeEvent::ImageDamaged { subsystem: nqn.clone(), image: image.clone() });
            if self.table.list().len() <= 1 {
                return Err(nothing_left(&image));
            }
            match self.control.remove_subsystem(&nqn) {
                // A request has removed it meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}

fn nothing_left(image: &Path) -> Error {
    let shown = image.display();
    let said = format!(
        "the server has ended: {shown} was cut short or overwritten by another program; `byway check {shown}` says what is left of it"
    );
    Error::host(ErrorKind::Media, said)
}
