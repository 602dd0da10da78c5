//! ANA states of a subsystem's namespaces at each port. Hosts read them when they connect and get an event when they change.

use byway_controller::{CommandError, MAX_NAMESPACES, PortId};
use byway_executor::{CapsuleDevice, Capsules};

use crate::directory::TargetPort;
use crate::options::AnaSetting;

/// Why an ANA state was not changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PathError {
    /// The port, namespace or state does not exist.
    #[error("port {}: {}", .setting.port.0, .cause.cause)]
    Refused {
        /// The requested setting.
        setting: AnaSetting,
        /// The device's reason.
        cause: CommandError,
    },
    /// The target does not report ANA: it has one port, and it was started without an ANA setting.
    #[error(
        "the target does not report ANA states: it has one port, and no state was given when it was started"
    )]
    AnaNotReported,
    /// The target has ended, the subsystem was removed, or its device has failed.
    #[error("the subsystem is not served any more")]
    Gone,
}

/// Changes an ANA state of a device's namespaces.
pub(crate) fn change(device: &Capsules, setting: AnaSetting) -> Result<(), PathError> {
    let change = |device: &mut CapsuleDevice<'_>| match device.ports() {
        0 => Err(PathError::AnaNotReported),
        _ => set(device, setting),
    };
    device.run(change).map_err(|_| PathError::Gone)??;
    device.notify();
    Ok(())
}

/// Makes a device report ANA before the first host connects, if there are several ports or any setting.
pub(crate) fn begin(device: &Capsules, ports: &[TargetPort], ana: &[AnaSetting]) -> Result<(), PathError> {
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

/// Adds a port to a device that has `there` ports. Hosts that connected without ANA reporting see it after their next controller
/// reset.
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
