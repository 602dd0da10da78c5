//! How hosts reach the namespaces of a subsystem by the target's ports: told when they connect, and when it changes.

use byway_controller::{CommandError, MAX_NAMESPACES, PortId};
use byway_fabrics::Nqn;
use byway_local::{CapsuleDevice, Capsules};

use crate::control::{ControlError, TargetControl};
use crate::directory::Port;
use crate::options::AnaSetting;

/// How the namespaces of a subsystem are reached. It does not keep the target.
#[derive(Debug, Clone)]
pub struct TargetPaths {
    control: TargetControl,
    subsystem: Nqn,
}

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
    /// The target has ended, the subsystem is served no more, or its device has failed.
    #[error("nobody is served any more")]
    Gone,
}

impl TargetPaths {
    pub(crate) fn of(control: TargetControl, subsystem: Nqn) -> Self {
        Self { control, subsystem }
    }

    /// Changes a state, and has the hosts at that port told. From here on commands go by it, those that are under way in
    /// another engine aside.
    ///
    /// # Errors
    /// As [`PathError`] has them.
    pub fn set(&self, setting: AnaSetting) -> Result<(), PathError> {
        self.control.set_path(&self.subsystem, setting).map_err(|error| match error {
            ControlError::Path(error) => error,
            _ => PathError::Gone,
        })
    }
}

/// Changes a state of a device's namespaces.
pub(crate) fn change(device: &Capsules, setting: AnaSetting) -> Result<(), PathError> {
    let change = |device: &mut CapsuleDevice<'_>| match device.ports() {
        0 => Err(PathError::NotTold),
        _ => set(device, setting),
    };
    device.run(change).map_err(|_| PathError::Gone)??;
    device.ring();
    Ok(())
}

/// Has a device tell of its paths, before the first host comes: where there are several ports, or any setting.
pub(crate) fn begin(device: &Capsules, ports: &[Port], ana: &[AnaSetting]) -> Result<(), PathError> {
    if ports.len() < 2 && ana.is_empty() {
        return Ok(());
    }
    let last = ports.iter().map(|port| port.id.0).max().unwrap_or_default();
    let begin = |device: &mut CapsuleDevice<'_>| {
        device.set_ports(last);
        ana.iter().try_for_each(|setting| set(device, *setting))
    };
    device.run(begin).map_err(|_| PathError::Gone)?
}

/// Has a device tell of one more port, beside those that are `there`. Hosts that were told of none so far are told at their next
/// controller reset.
pub(crate) fn open_port(device: &Capsules, port: PortId, there: usize) -> Result<(), PathError> {
    let open = |device: &mut CapsuleDevice<'_>| {
        if there > 0 || device.ports() > 0 {
            device.open_port(port);
        }
    };
    device.run(open).map_err(|_| PathError::Gone)
}

fn set(device: &mut CapsuleDevice<'_>, setting: AnaSetting) -> Result<(), PathError> {
    let AnaSetting { port, nsid, state } = setting;
    let mut nsids = nsid.map_or(1..=MAX_NAMESPACES, |nsid| nsid..=nsid);
    let set = nsids.try_for_each(|nsid| device.set_ana_state(port, nsid, state));
    set.map_err(|cause| PathError::Refused { setting, cause })
}
