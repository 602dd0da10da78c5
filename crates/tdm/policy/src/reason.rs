//! Why a file is where it is, or is not where it would like to be: each in one sentence, with the numbers that led to it.

use std::fmt;

use crate::budget::Room;
use crate::ceiling::Ceiling;
use crate::level::{FileId, Level};
use crate::order::Order;
use crate::units::{Bytes, Ns};

/// Calls whose slowest hundredth is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Reads.
    Reads,
    /// Writes with the syncs behind them: what a slower write costs, a faster sync may give back.
    Commits,
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reads => "reads",
            Self::Commits => "writes with a sync",
        })
    }
}

/// Why. Times per second are nanoseconds in each second; scores are those for each MiB of room.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// It was opened, and not judged yet.
    New,
    /// It was at that level when the daemon began anew.
    Adopted,
    /// A log that has just begun to sync.
    FastStart {
        /// So many syncs
        syncs: u64,
        /// in that time.
        in_ns: u64,
    },
    /// It saves more than its moves cost.
    Pays {
        /// Over the next lower level, by the lower of both averages.
        saves_ns: f64,
        /// What is wanted.
        needs_ns: f64,
    },
    /// It did, for less than it takes to be believed.
    Settling {
        /// Windows in a row.
        windows: u32,
        /// As many are wanted.
        of: u32,
    },
    /// It would pay if it went on as it did.
    Idle {
        /// It was not used for so long.
        for_ns: u64,
    },
    /// It saves less than its moves would cost.
    TooLittle {
        /// By the lower of both averages.
        saves_ns: f64,
        /// What is wanted.
        needs_ns: f64,
    },
    /// Nothing that it does would be faster.
    NothingToSave,
    /// So much is written between two syncs that logging costs more than syncing.
    LongBetweenSyncs {
        /// Written between two syncs.
        bytes: f64,
        /// Logging these.
        log_ns: f64,
        /// Syncing these.
        sync_ns: f64,
    },
    /// What it saved is long over.
    Cold {
        /// By the higher of both averages.
        saves_ns: f64,
        /// What would have kept it.
        keeps_ns: f64,
    },
    /// Its level costs more than the next lower one.
    CostsMore {
        /// So much more.
        more_ns: f64,
    },
    /// The slowest hundredth of its calls is slower than it would be below.
    SlowTail {
        /// Which calls.
        tail: Tail,
        /// At its level, at least.
        level_ns: f64,
        /// Below, at most.
        lower_ns: f64,
    },
    /// It was slower there, or could not be moved there, and is tried again later.
    BackingOff {
        /// Time left.
        left_ns: u64,
        /// How often that was.
        strikes: u32,
    },
    /// It has not been at its level for long.
    Stay {
        /// Time left.
        left_ns: u64,
    },
    /// It is being written.
    InFlight {
        /// Where it would go.
        to: Level,
    },
    /// It is on its way.
    Moving {
        /// Where it goes.
        to: Level,
    },
    /// All room is taken by files that save more.
    NoRoom {
        /// Which room.
        room: Room,
        /// What it needs.
        needs_bytes: u64,
        /// What is free.
        free_bytes: u64,
        /// What it saves, for each MiB.
        score: f64,
        /// What it would have to save.
        to_beat: f64,
    },
    /// There never is as much room.
    TooLarge {
        /// Which room.
        room: Room,
        /// What it needs.
        needs_bytes: u64,
        /// What one file may have.
        most_bytes: u64,
    },
    /// Others are leaving for it.
    WaitsForRoom {
        /// Which room.
        room: Room,
        /// What it needs.
        needs_bytes: u64,
    },
    /// Enough is being moved.
    MovesAreCapped {
        /// What would be moved.
        bytes: u64,
        /// When it can be.
        wait_ns: u64,
    },
    /// Its room went to another.
    Displaced {
        /// To that one.
        by: FileId,
        /// What this saved, for each MiB.
        score: f64,
        /// What that saves.
        by_score: f64,
    },
    /// Its room went to another, as nobody used it any more.
    Stopped {
        /// To that one.
        by: FileId,
        /// It was not used for so long.
        for_ns: u64,
    },
    /// It needs more room than it could be given.
    Outgrown {
        /// What it needs.
        needs_bytes: u64,
        /// What it has.
        has_bytes: u64,
    },
    /// No higher level is open to it.
    Ceiling(Ceiling),
    /// Somebody said so.
    Ordered(Order),
    /// A rule for its path says so.
    Ruled(Order),
    /// It was taken down, by whoever had to, for what this says.
    TakenDown(&'static str),
    /// A move could not be done.
    MoveFailed {
        /// Where it should have gone.
        to: Level,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Reason::*;
        match *self {
            New => write!(f, "it was opened and not judged yet"),
            Adopted => write!(f, "it was there when the daemon began anew"),
            FastStart { syncs, in_ns } => {
                write!(f, "a log that begins: {syncs} syncs in {}", Ns(in_ns as f64))
            }
            Pays { saves_ns, needs_ns } => {
                write!(
                    f,
                    "it saves {} a second, {} more than its moves cost",
                    Ns(saves_ns),
                    Ns(saves_ns - needs_ns)
                )
            }
            Settling { windows, of } => write!(f, "it paid in {windows} of {of} windows in a row"),
            Idle { for_ns } => write!(f, "nobody has used it for {}", Ns(for_ns as f64)),
            TooLittle { saves_ns, .. } if saves_ns < 0.0 => {
                write!(f, "it would take {} a second more", Ns(-saves_ns))
            }
            TooLittle { saves_ns, needs_ns } => {
                write!(f, "it would save {} a second, and its moves cost {}", Ns(saves_ns), Ns(needs_ns))
            }
            NothingToSave => write!(f, "nothing that it does would be faster"),
            LongBetweenSyncs { bytes, log_ns, sync_ns } => write!(
                f,
                "{} are written between two syncs, and logging them costs {}, a sync {}",
                Bytes(bytes),
                Ns(log_ns),
                Ns(sync_ns)
            ),
            Cold { saves_ns, keeps_ns } => {
                write!(
                    f,
                    "it saved {} a second at most, and {} would have kept it",
                    Ns(saves_ns),
                    Ns(keeps_ns)
                )
            }
            CostsMore { more_ns } => {
                write!(f, "it took {} a second more than it would have below", Ns(more_ns))
            }
            SlowTail { tail, level_ns, lower_ns } => write!(
                f,
                "the slowest hundredth of {tail} took {} or longer, and would have taken {} at most below",
                Ns(level_ns),
                Ns(lower_ns)
            ),
            BackingOff { left_ns, strikes } => {
                write!(f, "it failed there {strikes} times, and is tried again in {}", Ns(left_ns as f64))
            }
            Stay { left_ns } => write!(f, "it has just moved, and stays for {} more", Ns(left_ns as f64)),
            InFlight { to } => write!(f, "it goes to {to} once no write is in flight"),
            Moving { to } => write!(f, "it is on its way to {to}"),
            NoRoom { room, needs_bytes, free_bytes, score, to_beat } => write!(
                f,
                "it needs {} of {room} room and {} are free; it saves {} a second for each MiB, and would have to save {}",
                Bytes(needs_bytes as f64),
                Bytes(free_bytes as f64),
                Ns(score),
                Ns(to_beat)
            ),
            TooLarge { room, needs_bytes, most_bytes } => write!(
                f,
                "it needs {} of {room} room, and a file has {} at most",
                Bytes(needs_bytes as f64),
                Bytes(most_bytes as f64)
            ),
            WaitsForRoom { room, needs_bytes } => {
                write!(f, "others are leaving {} of {room} room for it", Bytes(needs_bytes as f64))
            }
            MovesAreCapped { bytes, wait_ns } => {
                write!(f, "{} can be moved in {}", Bytes(bytes as f64), Ns(wait_ns as f64))
            }
            Displaced { by, score, by_score } => {
                write!(f, "{by} saves {} a second for each MiB, and this saved {}", Ns(by_score), Ns(score))
            }
            Stopped { by, for_ns } => {
                write!(f, "nobody had used it for {}, and {by} wants its room", Ns(for_ns as f64))
            }
            Outgrown { needs_bytes, has_bytes } => write!(
                f,
                "it needs {} of room and has {}",
                Bytes(needs_bytes as f64),
                Bytes(has_bytes as f64)
            ),
            Ceiling(ceiling) => write!(f, "{ceiling}"),
            Ordered(order) => write!(f, "it was {order} by hand"),
            Ruled(order) => write!(f, "files of its path are {order}"),
            TakenDown(why) => write!(f, "{why}"),
            MoveFailed { to } => write!(f, "it could not be moved to {to}"),
        }
    }
}
