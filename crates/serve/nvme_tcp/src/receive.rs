//! What comes over a connection: PDUs, their data, and commands that have all of it.
//!
//! A command runs to its end where it was read: its data is lent from where it was received, or was asked for before, and what
//! it reads is made where it is sent from.

use byway_controller::CAPSULE_DATA_BYTES;
use byway_nvme_tcp::{DataCheck, HostPdu, Incoming, Violation};
use byway_spec::{Command, Status};

use crate::data::{Data, data_of};
use crate::ended::Ended;
use crate::outbox::Outbox;
use crate::pending::Coming;
use crate::session::{Hand, Open};

/// Data that a host is owed, from which on nothing more of it is executed: two of the largest commands.
const OWED_BYTES: usize = 32 << 20;

/// What data is being received.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Receiving {
    /// None.
    Nothing,
    /// In-capsule data of this command.
    Capsule { command: Command, bytes: u32 },
    /// Data that was asked for.
    Asked(Coming),
    /// Data that nobody wants: of a termination request.
    Unwanted,
}

impl Open {
    pub(crate) fn receive(&mut self, input: &mut &[u8], hand: &mut Hand<'_, '_>) -> Result<(), Ended> {
        self.queue.check()?;
        self.queue.heard(hand.now_ns);
        // All of a command's data in one piece is lent; it is kept only if its end is still to come.
        let mut lent: Option<&[u8]> = None;
        while self.goes_on(hand) {
            match self.reader.next(input) {
                Ok(None) => break,
                Ok(Some(Incoming::Pdu { pdu, data_bytes })) => self.take(pdu, data_bytes, hand)?,
                Ok(Some(Incoming::Data(piece))) => lent = self.take_data(piece),
                Ok(Some(Incoming::End(check))) => {
                    self.take_end(lent.take(), check == DataCheck::Intact, hand)?;
                }
                Err(violation) => return Err(self.refuse(violation, hand.out)),
            }
        }
        lent.into_iter().for_each(|piece| self.gathered.extend_from_slice(piece));
        Ok(())
    }

    /// Whether more is read: nothing that the last command asked for is still to be done, and nothing is waited for but data.
    fn goes_on(&self, hand: &Hand<'_, '_>) -> bool {
        let is_asked = self.asked.is_some() || self.lock.as_ref().is_some_and(|lock| lock.is_asked());
        let must_wait = self.must_wait(hand) && matches!(self.incoming, Receiving::Nothing);
        !is_asked && !must_wait
    }

    /// Whether nothing more is to be executed until the host has taken answers, or other engines have done something. Admin
    /// commands wait for no engine.
    fn must_wait(&self, hand: &Hand<'_, '_>) -> bool {
        let is_full = || hand.device.as_ref().is_some_and(|device| device.is_full());
        let is_behind = self.owed_bytes >= OWED_BYTES || is_full();
        hand.out.is_full() || (is_behind && !self.queue.is_admin())
    }

    /// Ends the connection with a termination request.
    pub(crate) fn refuse(&mut self, violation: Violation, out: &mut Outbox) -> Ended {
        let mut request = Vec::new();
        self.reader.refuse(&violation, &mut request);
        out.push(&request);
        Ended::Violation(violation)
    }

    fn take(&mut self, pdu: HostPdu, data_bytes: u32, hand: &mut Hand<'_, '_>) -> Result<(), Ended> {
        match pdu {
            HostPdu::Command(command) => {
                self.head = if self.head + 1 < self.entries { self.head + 1 } else { 0 };
                if data_bytes == 0 {
                    return self.arrive(&command, None, hand);
                }
                self.incoming = Receiving::Capsule { command, bytes: data_bytes };
            }
            HostPdu::Data(data) => match self.pending.accept(&data, data_bytes) {
                Ok(coming) => self.incoming = Receiving::Asked(coming),
                Err(violation) => return Err(self.refuse(violation, hand.out)),
            },
            HostPdu::Terminate(request) if data_bytes == 0 => return Err(Ended::Terminated(request)),
            HostPdu::Terminate(request) => {
                self.incoming = Receiving::Unwanted;
                return Err(Ended::Terminated(request));
            }
        }
        Ok(())
    }

    /// A piece of data; it is given back if it is all that the command brings in its capsule.
    fn take_data<'a>(&mut self, piece: &'a [u8]) -> Option<&'a [u8]> {
        match self.incoming {
            Receiving::Capsule { bytes, .. } if piece.len() == bytes as usize => return Some(piece),
            Receiving::Capsule { .. } => self.gathered.extend_from_slice(piece),
            Receiving::Asked(coming) => self.pending.take(coming, piece),
            Receiving::Nothing | Receiving::Unwanted => {}
        }
        None
    }

    fn take_end(
        &mut self,
        lent: Option<&[u8]>,
        is_intact: bool,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        match std::mem::replace(&mut self.incoming, Receiving::Nothing) {
            Receiving::Capsule { command, .. } if !is_intact => {
                self.gathered.clear();
                self.check_room()?;
                if self.is_fused(&command) {
                    return self.arrive_fused(&command, Err(Status::TRANSIENT_TRANSPORT_ERROR), hand);
                }
                self.fail(&command, Status::TRANSIENT_TRANSPORT_ERROR, hand.out);
                Ok(())
            }
            Receiving::Capsule { command, .. } => {
                let mut gathered = std::mem::take(&mut self.gathered);
                let arrived = self.arrive(&command, lent.or(Some(&gathered)), hand);
                gathered.clear();
                self.gathered = gathered;
                arrived
            }
            Receiving::Asked(coming) => self.take_asked(coming, is_intact, hand),
            Receiving::Nothing | Receiving::Unwanted => Ok(()),
        }
    }

    /// The end of one PDU of data that was asked for: the command is executed when it has all of it.
    fn take_asked(&mut self, coming: Coming, is_intact: bool, hand: &mut Hand<'_, '_>) -> Result<(), Ended> {
        let Some(whole) = self.pending.end(coming, is_intact) else {
            self.ask(hand.out);
            return Ok(());
        };
        let done = match whole.is_corrupt {
            _ if self.fused.take_data(&whole) => self.settle_fused(hand),
            _ if !self.claim(&whole.command, hand) => Ok(()),
            true => {
                self.fail(&whole.command, Status::TRANSIENT_TRANSPORT_ERROR, hand.out);
                Ok(())
            }
            false => self.execute(&whole.command, Some(whole.data()), 0, hand),
        };
        self.pending.reuse(whole);
        self.ask(hand.out);
        done
    }

    /// A command with what its capsule brought.
    fn arrive(
        &mut self,
        command: &Command,
        data: Option<&[u8]>,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        self.check_room()?;
        if let Some(status) = self.lock.as_ref().and_then(|lock| lock.refusal(command)) {
            self.fail(command, status, hand.out);
            return Ok(());
        }
        if self.is_fused(command) {
            return self.arrive_fused(command, Ok(data), hand);
        }
        self.arrive_single(command, data, hand)
    }

    /// The same of one that is not fused with another.
    pub(crate) fn arrive_single(
        &mut self,
        command: &Command,
        data: Option<&[u8]>,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        match data_of(command, data.map(<[u8]>::len)) {
            Ok(Data::InCapsule) => self.execute(command, Some(data.unwrap_or_default()), 0, hand),
            Ok(Data::None) => self.execute(command, None, 0, hand),
            Ok(Data::ToHost(bytes)) => self.execute(command, None, bytes, hand),
            // Where there is no device, what data there can be comes in capsules.
            Ok(Data::AtHost) if !self.queue.is_of_device() => {
                self.fail(command, Status::SGL_TYPE_INVALID.with_dnr(), hand.out);
                Ok(())
            }
            Ok(Data::AtHost) => {
                self.expect(command, hand);
                self.pending.wait(*command);
                self.ask(hand.out);
                Ok(())
            }
            Err(status) => {
                self.fail(command, status, hand.out);
                Ok(())
            }
        }
    }

    fn check_room(&self) -> Result<(), Ended> {
        let taken = self.outstanding + self.pending.len() + self.fused.held();
        if taken >= self.entries as usize { Err(Ended::Overrun) } else { Ok(()) }
    }

    /// Asks for data, as far as there is room for it.
    pub(crate) fn ask(&mut self, out: &mut Outbox) {
        while let Some(asked) = self.pending.ask() {
            out.push(self.writer.ready_to_transfer(&asked).head());
        }
    }

    /// In-capsule data of an I/O queue's commands may be longer.
    pub fn take_io_capsules(&mut self) {
        self.reader.set_capsule_data_bytes(CAPSULE_DATA_BYTES);
    }
}
