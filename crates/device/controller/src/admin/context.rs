//! The controller and the subsystem, as an admin command sees them.

use byway_spec::Command;
use byway_spec::base::identify::Csi;

use crate::data_pointer;
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::namespace::Room;
use crate::outcome::Outcome;
use crate::port::Port;
use crate::queue::Queues;
use crate::register::Registers;
use crate::subsystem::Subsystem;

/// The controller and the subsystem, as an admin command sees them.
pub(crate) struct Context<'a, 'p> {
    pub id: ControllerId,
    pub registers: &'a Registers,
    /// Commands come in capsules over a fabric, not in rings in host memory.
    pub is_fabric: bool,
    pub queues: &'a mut Queues,
    pub subsystem: &'a mut Subsystem,
    pub port: &'a mut Port<'p>,
    pub room: &'a mut Room,
}

impl Context<'_, '_> {
    /// Writes `bytes` to the command's buffer.
    pub fn send(&mut self, command: &Command, bytes: &[u8]) -> Result<Outcome, CommandError> {
        let Self { port, room, .. } = self;
        let data = data_pointer::map(port, &mut room.mapped, command, bytes.len(), None, false)?;
        let mut sink = data.sink(&mut room.stage)?;
        sink.put(port, bytes)?;
        sink.finish(port)?;
        Ok(Outcome::OK)
    }

    /// Reads `into.len()` bytes of the command's buffer.
    pub fn receive(&mut self, command: &Command, into: &mut [u8]) -> Result<(), CommandError> {
        let Self { port, room, .. } = self;
        let carried = port.carried();
        let data = data_pointer::map(port, &mut room.mapped, command, into.len(), carried, false)?;
        data.source(&mut room.stage).fill(port, into)
    }

    /// Whether namespace `nsid` is attached to this controller, and of a command set that its host chose. A host that
    /// chose the NVM command set alone (CC.CSS 000b) reads no command set identifiers, and would take keys for blocks.
    pub fn is_active(&self, nsid: u32) -> bool {
        let is_chosen = |csi| csi == Csi::NVM || !self.registers.serves_nvm_only();
        self.subsystem.is_attached(nsid, self.id)
            && self.subsystem.namespace(nsid).is_some_and(|namespace| is_chosen(namespace.csi()))
    }
}
