//! Metrics of commands: by type and namespace, how they ended, what data they moved, how long they took.
//!
//! The holder of the run lock counts, so nothing is shared. A command is noted once, without reading the clock: commands
//! that are executed together begin when the lock is taken ([`CommandCounters::begin`]) and end when it is released
//! ([`CommandCounters::settle`]). A command that an external engine executes, or that awaits durability, keeps its
//! beginning.

mod histogram;
mod host_io;
mod io_counters;
mod kind;
mod stalls;
mod tally;

use std::collections::{BTreeMap, HashMap};

use byway_spec::base::command::Direction;
use byway_spec::base::identify::Csi;
use byway_spec::{Command, Status};

use crate::error::CommandError;
use crate::outcome::{ExternalWork, Outcome};

pub use histogram::Histogram;
pub(crate) use host_io::HostCommand;
pub use io_counters::{Counted, IoCounters};
use kind::Kind;
pub use kind::QueueKind;
pub(crate) use stalls::StallCounters;
pub use stalls::{CommandStalls, QueueOf, StallSnapshot, UpkeepTimes};
pub use tally::{Tally, TallyCounts};

/// Status code types (SCT).
const STATUS_TYPES: usize = 8;

/// A row of the table.
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

/// A command that was noted and has not completed.
#[derive(Debug, Clone, Copy)]
struct Begun {
    row: RowId,
    bytes: u64,
    at_ns: u64,
}

/// A command that awaits durability, and how it ends if the sync succeeds.
#[derive(Debug, Clone, Copy)]
struct Uncommitted {
    begun: Begun,
    status: Status,
}

/// Commands of a subsystem since counting began.
#[derive(Debug)]
pub(crate) struct CommandCounters {
    rows: Vec<Row>,
    /// The row of a type, by namespace and opcode; [`NO_ROW`] for a type that has not occurred.
    index: Box<[u32]>,
    /// Commands that completed since the clock was last read.
    fresh: Vec<(RowId, u64)>,
    /// Commands that wait for work outside the controller.
    external: HashMap<ExternalWork, Begun>,
    /// Commands that wait for the next sync, and for the one under way.
    waiting: Vec<Uncommitted>,
    covered: Vec<Uncommitted>,
    statuses: BTreeMap<u16, u64>,
    /// When the run lock was taken.
    now_ns: u64,
}

const NO_ROW: u32 = u32::MAX;

impl CommandCounters {
    /// Counts commands from now on.
    pub fn new() -> Self {
        Self {
            rows: Vec::new(),
            index: vec![NO_ROW; Kind::PLACES].into(),
            fresh: Vec::new(),
            external: HashMap::new(),
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

    /// Commands that are executed from here on began at `now_ns`, by any monotonic clock.
    #[inline]
    pub fn begin(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Whether commands completed since [`settle`](Self::settle).
    #[inline]
    pub fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Commands that completed since the last call took until `now_ns`.
    pub fn settle(&mut self, now_ns: u64) {
        for (row, at_ns) in self.fresh.drain(..) {
            if let Some(counted) = self.rows.get_mut(row.0 as usize) {
                counted.duration.note(now_ns.saturating_sub(at_ns));
            }
        }
    }

    /// A sync begins that covers the commands that wait.
    pub fn cover(&mut self) {
        self.covered.append(&mut self.waiting);
    }

    /// The sync has ended.
    pub fn end_cover(&mut self, synced: &Result<(), CommandError>) {
        for Uncommitted { begun, status } in std::mem::take(&mut self.covered) {
            let status = match synced {
                Err(error) if status.is_success() => error.status,
                _ => status,
            };
            self.end(begun, status);
        }
    }

    /// The command that waited for `work` is completed.
    pub fn end_external(&mut self, work: ExternalWork, status: Status) {
        if let Some(begun) = self.external.remove(&work) {
            self.end(begun, status);
        }
    }

    /// The command that waited for `work` will not be completed.
    pub fn forget_external(&mut self, work: ExternalWork) {
        self.external.remove(&work);
    }

    /// Namespace `nsid` changes its command set: its types get new rows.
    pub fn forget_types_of(&mut self, nsid: u32) {
        self.index.get_mut(Kind::places_of(nsid)).unwrap_or_default().fill(NO_ROW);
    }

    /// Counts a command, before its completion takes the path that its result asks for. `csi` is the command set of its
    /// namespace, asked for at the first command of a type.
    pub fn count(&mut self, executed: &Executed<'_>, csi: impl FnOnce() -> Option<Csi>) {
        let Executed { typed, result, changes, bytes } = *executed;
        let Some(begun) = self.begun(typed, bytes, csi) else { return };
        match result {
            Ok(Outcome::Later) => {}
            Ok(Outcome::External(at)) => {
                self.external.insert(at.work, begun);
            }
            Ok(Outcome::Done { .. }) if !changes => self.end(begun, Status::SUCCESS),
            Err(error) if !(changes && error.dw0 != 0) => self.end(begun, error.status),
            Ok(_) => self.waiting.push(Uncommitted { begun, status: Status::SUCCESS }),
            Err(error) => self.waiting.push(Uncommitted { begun, status: error.status }),
        }
    }

    /// Counts a command that completed without being executed. Its duration is unknown.
    #[cold]
    pub fn count_unexecuted(&mut self, typed: Typed, status: Status, csi: impl FnOnce() -> Option<Csi>) {
        if let Some(begun) = self.begun(typed, 0, csi) {
            self.end(begun, status);
            self.fresh.pop();
        }
    }

    fn begun(&mut self, typed: Typed, bytes: usize, csi: impl FnOnce() -> Option<Csi>) -> Option<Begun> {
        let place = Kind::place(typed);
        let at_ns = self.now_ns;
        let row = match *self.index.get(place)? {
            NO_ROW => self.add_row(typed, place, csi())?,
            row => RowId(row),
        };
        Some(Begun { row, bytes: bytes as u64, at_ns })
    }

    /// A row for the first command of a type. Types without a name share one in their namespace.
    #[cold]
    fn add_row(&mut self, typed: Typed, place: usize, csi: Option<Csi>) -> Option<RowId> {
        let kind = Kind::of(typed, csi);
        let known = self.rows.iter().position(|row| row.kind == kind);
        let row = known.unwrap_or_else(|| {
            self.rows.push(Row { kind, ..Row::default() });
            self.rows.len() - 1
        }) as u32;
        *self.index.get_mut(place)? = row;
        Some(RowId(row))
    }

    /// Commands since counting began.
    pub fn snapshot(&self) -> CommandSnapshot {
        let mut types: Vec<CommandType> = self.rows.iter().map(CommandType::of).collect();
        types.sort_by_key(|one| (one.queue, one.nsid, one.name));
        CommandSnapshot {
            types,
            statuses: self.statuses.iter().map(|(code, count)| (Status(*code), *count)).collect(),
            in_engines: self.external.len(),
            awaiting_sync: self.waiting.len() + self.covered.len(),
        }
    }
}

/// What determines a command's type.
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
    /// It changes data, and so awaits durability.
    pub changes: bool,
    /// Bytes of data that it moved, if it succeeded.
    pub bytes: usize,
}

/// Commands of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandType {
    /// Admin queue or I/O queues.
    pub queue: QueueKind,
    /// The namespace; none for an admin command and for a namespace that does not exist.
    pub nsid: Option<u32>,
    /// Its name in the specification; none for an unknown opcode.
    pub name: Option<&'static str>,
    /// Direction of its data.
    pub direction: Direction,
    /// Commands that succeeded.
    pub succeeded: u64,
    /// Commands that failed, by status code type.
    pub failed: [u64; STATUS_TYPES],
    /// Bytes of data that successful commands moved, without what their own dwords carry.
    pub bytes: u64,
    /// Time from when the run lock was asked for until the command completed. Without the network, and without waiting for
    /// the command's data.
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
    /// Commands that failed, by status without its retry bits.
    pub statuses: Vec<(Status, u64)>,
    /// Commands that wait for external engines, queries and programs now.
    pub in_engines: usize,
    /// Commands that wait for a sync of the image now.
    pub awaiting_sync: usize,
}
