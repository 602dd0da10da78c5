//! How hosts reach the namespaces of a target by its ports: told when they connect, and when it changes.

use std::sync::{Arc, Weak};

use byway_controller::{CommandError, MAX_NAMESPACES};
use byway_in_process::{CapsuleDevice, Capsules};

use crate::options::AnaSetting;
use crate::worker::Crew;

/// How the namespaces of a target are reached. It does not keep the target.
#[derive(Debug, Clone)]
pub struct TargetPaths(Weak<Crew>);

/// Why the state of a path does not change.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PathError {
    /// There is no such port, namespace or state.
    #[error("port {}: {}", .setting.port.0, .cause.cause)]
    Refused {
        /// What was asked for.
        setting: AnaSetting,
        /// Why not.
        cause: CommandError,
    },
    /// Hosts came without being told of paths: the target has one port, and began with no setting.
    #[error("hosts are told of no paths: the target has one port, and no state was given when it began")]
    NotTold,
    /// The target has ended, or its device has failed.
    #[error("nobody is served any more")]
    Gone,
}

impl TargetPaths {
    pub(crate) fn of(crew: &Arc<Crew>) -> Self {
        Self(Arc::downgrade(crew))
    }

    /// Changes a state, and has the hosts at that port told. From here on commands go by it, those that are under way in
    /// another engine aside.
    ///
    /// # Errors
    /// As [`PathError`] has them.
    pub fn set(&self, setting: AnaSetting) -> Result<(), PathError> {
        let crew = self.0.upgrade().ok_or(PathError::Gone)?;
        let premises = &crew.premises;
        if !are_told(premises.ports.len(), &premises.options.ana) {
            return Err(PathError::NotTold);
        }
        crew.device.run(|device| set(device, setting)).map_err(|_| PathError::Gone)??;
        crew.device.ring();
        Ok(())
    }
}

/// Whether hosts are told of paths.
fn are_told(ports: usize, ana: &[AnaSetting]) -> bool {
    ports > 1 || !ana.is_empty()
}

/// Has a device tell of its paths, before the first host comes.
pub(crate) fn begin(device: &Capsules, ports: usize, ana: &[AnaSetting]) -> Result<(), PathError> {
    if !are_told(ports, ana) {
        return Ok(());
    }
    let begin = |device: &mut CapsuleDevice<'_>| {
        device.set_ports(ports as u16);
        ana.iter().try_for_each(|setting| set(device, *setting))
    };
    device.run(begin).map_err(|_| PathError::Gone)?
}

fn set(device: &mut CapsuleDevice<'_>, setting: AnaSetting) -> Result<(), PathError> {
    let AnaSetting { port, nsid, state } = setting;
    let mut nsids = nsid.map_or(1..=MAX_NAMESPACES, |nsid| nsid..=nsid);
    let set = nsids.try_for_each(|nsid| device.set_ana_state(port, nsid, state));
    set.map_err(|cause| PathError::Refused { setting, cause })
}
