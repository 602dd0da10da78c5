//! A store whose value travels in its commands (`piggyback-pt`), one command after the other: what is sent, and what
//! follows an answer. Knows no interface: the carrier of commands asks it.
//!
//! **What goes wrong.** The way by pieces is the device's offer and ends where the device says so: a payload that it has no
//! room for, has dropped for another's or lost by a reset, and a method that a reset has switched off. The store then goes
//! whole, as any other; of a value that never became whole nothing was stored. Any other status is the store's own.

use std::time::{Duration, Instant};

use byway_core::{Answer, Error, ErrorKind, Memory, Result, piggyback_pt};
use byway_spec::vendor::TRANSFER_PT_BYTES;
use byway_spec::{Command as Entry, Status};
use byway_sys::{NvmeAnswer, NvmeCommand, NvmeQueue};

use super::passed::{Passed, millis};

/// How far a store in pieces has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Commands that were answered.
    answered: u32,
    /// What the device calls the value, since it has answered the first.
    payload: u16,
    /// When the store is given up.
    until: Option<Instant>,
}

/// How a store goes on.
#[derive(Debug)]
pub(crate) enum Onward {
    /// By its next piece.
    Piece(NvmeCommand),
    /// Whole, with its memory: as the store that it was made from says.
    Whole,
    /// Not at all.
    Ended(Result<Answer>),
}

impl Pieces {
    /// The same, given up after `timeout`.
    pub(crate) fn within(mut self, timeout: Duration) -> Self {
        // A deadline beyond the clock's range never passes.
        self.until = Instant::now().checked_add(timeout);
        self
    }

    /// Milliseconds that are left, 0 for as many as the kernel gives; `None` if there are none.
    fn left_ms(&self) -> Option<u32> {
        let Some(until) = self.until else { return Some(0) };
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| millis(left))
    }

    /// The piece of `store` that is to be sent, with nothing to be given up after yet.
    fn piece(&self, store: &NvmeCommand, memory: &Memory) -> NvmeCommand {
        let place = piggyback_pt::place(store.cdw10_15[0] as usize, self.answered as usize);
        let mut room = [0; TRANSFER_PT_BYTES];
        let bytes = read(memory, place.start, room.get_mut(..place.len()).unwrap_or_default());
        match self.answered.checked_sub(1) {
            None => passed_as(store, &piggyback_pt::write(&entry_of(store), bytes)),
            Some(fragment) => {
                passed_as(store, &piggyback_pt::transfer(store.nsid, self.payload, fragment as u16, bytes))
            }
        }
    }

    /// The answer to the last piece.
    fn last(&self, answer: Answer) -> Answer {
        Answer { commands: self.answered, slots: self.answered, ..answer }
    }
}

impl Passed {
    /// The first piece of a store in pieces; any other command as it is.
    pub(crate) fn first_command(&self, memory: &Memory) -> NvmeCommand {
        match self.pieces {
            Some(pieces) => {
                NvmeCommand { timeout_ms: self.command.timeout_ms, ..pieces.piece(&self.command, memory) }
            }
            None => self.command,
        }
    }

    /// How it goes on after an answer to its last command.
    pub(crate) fn onward(&mut self, answer: NvmeAnswer, memory: &Memory) -> Onward {
        let answered = self.answered(answer);
        let Some(pieces) = &mut self.pieces else { return Onward::Ended(answered) };
        let ended = match answered {
            Ok(answer) => {
                if pieces.answered == 0 {
                    pieces.payload = answer.dw0 as u16;
                }
                pieces.answered += 1;
                let wanted = piggyback_pt::commands(self.command.cdw10_15[0] as usize);
                (pieces.answered as usize >= wanted).then(|| Ok(pieces.last(answer)))
            }
            Err(error) if !is_about_pieces(Status(answer.status)) => Some(Err(error)),
            Err(_) => return self.go_whole(),
        };
        match (ended, pieces.left_ms()) {
            (Some(ended), _) => Onward::Ended(ended),
            (None, None) => Onward::Ended(Err(late())),
            (None, Some(timeout_ms)) => {
                Onward::Piece(NvmeCommand { timeout_ms, ..pieces.piece(&self.command, memory) })
            }
        }
    }

    fn go_whole(&mut self) -> Onward {
        match self.pieces.take().unwrap_or_default().left_ms() {
            Some(timeout_ms) => {
                self.command.timeout_ms = timeout_ms;
                Onward::Whole
            }
            None => Onward::Ended(Err(late())),
        }
    }
}

/// Whether a status is about the transfer in pieces, not about the store.
fn is_about_pieces(status: Status) -> bool {
    let statuses = [
        Status::INVALID_OPCODE,
        Status::PAYLOAD_LIMIT_EXCEEDED,
        Status::PAYLOAD_UNKNOWN,
        Status::PAYLOAD_FRAGMENT_INVALID,
    ];
    statuses.into_iter().any(|about| status.is(about))
}

/// The bytes from `start` on, as many as `into` has room for, wherever they stand.
fn read<'a>(memory: &Memory, mut start: usize, into: &'a mut [u8]) -> &'a [u8] {
    let mut filled = 0;
    for part in memory.parts() {
        let from = part.get(start.min(part.len())..).unwrap_or_default();
        start = start.saturating_sub(part.len());
        for (to, byte) in into.iter_mut().skip(filled).zip(from) {
            *to = *byte;
            filled += 1;
        }
    }
    into
}

/// What of an entry is passed on of a command of I/O.
fn entry_of(command: &NvmeCommand) -> Entry {
    let mut entry = Entry::new(command.opcode, 0, command.nsid);
    (entry.cdw2, entry.cdw3) = (command.cdw2, command.cdw3);
    [entry.cdw10, entry.cdw11, entry.cdw12, entry.cdw13, entry.cdw14, entry.cdw15] = command.cdw10_15;
    entry
}

/// A piece of `store`, which keeps its memory.
fn passed_as(store: &NvmeCommand, entry: &Entry) -> NvmeCommand {
    debug_assert!(entry.mptr == 0 && entry.dptr == [0; 2], "no piece needs what is not passed on");
    NvmeCommand {
        queue: NvmeQueue::Io,
        opcode: entry.opcode(),
        nsid: store.nsid,
        cdw2: entry.cdw2,
        cdw3: entry.cdw3,
        cdw10_15: [entry.cdw10, entry.cdw11, entry.cdw12, entry.cdw13, entry.cdw14, entry.cdw15],
        keeps_data: true,
        timeout_ms: 0,
    }
}

#[cold]
fn late() -> Error {
    let said = "the store's time was over between two of its commands; nothing was stored";
    Error::host(ErrorKind::TimedOut, said)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use byway_core::encode::encode;
    use byway_core::{Buffer, Command, Key, KvCommand, Nsid, Payload, StoreOptions};
    use byway_spec::vendor::{unpack_transfer_pt, unpack_write_pt};

    use super::*;

    const OK: NvmeAnswer = NvmeAnswer { status: 0, result: 0 };

    /// A store in pieces, its memory, and its first command.
    fn begun(value: Payload) -> (Passed, Memory, NvmeCommand) {
        let (nsid, key, options) = (Nsid::FIRST, Key::new(b"key").unwrap(), StoreOptions::NONE);
        let command = Command::from(KvCommand::Store { nsid, key, value, options });
        let mut passed = Passed::of(&encode(&command), NvmeQueue::Io).unwrap();
        passed.pieces = Some(Pieces::default());
        let memory = command.into_memory();
        let first = passed.first_command(&memory);
        (passed, memory, first)
    }

    fn answer(status: Status) -> NvmeAnswer {
        NvmeAnswer { status: status.0, result: 0 }
    }

    fn bytes(len: u8) -> Vec<u8> {
        (1..=len).collect()
    }

    /// The bytes that all commands bring, given what the device calls the payload.
    fn brought(value: Payload) -> Vec<u8> {
        let (mut passed, memory, first) = begun(value);
        let mut brought = unpack_write_pt(&entry_of(&first)).to_vec();
        let mut given = NvmeAnswer { status: 0, result: 0xbeef };
        for fragment in 0.. {
            match passed.onward(given, &memory) {
                Onward::Piece(command) => {
                    assert!(command.keeps_data);
                    let (place, bytes) = unpack_transfer_pt(&entry_of(&command));
                    assert_eq!((place.payload(), place.fragment()), (0xbeef, fragment));
                    brought.extend(bytes);
                }
                Onward::Ended(answer) => {
                    assert_eq!(answer.unwrap().commands, u32::from(fragment) + 1);
                    break;
                }
                Onward::Whole => panic!("nothing was refused"),
            }
            given = OK;
        }
        brought.truncate(memory.len());
        brought
    }

    #[test]
    fn every_byte_travels_from_one_buffer_or_from_several() {
        for len in [0, 1, 11, 12, 39, 40, 200] {
            assert_eq!(brought(Payload::copy_of(&bytes(len)).unwrap()), bytes(len));
        }
        let whole = bytes(100);
        let parts = [&whole[..5], &[], &whole[5..60], &whole[60..]];
        let parts: Vec<Buffer> = parts.into_iter().map(|part| Buffer::copy_of(part).unwrap()).collect();
        assert_eq!(brought(parts.into()), whole);
    }

    #[test]
    fn piggyback_refusal_by_the_device_resends_the_store_whole() {
        for status in [
            Status::INVALID_OPCODE.with_dnr(),
            Status::PAYLOAD_LIMIT_EXCEEDED,
            Status::PAYLOAD_UNKNOWN,
            Status::PAYLOAD_FRAGMENT_INVALID,
        ] {
            for answers_before in [0, 1, 2] {
                let (mut passed, memory, _) = begun(Payload::copy_of(&bytes(100)).unwrap());
                let whole = passed.command;
                (0..answers_before).for_each(|_| drop(passed.onward(OK, &memory)));
                assert!(matches!(passed.onward(answer(status), &memory), Onward::Whole), "{status}");
                assert_eq!((passed.command, passed.pieces), (whole, None));
                let stored = passed.onward(OK, &memory);
                assert!(matches!(stored, Onward::Ended(Ok(Answer { commands: 1, .. }))));
            }
        }
    }

    #[test]
    fn any_other_status_is_the_stores_own() {
        for status in [Status::CAPACITY_EXCEEDED, Status::WRITE_FAULT, Status::ABORT_REQUESTED] {
            let (mut passed, memory, _) = begun(Payload::copy_of(&bytes(100)).unwrap());
            drop(passed.onward(OK, &memory));
            let Onward::Ended(Err(error)) = passed.onward(answer(status), &memory) else {
                panic!("{status}")
            };
            assert_eq!(error.nvme_status(), Some(status));
        }
    }

    #[test]
    fn the_time_of_a_store_is_that_of_all_its_commands() {
        let (mut passed, memory, _) = begun(Payload::copy_of(&bytes(100)).unwrap());
        passed = passed.within(Duration::from_secs(3600));
        let ms = |command: NvmeCommand| command.timeout_ms;
        assert_eq!(ms(passed.first_command(&memory)), 3_600_000);
        let Onward::Piece(next) = passed.onward(OK, &memory) else { panic!("it goes on") };
        assert!((3_500_000..=3_600_000).contains(&ms(next)), "{}", next.timeout_ms);
        let mut over = passed.within(Duration::ZERO);
        let Onward::Ended(Err(late)) = over.onward(OK, &memory) else { panic!("its time is over") };
        assert_eq!((late.kind(), late.nvme_status()), (ErrorKind::TimedOut, None));
        let mut over = passed.within(Duration::ZERO);
        let refused = over.onward(answer(Status::PAYLOAD_UNKNOWN), &memory);
        assert!(matches!(refused, Onward::Ended(Err(late)) if late.kind() == ErrorKind::TimedOut));
    }
}
