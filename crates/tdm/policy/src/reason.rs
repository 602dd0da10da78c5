//! Reasons of the policy with their figures, one sentence each.

use std::fmt;

use crate::budget::Room;
use crate::cap::Cap;
use crate::level::{FileId, Level};
use crate::order::Order;
use crate::units::{Bytes, Ns};
use crate::why::Why;

/// Calls whose 99th percentile is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Reads.
    Reads,
    /// Writes with the syncs that follow: a faster sync may outweigh a slower write.
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

/// Of each reason, what it says with its figures.
macro_rules! reasons {
    ($(
        $(#[$doc:meta])*
        $name:ident $({ $($(#[$figure_doc:meta])* $figure:ident: $type:ty,)* })? $(($inner:ident: $inner_type:ty))?
            => $sentence:literal $(, $argument:expr)*;
    )*) => {
        /// A reason. Times are in ns of each second, scores in ns for each MiB.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum Reason {
            $($(#[$doc])* $name $({ $($(#[$figure_doc])* $figure: $type,)* })? $(($inner_type))?,)*
        }

        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$name $({ $($figure),* })? $(($inner))? => write!(f, $sentence $(, $argument)*),)*
                }
            }
        }
    };
}

reasons! {
    /// Opened, and not evaluated yet.
    New => "it was opened and not judged yet";
    /// At that level since the daemon's start.
    Adopted => "it was there when the daemon began anew";
    /// A new log with a burst of syncs.
    FastStart {
        /// Syncs,
        syncs: u64,
        /// in this time.
        in_ns: u64,
    } => "a log that begins: {syncs} syncs in {}", Ns(in_ns as f64);
    /// It saves more than its moves cost.
    Pays {
        /// Over the next lower level, by the lower of both averages.
        saves_ns: f64,
        /// Saving needed.
        needs_ns: f64,
    } => "it saves {} a second, {} more than its moves cost", Ns(saves_ns), Ns(saves_ns - needs_ns);
    /// It pays, but not for long enough yet.
    Settling {
        /// Windows in a row.
        windows: u32,
        /// Windows needed.
        of: u32,
    } => "it paid in {windows} of {of} windows in a row";
    /// It would pay, but is not in use.
    Idle {
        /// Nanoseconds since its last use.
        for_ns: u64,
    } => "no program has used it for {}", Ns(for_ns as f64);
    /// It saves less than its moves would cost.
    TooLittle {
        /// By the lower of both averages.
        saves_ns: f64,
        /// Saving needed.
        needs_ns: f64,
    } => "it would {}", Saving { saves_ns, needs_ns };
    /// No other level is faster.
    NothingToSave => "nothing that it does would be faster";
    /// It writes so much between two syncs that logging costs more than a real sync.
    LongBetweenSyncs {
        /// Bytes between two syncs.
        bytes: f64,
        /// Time to log them.
        log_ns: f64,
        /// Time of a real sync.
        sync_ns: f64,
    } => "{} are written between two syncs, and logging them costs {}, a sync {}",
        Bytes(bytes), Ns(log_ns), Ns(sync_ns);
    /// It no longer saves enough.
    Cold {
        /// By the higher of both averages.
        saves_ns: f64,
        /// Saving that would keep it.
        keeps_ns: f64,
    } => "it saved {} a second at most, and {} would have kept it", Ns(saves_ns), Ns(keeps_ns);
    /// Its level costs more than the one below.
    CostsMore {
        /// Additional cost.
        more_ns: f64,
    } => "it took {} a second more than it would have below", Ns(more_ns);
    /// The 99th percentile of its calls is worse than below.
    SlowTail {
        /// The calls.
        tail: Tail,
        /// Lower bound at its level.
        level_ns: f64,
        /// Upper bound below.
        lower_ns: f64,
    } => "the slowest hundredth of {tail} took {} or longer, and would have taken {} at most below",
        Ns(level_ns), Ns(lower_ns);
    /// Backing off, after a loss or a failed move.
    BackingOff {
        /// Time left.
        left_ns: u64,
        /// Losses and failures.
        strikes: u32,
    } => "it failed there {strikes} times, and is tried again in {}", Ns(left_ns as f64);
    /// Moved recently.
    Stay {
        /// Time left.
        left_ns: u64,
    } => "it has just moved, and stays for {} more", Ns(left_ns as f64);
    /// Being written.
    InFlight {
        /// Next level.
        to: Level,
    } => "it goes to {to} once no write is in flight";
    /// Being moved.
    Moving {
        /// Next level.
        to: Level,
    } => "it is on its way to {to}";
    /// Device memory is full of files that save more.
    NoRoom {
        /// Capacity.
        room: Room,
        /// Bytes needed.
        needs_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
        /// Its score.
        score: f64,
        /// Score needed.
        to_beat: f64,
    } => "it needs {} of {room} room and {} are free; it saves {} a second for each MiB, and would have to save {}",
        Bytes(needs_bytes as f64), Bytes(free_bytes as f64), Ns(score), Ns(to_beat);
    /// Larger than the capacity allows.
    TooLarge {
        /// Capacity.
        room: Room,
        /// Bytes needed.
        needs_bytes: u64,
        /// Bytes that one file may have.
        most_bytes: u64,
    } => "it needs {} of {room} room, and a file has {} at most", Bytes(needs_bytes as f64), Bytes(most_bytes as f64);
    /// Waiting for displaced files to leave.
    WaitsForRoom {
        /// Capacity.
        room: Room,
        /// Bytes needed.
        needs_bytes: u64,
    } => "others are leaving {} of {room} room for it", Bytes(needs_bytes as f64);
    /// Moves are capped.
    MovesAreCapped {
        /// Bytes to be moved.
        bytes: u64,
        /// Wait in ns.
        wait_ns: u64,
    } => "{} can be moved in {}", Bytes(bytes as f64), Ns(wait_ns as f64);
    /// Displaced by another file.
    Displaced {
        /// The other file.
        by: FileId,
        /// Its score.
        score: f64,
        /// The other file's score.
        by_score: f64,
    } => "{by} saves {} a second for each MiB, and this saved {}", Ns(by_score), Ns(score);
    /// Displaced while not in use.
    Stopped {
        /// The other file.
        by: FileId,
        /// Nanoseconds since its last use.
        for_ns: u64,
    } => "no program had used it for {}, and {by} wants its room", Ns(for_ns as f64);
    /// It needs more bytes than it can have.
    Outgrown {
        /// Bytes needed.
        needs_bytes: u64,
        /// Bytes it has.
        has_bytes: u64,
    } => "it needs {} of room and has {}", Bytes(needs_bytes as f64), Bytes(has_bytes as f64);
    /// Capped.
    Cap(cap: Cap) => "{cap}";
    /// Ordered by a user.
    Ordered(order: Order) => "it was {order} by hand";
    /// Ordered by a rule.
    Ruled(order: Order) => "files of its path are {order}";
    /// Demoted by the daemon or a program, for this reason.
    TakenDown(why: Why) => "{why}";
    /// A move failed.
    MoveFailed {
        /// Level of the move.
        to: Level,
    } => "it could not be moved to {to}";
}

/// What a level would save, beside the cost of the moves; or what it would cost.
struct Saving {
    saves_ns: f64,
    needs_ns: f64,
}

impl fmt::Display for Saving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { saves_ns, needs_ns } = *self;
        match saves_ns < 0.0 {
            true => write!(f, "take {} a second more", Ns(-saves_ns)),
            false => write!(f, "save {} a second, and its moves cost {}", Ns(saves_ns), Ns(needs_ns)),
        }
    }
}

impl Reason {
    /// The reason without its figures, as the shared file table has it.
    #[must_use]
    pub const fn why(self) -> Why {
        match self {
            Self::CostsMore { .. } | Self::SlowTail { .. } => Why::Slower,
            Self::LongBetweenSyncs { .. } => Why::LongWrites,
            Self::Displaced { .. } | Self::Stopped { .. } => Why::Displaced,
            Self::Ordered(_) => Why::ByHand,
            Self::Ruled(_) => Why::Excluded,
            Self::NoRoom { .. }
            | Self::TooLarge { .. }
            | Self::WaitsForRoom { .. }
            | Self::Outgrown { .. } => Why::NoRoom,
            _ => Why::TooFewSyncs,
        }
    }
}
