//! Commands with solicited data: R2T sent, or waiting in order to be solicited.
//!
//! Memory of buffers is used only as data arrives. The bytes that one connection solicits at once are bounded.

use std::collections::VecDeque;

use byway_nvme_tcp::{CommandId, H2cData, ReadyToTransfer, Solicitations, TransferTag, Violation};
use byway_spec::Command;

use crate::data::solicited_bytes;
use crate::share::{FREE_BYTES, Share};

/// Outstanding R2Ts of one connection.
const PLACES: u16 = 128;

/// Bytes that one connection solicits at once: two of the largest commands.
const ASKED_BYTES: usize = 32 << 20;

/// Buffers kept for further commands, and the bytes of each, at most.
const SPARE_BUFFERS: usize = 8;
const SPARE_BYTES: usize = 1 << 20;

/// Solicited bytes from which on data is received directly into its command's buffer.
const LARGE_BYTES: usize = 32 << 10;

/// A command and its buffer.
#[derive(Debug)]
pub struct Whole {
    /// The command.
    pub command: Command,
    /// The buffer, which may be longer than the data.
    room: Vec<u8>,
    bytes: usize,
    filled: usize,
    /// A data digest did not match.
    pub is_corrupt: bool,
}

impl Whole {
    /// The data.
    pub fn data(&self) -> &[u8] {
        self.room.get(..self.bytes).unwrap_or_default()
    }
}

/// The data of the PDU being received.
#[derive(Debug, Clone, Copy)]
pub struct Coming {
    place: usize,
    /// It completes the command's data.
    whole: bool,
}

/// Commands of one connection with solicited data.
#[derive(Debug)]
pub struct Pending {
    solicitations: Solicitations,
    /// By transfer tag.
    asked: Vec<Option<Whole>>,
    asked_bytes: usize,
    waiting: VecDeque<Command>,
    spare: Vec<Vec<u8>>,
    /// The part of the budget taken by solicited data.
    share: Share,
    /// The budget had too little for the next command.
    is_short: bool,
    /// Tags of aborted commands whose data still arrives.
    forgone: usize,
    /// The last PDU of a tag is being received: the tag is free already, its entry is not.
    is_ending: bool,
}

impl Pending {
    /// No commands.
    pub fn new(share: Share) -> Self {
        Self {
            solicitations: Solicitations::new(PLACES),
            asked: (0..PLACES).map(|_| None).collect(),
            asked_bytes: 0,
            waiting: VecDeque::new(),
            spare: Vec::new(),
            share,
            is_short: false,
            forgone: 0,
            is_ending: false,
        }
    }

    /// Commands with incomplete data.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.solicitations.outstanding() - self.forgone
    }

    /// Bytes of waiting commands, of solicited data and of spare buffers.
    pub fn held_bytes(&self) -> usize {
        let spare: usize = self.spare.iter().map(Vec::len).sum();
        self.waiting.len() * size_of::<Command>() + self.asked_bytes + spare
    }

    /// Adds a command to be solicited.
    pub fn wait(&mut self, command: Command) {
        self.waiting.push_back(command);
    }

    /// The next R2T, if the limits allow it.
    pub fn ask(&mut self) -> Option<ReadyToTransfer> {
        if self.is_ending {
            return None;
        }
        let command = *self.waiting.front()?;
        let bytes = solicited_bytes(&command);
        if self.asked_bytes > 0 && self.asked_bytes + bytes as usize > ASKED_BYTES {
            return None;
        }
        // A connection without solicited data may always solicit a little.
        let is_free = self.asked_bytes == 0 && bytes as usize <= FREE_BYTES;
        self.is_short = !is_free && !self.share.take(bytes as usize);
        if self.is_short {
            return None;
        }
        let asked = self.solicitations.ask(CommandId(command.cid()), 0, bytes);
        let Some(asked) = asked else {
            self.share.keep(self.asked_bytes);
            return None;
        };
        self.waiting.pop_front();
        self.asked_bytes += bytes as usize;
        let bytes = bytes as usize;
        let fits = |room: &Vec<u8>| room.len() >= bytes;
        // Zeroed memory from the system is backed only when data is written to it.
        let room = self.spare.pop().filter(fits).unwrap_or_else(|| vec![0; bytes]);
        let whole = Whole { command, room, bytes, filled: 0, is_corrupt: false };
        *self.asked.get_mut(usize::from(asked.tag.0))? = Some(whole);
        Some(asked)
    }

    /// Whether the next command waits for budget of other connections.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Whether the host owes data of live commands, or aborted commands hold every tag so that none can be solicited.
    pub fn is_owed(&self) -> bool {
        let is_barred = self.forgone == usize::from(PLACES) && !self.waiting.is_empty();
        self.solicitations.outstanding() > self.forgone || is_barred
    }

    /// Whether much solicited data is expected.
    pub fn awaits_large(&self) -> bool {
        self.asked_bytes >= LARGE_BYTES
    }

    /// The buffer for the next data, at most `bytes`.
    pub fn room(&mut self, coming: Coming, bytes: usize) -> &mut [u8] {
        let Some(Some(whole)) = self.asked.get_mut(coming.place) else { return &mut [] };
        let end = whole.filled.saturating_add(bytes).min(whole.bytes);
        whole.room.get_mut(whole.filled..end).unwrap_or_default()
    }

    /// Takes `bytes` received there, and returns them.
    pub fn received(&mut self, coming: Coming, bytes: usize) -> &[u8] {
        let Some(Some(whole)) = self.asked.get_mut(coming.place) else { return &[] };
        let start = whole.filled;
        whole.filled = start.saturating_add(bytes).min(whole.bytes);
        whole.room.get(start..whole.filled).unwrap_or_default()
    }

    /// Checks the header of an H2CData PDU.
    ///
    /// # Errors
    /// It is not the next data of an R2T.
    pub fn accept(&mut self, header: &H2cData, data_bytes: u32) -> Result<Coming, Violation> {
        let accepted = self.solicitations.accept(header, data_bytes)?;
        self.is_ending = accepted.whole;
        self.forgone -= usize::from(accepted.whole && !accepted.wanted);
        Ok(Coming { place: usize::from(header.tag.0), whole: accepted.whole })
    }

    /// Takes a piece of data.
    pub fn take(&mut self, coming: Coming, piece: &[u8]) {
        let room = self.room(coming, piece.len());
        if let Some(piece) = piece.get(..room.len()) {
            room.copy_from_slice(piece);
        }
        self.received(coming, piece.len());
    }

    /// Ends a PDU; returns the command if its data is complete.
    pub fn end(&mut self, coming: Coming, is_intact: bool) -> Option<Whole> {
        self.is_ending = false;
        if let Some(whole) = self.asked.get_mut(coming.place)? {
            whole.is_corrupt |= !is_intact;
        }
        if coming.whole { self.take_place(coming.place) } else { None }
    }

    fn take_place(&mut self, place: usize) -> Option<Whole> {
        let whole = self.asked.get_mut(place)?.take()?;
        self.asked_bytes -= whole.bytes.min(self.asked_bytes);
        self.share.keep(self.asked_bytes);
        Some(whole)
    }

    /// Removes an aborted command; whether it waited for data. Data that was solicited still arrives and is dropped.
    pub fn withdraw(&mut self, cid: u16) -> bool {
        if let Some(at) = self.waiting.iter().position(|command| command.cid() == cid) {
            self.waiting.remove(at);
            return true;
        }
        let is_its = |place: &Option<Whole>| place.as_ref().is_some_and(|whole| whole.command.cid() == cid);
        let Some(place) = self.asked.iter().position(is_its) else { return false };
        // While the last PDU is being received, the tag is free already.
        self.forgone += usize::from(self.solicitations.forgo(TransferTag(place as u16)));
        self.take_place(place).into_iter().for_each(|whole| self.reuse(whole));
        true
    }

    /// Frees spare buffers of an idle connection.
    pub fn release_buffers(&mut self) {
        self.spare.clear();
    }

    /// Keeps the buffer of a completed command for another.
    pub fn reuse(&mut self, whole: Whole) {
        if self.spare.len() < SPARE_BUFFERS && whole.room.len() <= SPARE_BYTES {
            self.spare.push(whole.room);
        }
    }
}
