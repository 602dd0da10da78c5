//! What comes over a connection: answers, data, and what asks for data.

use std::io::IoSliceMut;

use byway_core::{Error, ErrorKind};
use byway_nvme_tcp::{
    C2hData, C2hEnd, CommandId, ControllerPdu, DataCheck, Incoming, ReadyToTransfer, TermReq, Violation,
};
use byway_spec::{Completion, Status};

use super::outbox::{for_each_part, part_at_mut, with_parts};
use super::table::Table;
use super::{Arriving, Connection};

/// The same while large data is on its way, which would be copied from there.
const INBOX_BYTES_FOR_LARGE: usize = 4 << 10;

impl Connection {
    /// Where what comes next is to be received: the rest of the data that is on its way, and behind it the connection's own
    /// memory.
    pub fn room(&mut self) -> [IoSliceMut<'_>; 2] {
        let left = self.reader.data_left_bytes() as usize;
        let own = match self.large {
            0 => &mut *self.inbox,
            _ => self.inbox.get_mut(..INBOX_BYTES_FOR_LARGE).unwrap_or_default(),
        };
        let direct = match &self.arriving {
            Some(arriving) => direct_room(&mut self.table, arriving, left),
            None => &mut [],
        };
        // More of the same data, elsewhere, is not received into the connection's memory.
        let own = if direct.len() < left && !direct.is_empty() { &mut [] } else { own };
        [IoSliceMut::new(direct), IoSliceMut::new(own)]
    }

    /// So much was received there.
    ///
    /// # Errors
    /// When the controller broke a rule, or gave the connection up: what says so to it is to be sent, as far as it can be,
    /// and the connection closed.
    pub fn received(&mut self, bytes: usize) -> Result<(), Error> {
        let left = self.reader.data_left_bytes() as usize;
        let direct = match &self.arriving {
            Some(arriving) => direct_room(&mut self.table, arriving, left).len().min(bytes),
            None => 0,
        };
        let inbox = std::mem::take(&mut self.inbox);
        let behind = inbox.get(..bytes - direct).unwrap_or_default();
        let read = self.read_in_place(direct).and_then(|()| self.read(behind));
        self.inbox = inbox;
        if !self.deferred.is_empty() && self.is_open {
            self.send_deferred();
        }
        read
    }

    /// Has data read that was received where it belongs.
    fn read_in_place(&mut self, bytes: usize) -> Result<(), Error> {
        let Some(arriving) = self.arriving.filter(|_| bytes > 0) else { return Ok(()) };
        let Some(slot) = self.table.get_mut(arriving.cid) else { return Ok(()) };
        let memory = std::mem::take(&mut slot.memory);
        let mut result = Ok(());
        for_each_part(&memory, arriving.at..arriving.at + bytes, |mut piece| {
            while let (Ok(()), false) = (&result, piece.is_empty()) {
                result = self.reader.next(&mut piece).map(drop).map_err(|violation| self.refuse(&violation));
            }
        });
        if let Some(slot) = self.table.get_mut(arriving.cid) {
            slot.memory = memory;
        }
        self.arriving = Some(Arriving { at: arriving.at + bytes, ..arriving });
        result?;
        // Without a digest, all of the data is out, and its end is known with no byte more.
        if self.reader.data_left_bytes() == 0 { self.read(&[]) } else { Ok(()) }
    }

    fn read(&mut self, mut input: &[u8]) -> Result<(), Error> {
        loop {
            match self.reader.next(&mut input) {
                Ok(None) => return Ok(()),
                Ok(Some(Incoming::Data(piece))) => self.copy_in(piece),
                Ok(Some(incoming)) => {
                    let taken = match incoming {
                        Incoming::Pdu { pdu, data_bytes } => self.take_pdu(pdu, data_bytes),
                        Incoming::End(check) => self.take_end(check),
                        Incoming::Data(_) => Ok(()),
                    };
                    taken.map_err(|violation| self.refuse(&violation))?;
                    if !self.is_open {
                        return Err(given_up_by_controller(incoming));
                    }
                }
                Err(violation) => return Err(self.refuse(&violation)),
            }
        }
    }

    fn take_pdu(&mut self, pdu: ControllerPdu, data_bytes: u32) -> Result<(), Violation> {
        match pdu {
            ControllerPdu::Response(completion) => self.answered(CommandId(completion.cid), completion),
            ControllerPdu::Data(data) => self.expect_data(&data, data_bytes),
            ControllerPdu::ReadyToTransfer(asked) => self.grant(&asked),
            ControllerPdu::Terminate(_) => {
                self.is_open = false;
                Ok(())
            }
        }
    }

    fn expect_data(&mut self, data: &C2hData, data_bytes: u32) -> Result<(), Violation> {
        let slot = self.table.spoken_of(data.command)?;
        let inbound = slot.inbound.as_mut().ok_or(Violation::UnknownCommand(data.command))?;
        let range = inbound.accept(data, data_bytes)?;
        self.arriving = Some(Arriving { cid: data.command.0, at: range.start as usize, end: data.end });
        Ok(())
    }

    fn copy_in(&mut self, mut piece: &[u8]) {
        let Some(arriving) = &mut self.arriving else { return };
        let Some(slot) = self.table.get_mut(arriving.cid) else { return };
        while !piece.is_empty() {
            let room = part_at_mut(&mut slot.memory, arriving.at);
            let (here, rest) = piece.split_at(piece.len().min(room.len()));
            let Some(room) = room.get_mut(..here.len()).filter(|room| !room.is_empty()) else { return };
            room.copy_from_slice(here);
            arriving.at += here.len();
            piece = rest;
        }
    }

    fn take_end(&mut self, check: DataCheck) -> Result<(), Violation> {
        let Some(arriving) = self.arriving.take() else { return Ok(()) };
        let command = CommandId(arriving.cid);
        if let DataCheck::Corrupt { .. } = check {
            self.table.spoken_of(command)?.is_corrupt = true;
        }
        match arriving.end {
            C2hEnd::Success => self.answered(command, Completion::new(0, 0, command.0, Status::SUCCESS)),
            C2hEnd::More | C2hEnd::Response => Ok(()),
        }
    }

    fn answered(&mut self, command: CommandId, completion: Completion) -> Result<(), Violation> {
        let slot = self.table.spoken_of(command)?;
        if slot.unsent > 0 {
            // Its data is still being sent from its memory.
            slot.answer = Some(completion);
            return Ok(());
        }
        self.end(command.0, Ok(completion), None);
        Ok(())
    }

    /// Sends what an R2T asks for.
    fn grant(&mut self, asked: &ReadyToTransfer) -> Result<(), Violation> {
        let slot = self.table.spoken_of(asked.command)?;
        let outbound = slot.outbound.as_mut().ok_or(Violation::UnknownCommand(asked.command))?;
        let grant = outbound.accept(asked, &self.agreed)?;
        for (data, range) in grant {
            let range = range.start as usize..range.end as usize;
            let (writer, outbox) = (self.writer, &mut self.outbox);
            with_parts(&slot.memory, range.clone(), |parts| {
                outbox.lend_framed(&writer.data(&data, parts), asked.command.0, range, data.last);
            });
            slot.unsent += 1;
        }
        Ok(())
    }

    /// Says to the controller which rule it broke, as the last thing that is sent.
    fn refuse(&mut self, violation: &Violation) -> Error {
        self.is_open = false;
        let reader = &mut self.reader;
        self.outbox.stage(|out| reader.refuse(violation, out));
        Error::device(ErrorKind::Protocol, format!("the controller broke a rule of NVMe/TCP: {violation}"))
    }
}

#[cold]
fn given_up_by_controller(incoming: Incoming<'_, ControllerPdu>) -> Error {
    let said = match incoming {
        Incoming::Pdu { pdu: ControllerPdu::Terminate(TermReq { status, information }), .. } => {
            format!("the controller gave the connection up: {status}, field {information}")
        }
        _ => "the controller gave the connection up".to_owned(),
    };
    Error::device(ErrorKind::DeviceLost, said)
}

/// Where the rest of the data that is on its way belongs, as far as that is one place.
fn direct_room<'a>(table: &'a mut Table, arriving: &Arriving, left: usize) -> &'a mut [u8] {
    let Some(slot) = table.get_mut(arriving.cid) else { return &mut [] };
    let room = part_at_mut(&mut slot.memory, arriving.at);
    let bytes = room.len().min(left);
    room.get_mut(..bytes).unwrap_or_default()
}
