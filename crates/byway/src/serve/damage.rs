//! Images that another program truncates or overwrites while they are served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_core::{Error, ErrorKind, Result};
use byway_local::WatchedBy;
use tracing::error;

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
    /// [`ErrorKind::Media`] if no other subsystem is served, or vfio-user clients are served too.
    pub fn inspect(&self) -> Result<()> {
        self.table.damaged().into_iter().try_for_each(|damaged| self.end(damaged))
    }

    fn end(&self, DamagedSubsystem { nqn, image }: DamagedSubsystem) -> Result<()> {
        error!(subsystem = nqn, ?image, "image truncated or overwritten by another program");
        self.events.put(ServeEvent::ImageDamaged { subsystem: nqn.clone(), image: image.clone() });
        // A request may have removed it meanwhile: the subsystem that is left may be in order then.
        let Some(others) = self.table.others(&nqn) else { return Ok(()) };
        // No subsystem can be removed while vfio-user clients are served.
        if others == 0 || self.table.settings.watched_by == WatchedBy::Device {
            return Err(server_ended_by(&image));
        }
        match self.control.remove_subsystem(&nqn) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

fn server_ended_by(image: &Path) -> Error {
    let shown = image.display();
    let said = format!(
        "the server has ended: {shown} was cut short or overwritten by another program; `byway check {shown}` says what is left of it"
    );
    Error::host(ErrorKind::Media, said)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::serve::{ServeOptions, TcpOptions, serve};

    #[test]
    fn damaged_image_of_a_removed_subsystem_does_not_end_the_server() {
        let options = ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
        let served = serve("ram:64M", &options).unwrap();
        let damaged = |nqn: &str| DamagedSubsystem { nqn: nqn.to_owned(), image: "disk.img".into() };
        served.damage_watch().end(damaged("nqn.2026-11.example:removed")).unwrap();
        let error = served.damage_watch().end(damaged(served.nqn())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Media);
    }
}
