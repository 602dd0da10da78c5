//! Reservation commands as a controller executes them: their data, and who is told.

use byway_spec::Command;
use byway_spec::base::reservation::{ReportCdw11, ReservationOpcode};

use super::Request;
use super::request::DATA_MAX_BYTES;
use crate::controller::Controller;
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::port::Port;
use crate::reservation::Access;
use crate::subsystem::Subsystem;

/// Bit for each reservation opcode.
const OPCODES: u64 = {
    let (mut bits, mut at) = (0, 0);
    while at < ReservationOpcode::ALL.len() {
        bits |= 1 << ReservationOpcode::ALL[at].0;
        at += 1;
    }
    bits
};

/// Whether an I/O opcode is one of a reservation command.
#[inline]
pub(crate) const fn is_reservation(opcode: u8) -> bool {
    opcode < 64 && OPCODES >> opcode & 1 != 0
}

impl Controller {
    /// Executes a reservation command.
    #[cold]
    pub(crate) fn reserve(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
        carried: Option<&[u8]>,
    ) -> Result<Outcome, CommandError> {
        let target = (qid, command.nsid, Access::Neither);
        if command.opcode() == ReservationOpcode::REPORT.0 {
            subsystem.attached(command.nsid, self.id)?;
            let page = subsystem.report_reservations(command.nsid, is_extended(command), self.id)?;
            let asked_bytes = (u64::from(command.cdw10) + 1) * 4;
            let part = &page[..page.len().min(asked_bytes as usize)];
            return self.with_namespace(subsystem, port, target, carried, |_, execution| {
                execution.send(command, part).map(|()| Outcome::OK)
            });
        }
        let mut data = [0; DATA_MAX_BYTES];
        let data = &mut data[..Request::data_bytes(command)];
        self.with_namespace(subsystem, port, target, carried, |_, execution| {
            execution.receive(command, data).map(|()| Outcome::OK)
        })?;
        let request = Request::parse(command, data)?;
        subsystem.reserve(command.nsid, self.id, request)?;
        Ok(Outcome::OK)
    }
}

fn is_extended(command: &Command) -> bool {
    ReportCdw11::from_bits(command.cdw11).eds()
}
