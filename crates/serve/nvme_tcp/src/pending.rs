//! Commands whose data is still to come: asked for by an R2T, or waiting for their turn to be.
//!
//! Data takes memory only as it comes. What one connection may have asked for at once is bounded; further commands
//! wait, in order.

use std::collections::VecDeque;

use byway_nvme_tcp::{CommandId, H2cData, ReadyToTransfer, Solicitations, TransferTag, Violation};
use byway_spec::Command;

use crate::share::{FREE_BYTES, Share};

/// R2Ts of one connection at once.
const PLACES: u16 = 128;

/// Data that one connection has asked for at once: two of the largest commands.
const ASKED_BYTES: usize = 32 << 20;

/// Buffers that are kept for the next commands, each no longer than this.
const SPARE_BUFFERS: usize = 8;
const SPARE_BYTES: usize = 1 << 20;

/// Data from this size on is large: it is received where it belongs.
const LARGE_BYTES: usize = 32 << 10;

/// A command with all of its data.
#[derive(Debug)]
pub struct Whole {
    /// The command.
    pub command: Command,
    /// Room for its data, and perhaps for more.
    room: Vec<u8>,
    bytes: usize,
    filled: usize,
    /// A data digest did not match.
    pub is_corrupt: bool,
}

impl Whole {
    /// Its data.
    pub fn data(&self) -> &[u8] {
        self.room.get(..self.bytes).unwrap_or_default()
    }
}

/// Data that comes now.
#[derive(Debug, Clone, Copy)]
pub struct Coming {
    place: usize,
    /// With it, the command has all of its data.
    whole: bool,
}

/// What one connection has asked for.
#[derive(Debug)]
pub struct Pending {
    solicitations: Solicitations,
    /// By the tag of the R2T.
    asked: Vec<Option<Whole>>,
    asked_bytes: usize,
    waiting: VecDeque<Command>,
    spare: Vec<Vec<u8>>,
    /// Of all that connections hold, what was asked for here.
    share: Share,
    /// There was none left for the next.
    is_short: bool,
    /// Tags of commands that ended without their data, which comes all the same.
    forgone: usize,
    /// The last of a tag's data is being received: the tag is free, and its place is not.
    is_ending: bool,
}

impl Pending {
    /// Nothing yet.
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

    /// Commands that have not all of their data.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.solicitations.outstanding() - self.forgone
    }

    /// Bytes of commands that wait, of data that was asked for and of spare buffers.
    pub fn held_bytes(&self) -> usize {
        let spare: usize = self.spare.iter().map(Vec::len).sum();
        self.waiting.len() * size_of::<Command>() + self.asked_bytes + spare
    }

    /// A command that has data to send.
    pub fn wait(&mut self, command: Command) {
        self.waiting.push_back(command);
    }

    /// The R2T to send next, if there is room for what it asks.
    pub fn ask(&mut self) -> Option<ReadyToTransfer> {
        if self.is_ending {
            return None;
        }
        let command = *self.waiting.front()?;
        let bytes = command.sgl1().length_bytes;
        if self.asked_bytes > 0 && self.asked_bytes + bytes as usize > ASKED_BYTES {
            return None;
        }
        // A little may always be asked for, by who waits for nothing else.
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
        // Of the zeroes of new room the system makes memory where data comes.
        let room = self.spare.pop().filter(fits).unwrap_or_else(|| vec![0; bytes]);
        let whole = Whole { command, room, bytes, filled: 0, is_corrupt: false };
        *self.asked.get_mut(usize::from(asked.tag.0))? = Some(whole);
        Some(asked)
    }

    /// Whether the next waits for other connections to hold less.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Whether data was asked for that has not come, or so much is owed of commands that ended that nothing more is asked for.
    pub fn is_owed(&self) -> bool {
        let is_barred = self.forgone == usize::from(PLACES) && !self.waiting.is_empty();
        self.solicitations.outstanding() > self.forgone || is_barred
    }

    /// Whether data that was asked for is better received where it belongs.
    pub fn awaits_large(&self) -> bool {
        self.asked_bytes >= LARGE_BYTES
    }

    /// Where the next bytes of the data belong, at most so many.
    pub fn room(&mut self, coming: Coming, bytes: usize) -> &mut [u8] {
        let Some(Some(whole)) = self.asked.get_mut(coming.place) else { return &mut [] };
        let end = whole.filled.saturating_add(bytes).min(whole.bytes);
        whole.room.get_mut(whole.filled..end).unwrap_or_default()
    }

    /// So many bytes were received there: which.
    pub fn received(&mut self, coming: Coming, bytes: usize) -> &[u8] {
        let Some(Some(whole)) = self.asked.get_mut(coming.place) else { return &[] };
        let start = whole.filled;
        whole.filled = start.saturating_add(bytes).min(whole.bytes);
        whole.room.get(start..whole.filled).unwrap_or_default()
    }

    /// Judges H2CData by its header.
    ///
    /// # Errors
    /// If it is not what is next of an R2T.
    pub fn accept(&mut self, header: &H2cData, data_bytes: u32) -> Result<Coming, Violation> {
        let accepted = self.solicitations.accept(header, data_bytes)?;
        self.is_ending = accepted.whole;
        self.forgone -= usize::from(accepted.whole && !accepted.wanted);
        Ok(Coming { place: usize::from(header.tag.0), whole: accepted.whole })
    }

    /// A piece of the data.
    pub fn take(&mut self, coming: Coming, piece: &[u8]) {
        let room = self.room(coming, piece.len());
        if let Some(piece) = piece.get(..room.len()) {
            room.copy_from_slice(piece);
        }
        self.received(coming, piece.len());
    }

    /// The end of the data of one PDU: the command, if it has all of its data.
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

    /// A command is not to have its data any more; whether it waited for it. What it was asked for already comes all the same,
    /// and is dropped.
    pub fn withdraw(&mut self, cid: u16) -> bool {
        if let Some(at) = self.waiting.iter().position(|command| command.cid() == cid) {
            self.waiting.remove(at);
            return true;
        }
        let is_its = |place: &Option<Whole>| place.as_ref().is_some_and(|whole| whole.command.cid() == cid);
        let Some(place) = self.asked.iter().position(is_its) else { return false };
        // Of one that has the last of its data coming, the tag is free already.
        self.forgone += usize::from(self.solicitations.forgo(TransferTag(place as u16)));
        self.take_place(place).into_iter().for_each(|whole| self.reuse(whole));
        true
    }

    /// Nothing came for a while: buffers are given back.
    pub fn rest(&mut self) {
        self.spare.clear();
    }

    /// The room of a command that is done is another's.
    pub fn reuse(&mut self, whole: Whole) {
        if self.spare.len() < SPARE_BUFFERS && whole.room.len() <= SPARE_BYTES {
            self.spare.push(whole.room);
        }
    }
}
