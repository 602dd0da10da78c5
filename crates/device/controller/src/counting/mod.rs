//! Commands of hosts, counted where somebody asked for it: by type and namespace, how they ended, what data they moved, how
//! long they took.
//!
//! Whoever has the device in hand counts, so that nothing is shared. A command is noted once, without a look at the clock:
//! commands that are executed together began when their owner came ([`Subsystem::begin_commands`]) and are answered when it goes
//! ([`Subsystem::end_commands`]), which is when their times are known. What another engine has, or waits for a sync,
//! keeps its beginning.

mod histogram;
mod host_io;
mod kind;

use std::collections::{BTreeMap, HashMap};

use byway_spec::base::command::Direction;
use byway_spec::{Command, Status};

use crate::controller::Controller;
use crate::error::CommandError;
use crate::fused::FusedCommand;
use crate::namespace::Outcome;
use crate::namespace::engine::Place;
use crate::port::{CapsuleData, Port};
use crate::subsystem::Subsystem;

pub use histogram::Histogram;
use kind::Kind;
pub use kind::QueueKind;

/// Status code types (SCT).
const STATUS_TYPES: usize = 8;

/// Which row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowId(u32);

/// Commands of one type.
#[derive(Debug, Default)]
struct Row {
    kind: Kind,
    succeeded: u64,
    failed: [u64; STATUS_TYPES],
    bytes: u64,
    duration: Histogram,
}

/// A command that was noted and is not answered.
#[derive(Debug, Clone, Copy)]
struct Begun {
    row: RowId,
    bytes: u64,
    at_ns: u64,
}

/// A command that is held back until a sync, and how it will end if that goes well.
#[derive(Debug, Clone, Copy)]
struct HeldBack {
    begun: Begun,
    status: Status,
}

/// Commands of a subsystem since counting began.
#[derive(Debug)]
pub(crate) struct CommandCounters {
    rows: Vec<Row>,
    /// Where the row of a type is, by place of the namespace and opcode; [`NO_ROW`] is of one that has not come.
    index: Box<[u32]>,
    /// Commands that were answered since the clock was looked at last.
    fresh: Vec<(RowId, u64)>,
    /// Commands that other engines have.
    elsewhere: HashMap<(u32, Place), Begun>,
    /// Commands that wait for a sync which nobody has begun, and for the one under way.
    waiting: Vec<HeldBack>,
    covered: Vec<HeldBack>,
    statuses: BTreeMap<u16, u64>,
    /// When whoever has the device came.
    now_ns: u64,
}

const NO_ROW: u32 = u32::MAX;

impl CommandCounters {
    fn new() -> Self {
        Self {
            rows: Vec::new(),
            index: vec![NO_ROW; Kind::PLACES].into(),
            fresh: Vec::new(),
            elsewhere: HashMap::new(),
            waiting: Vec::new(),
            covered: Vec::new(),
            statuses: BTreeMap::new(),
            now_ns: 0,
        }
    }

    fn end(&mut self, Begun { row, bytes, at_ns }: Begun, status: Status) {
        let Some(counted) = self.rows.get_mut(row.0 as usize) else { return };
        if status.is_success() {
            counted.succeeded += 1;
            counted.bytes += bytes;
        } else {
            counted.failed[usize::from(status.sct()) % STATUS_TYPES] += 1;
            *self.statuses.entry(status.code().0).or_default() += 1;
        }
        self.fresh.push((row, at_ns));
    }

    /// What was answered took until now.
    fn settle(&mut self, now_ns: u64) {
        for (row, at_ns) in self.fresh.drain(..) {
            if let Some(counted) = self.rows.get_mut(row.0 as usize) {
                counted.duration.note(now_ns.saturating_sub(at_ns));
            }
        }
    }

    /// A sync begins that covers what waits.
    pub fn cover(&mut self) {
        self.covered.append(&mut self.waiting);
    }

    /// It has ended.
    pub fn end_cover(&mut self, synced: &Result<(), CommandError>) {
        for HeldBack { begun, status } in std::mem::take(&mut self.covered) {
            let status = match synced {
                Err(error) if status.is_success() => error.status,
                _ => status,
            };
            self.end(begun, status);
        }
    }

    /// Another engine has done the command at this place.
    pub fn end_elsewhere(&mut self, nsid: u32, place: Place, status: Status) {
        if let Some(begun) = self.elsewhere.remove(&(nsid, place)) {
            self.end(begun, status);
        }
    }

    /// Nobody waits any more for the command at this place.
    pub fn forget_elsewhere(&mut self, nsid: u32, place: Place) {
        self.elsewhere.remove(&(nsid, place));
    }

    /// Commands of `nsid` are another type's from now on.
    pub fn forget_types_of(&mut self, nsid: u32) {
        self.index.get_mut(Kind::places_of(nsid)).unwrap_or_default().fill(NO_ROW);
    }
}

/// What names a command's type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Typed {
    pub queue: QueueKind,
    pub nsid: u32,
    pub opcode: u8,
}

impl Typed {
    /// Of a command that came over queue `qid`.
    #[inline]
    pub fn of(qid: u16, command: &Command) -> Self {
        Self { queue: QueueKind::of(qid), nsid: command.nsid, opcode: command.opcode() }
    }
}

/// A command that was executed.
pub(crate) struct Executed<'a> {
    pub typed: Typed,
    pub result: &'a Result<Outcome, CommandError>,
    /// It is held back until a sync.
    pub changes: bool,
    /// Data that it moved, if it succeeded.
    pub bytes: usize,
}

impl Subsystem {
    /// Counts commands from now on.
    pub fn count_commands(&mut self) {
        self.counting.get_or_insert_with(|| Box::new(CommandCounters::new()));
    }

    /// Whether commands are counted.
    #[must_use]
    pub fn counts_commands(&self) -> bool {
        self.counting.is_some()
    }

    /// Commands that are executed from here on have waited since `now_ns`, by any clock that does not go back.
    #[inline]
    pub fn begin_commands(&mut self, now_ns: u64) {
        if let Some(counting) = &mut self.counting {
            counting.now_ns = now_ns;
        }
    }

    /// What was answered since then was at `now_ns`, which is asked for where there is anything.
    #[inline]
    pub fn end_commands(&mut self, now_ns: impl FnOnce() -> u64) {
        if let Some(counting) = self.counting.as_mut().filter(|counting| !counting.fresh.is_empty()) {
            counting.settle(now_ns());
        }
    }

    /// Counts a command, before its completion takes the way that its result asks for.
    pub(crate) fn count(&mut self, executed: &Executed<'_>) {
        let Executed { typed, result, changes, bytes } = *executed;
        let Some(begun) = self.begun(typed, bytes) else { return };
        let Some(counting) = &mut self.counting else { return };
        match result {
            Ok(Outcome::Later) => {}
            Ok(Outcome::Elsewhere(at)) => {
                counting.elsewhere.insert((at.nsid, at.place), begun);
            }
            Ok(Outcome::Done { .. }) if !changes => counting.end(begun, Status::SUCCESS),
            Err(error) if !(changes && error.dw0 != 0) => counting.end(begun, error.status),
            Ok(_) => counting.waiting.push(HeldBack { begun, status: Status::SUCCESS }),
            Err(error) => counting.waiting.push(HeldBack { begun, status: error.status }),
        }
    }

    /// Counts a command that was answered without being executed, after having waited for nobody knows how long.
    #[cold]
    pub(crate) fn count_answered(&mut self, typed: Typed, status: Status) {
        if let (Some(begun), Some(counting)) = (self.begun(typed, 0), &mut self.counting) {
            counting.end(begun, status);
            counting.fresh.pop();
        }
    }

    fn begun(&mut self, typed: Typed, bytes: usize) -> Option<Begun> {
        let place = Kind::place(typed);
        let counting = self.counting.as_mut()?;
        let at_ns = counting.now_ns;
        let row = match *counting.index.get(place)? {
            NO_ROW => self.add_row(typed, place)?,
            row => RowId(row),
        };
        Some(Begun { row, bytes: bytes as u64, at_ns })
    }

    /// A row for a type that comes for the first time. Types without a name share one in their namespace.
    #[cold]
    fn add_row(&mut self, typed: Typed, place: usize) -> Option<RowId> {
        let csi = self.namespace(typed.nsid).map(crate::Namespace::csi);
        let kind = Kind::of(typed, csi);
        let counting = self.counting.as_mut()?;
        let known = counting.rows.iter().position(|row| row.kind == kind);
        let row = known.unwrap_or_else(|| {
            counting.rows.push(Row { kind, ..Row::default() });
            counting.rows.len() - 1
        }) as u32;
        *counting.index.get_mut(place)? = row;
        Some(RowId(row))
    }

    /// Commands since counting began; none where nobody asked for it.
    #[must_use]
    pub fn command_snapshot(&self) -> CommandSnapshot {
        let Some(counting) = &self.counting else { return CommandSnapshot::default() };
        let mut types: Vec<CommandType> = counting.rows.iter().map(CommandType::of).collect();
        types.sort_by_key(|one| (one.queue, one.nsid, one.name));
        CommandSnapshot {
            types,
            statuses: counting.statuses.iter().map(|(code, count)| (Status(*code), *count)).collect(),
            in_engines: counting.elsewhere.len(),
            awaiting_sync: counting.waiting.len() + counting.covered.len(),
        }
    }
}

impl Controller {
    /// Counts an executed command: for SMART, and by its type if metrics are on. Its data moved in its capsule, behind it in its
    /// ring, or through its data pointer.
    #[inline]
    pub(crate) fn count(
        &self,
        subsystem: &mut Subsystem,
        port: &Port<'_>,
        typed: Typed,
        inline_bytes: Option<usize>,
        (result, changes): (&Result<Outcome, CommandError>, bool),
    ) {
        let moved = || port.capsule.as_ref().map_or(self.room.mapped.len_bytes, CapsuleData::moved_bytes);
        let bytes = match result {
            // Another engine has not read it yet.
            Ok(Outcome::Elsewhere(at)) if at.reply.data_bytes > 0 => at.reply.data_bytes as usize,
            _ => inline_bytes.unwrap_or_else(moved),
        };
        if typed.queue == QueueKind::Io {
            subsystem.count_host(typed.opcode, if result.is_ok() { bytes } else { 0 });
        }
        if subsystem.counting.is_some() {
            subsystem.count(&Executed { typed, result, changes, bytes });
        }
    }

    /// The same of two fused commands.
    pub(crate) fn count_pair(
        &self,
        subsystem: &mut Subsystem,
        port: &Port<'_>,
        qid: u16,
        pair: [FusedCommand<'_>; 2],
        (results, changes): ([&Result<Outcome, CommandError>; 2], bool),
    ) {
        // The first only compares.
        for (half, result, changes) in [(pair[0], results[0], false), (pair[1], results[1], changes)] {
            let carried = half.carried.map(<[u8]>::len);
            self.count(subsystem, port, Typed::of(qid, half.command), carried, (result, changes));
        }
    }
}

/// Commands of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandType {
    /// Which queues it comes over.
    pub queue: QueueKind,
    /// The namespace; none of an admin command, and of one that named a namespace which is not there.
    pub nsid: Option<u32>,
    /// What the specification calls it; none of an opcode that it does not name.
    pub name: Option<&'static str>,
    /// Which way its data goes.
    pub direction: Direction,
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed, by status code type.
    pub failed: [u64; STATUS_TYPES],
    /// Bytes of data that those moved which succeeded. What stands in commands themselves is no data.
    pub bytes: u64,
    /// How long they took, from when the device was asked for until they were answered there: what a network takes is not
    /// in it, nor is the time that data needs to come.
    pub duration: Histogram,
}

impl CommandType {
    fn of(row: &Row) -> Self {
        let Kind { queue, nsid, name, direction } = row.kind;
        Self {
            queue,
            nsid,
            name,
            direction,
            succeeded: row.succeeded,
            failed: row.failed,
            bytes: row.bytes,
            duration: row.duration.clone(),
        }
    }
}

/// Commands since counting began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandSnapshot {
    /// By type.
    pub types: Vec<CommandType>,
    /// Those that failed, by status without its retry bits.
    pub statuses: Vec<(Status, u64)>,
    /// Commands that other engines have now.
    pub in_engines: usize,
    /// Commands that wait for a sync of the image now.
    pub awaiting_sync: usize,
}
