//! Reasons for a file's level: those of the shared file table, each with its number and a sentence, and the policy's with their figures.

use std::fmt;

use crate::level::{FileId, Level};
use crate::order::Order;
use crate::room::Room;
use crate::units::{Bytes, Ns};

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

macro_rules! reasons {
    (
        stored { $($stored:ident = $number:literal, $sentence:literal;)* }
        figures { $(
            $(#[$doc:meta])*
            $name:ident $({ $($(#[$figure_doc:meta])* $figure:ident: $type:ty,)* })? $(($inner:ident: $inner_type:ty))?
                => $text:literal $(, $argument:expr)*;
        )* }
    ) => {
        /// Why a file is at its level and no higher. `saves_ns`, `needs_ns`, `keeps_ns` and `more_ns` are ns per second; scores are ns per second
        /// per MiB; other times are ns.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum Reason {
            $(#[doc = $sentence] $stored,)*
            $($(#[$doc])* $name $({ $($(#[$figure_doc])* $figure: $type,)* })? $(($inner_type))?,)*
        }

        impl Reason {
            /// All reasons of the shared file table.
            pub const STORED: &[Self] = &[$(Self::$stored),*];

            /// Whether the shared file table holds it as it is.
            #[must_use]
            pub const fn is_stored(self) -> bool {
                matches!(self, $(Self::$stored)|*)
            }

            /// Number of [`Reason::stored`] in the shared file table and in messages.
            #[must_use]
            pub const fn number(self) -> u8 {
                match self {
                    $(Self::$stored => $number,)*
                    of_policy => of_policy.stored().number(),
                }
            }

            /// The reason of a number; [`Reason::Unknown`] for an unknown number.
            #[inline]
            #[must_use]
            pub const fn from_number(number: u8) -> Self {
                match number {
                    $($number => Self::$stored,)*
                    _ => Self::Unknown,
                }
            }

            /// [`Reason::stored`] as a sentence.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$stored => $sentence,)*
                    of_policy => of_policy.stored().sentence(),
                }
            }
        }

        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$name $({ $($figure),* })? $(($inner))? => write!(f, $text $(, $argument)*),)*
                    stored => f.write_str(stored.sentence()),
                }
            }
        }
    };
}

reasons! {
    stored {
        Unknown = 0, "it has not been looked at yet";
        Earned = 1, "it is synced often enough to be worth it";
        TooFewSyncs = 2, "it is not synced often enough to be worth it";
        OtherOwner = 3, "it belongs to another user";
        NoBirthTime = 4, "its file system does not say when it was made, so its inode cannot be distinguished from a later one";
        Direct = 5, "it is open past the page cache (O_DIRECT)";
        SyncOnWrite = 6, "it is open so that every write syncs (O_SYNC, O_DSYNC)";
        Mapped = 7, "a program has mapped it for writing";
        Stdio = 8, "the C library writes it through a stream, which is not seen";
        Ring = 9, "a program that writes it uses io_uring, whose writes are not seen";
        KernelAio = 10, "a program that writes it uses asynchronous I/O of the kernel or the C library, which is not seen";
        HandedOn = 11, "it was handed to another program, which may write it unseen";
        TableFull = 12, "the shared file table had no entry left for a program that may have it open";
        NoRoom = 13, "device memory has no room for its log";
        VolatileMemory = 14, "the device's memory loses its data when power is lost";
        SyncIsCheap = 15, "syncing it below costs no more than absorbing it";
        Unlinked = 16, "it has no name, so nothing could be brought back into it";
        ByHand = 17, "a user ordered it";
        NoDaemon = 18, "the daemon does not answer";
        SyncFailed = 19, "a sync to the file system failed, so every later sync fails too";
        LongWrites = 20, "it is synced seldom for how much is written, so that logging costs more than syncing";
        Excluded = 21, "a rule leaves it out";
        FlagsChanged = 22, "a program changed whether it appends to it";
        Cloned = 23, "blocks of another file were cloned into it (FICLONE, FICLONERANGE)";
        BareCall = 24, "a program changes it by system calls that are not the C library's";
        Renamed = 25, "it got another name, under which its log would not be found";
        Slower = 26, "absorbing it cost more than syncing it below";
        Displaced = 27, "its room went to files that save more by it";
        Parted = 29, "threads of a program that writes it have separate file descriptor tables, so a descriptor number does not identify the file";
        OtherProcesses = 30, "its programs are in another PID namespace than the daemon, where a lock's holder goes by another number";
        OtherPaths = 31, "its path leads somewhere else where the daemon is, as in another mount namespace, so its log would not be found";
        Sandboxed = 32, "a program that writes it filters its system calls (seccomp), which may block those of this library";
        Mounted = 28, "it is in a FUSE mount, whose own process may serve it";
        Outgrown = 40, "it outgrew the room that it had in device memory";
        OpenElsewhere = 41, "it is open more than once, or was opened by another program";
        NoLease = 42, "its file system does not say who else opens it, or reserves no room";
        Busy = 43, "calls of it were under way all the time";
        ReadUnseen = 44, "a program reads it in a way that is not seen";
        Closed = 45, "its program has closed it";
        CannotOverwrite = 46, "it is open with O_APPEND, and writing such a file at an offset needs Linux 6.9 (RWF_NOAPPEND)";
        NeedsKernel = 47, "a program made a call on it that only the kernel can serve";
        InDeviceMemory = 48, "it is DAX-resident";
        HolderStopped = 49, "a thread was stopped inside a call on it";
        DaxByPinAlone = 50, "only files pinned by hand or by a rule are promoted to DAX (byway tdm serve --promote pinned)";
        AbsorbedFirst = 51, "only an absorbed file is promoted to DAX";
    }
    figures {
        /// Opened, and not evaluated yet.
        New => "it was opened and not judged yet";
        /// At that level since the daemon's start.
        Adopted => "it was there when the daemon began anew";
        /// A new log with a burst of syncs.
        FastStart {
            /// Syncs counted.
            syncs: u64,
            /// Time in which they were counted.
            in_ns: u64,
        } => "a log that begins: {syncs} syncs in {}", Ns(in_ns as f64);
        /// It saves more than its moves cost.
        Pays {
            /// Saving over the next lower level, by the lower of both averages.
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
        OthersSaveMore {
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
        DisplacedBy {
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
        NeedsMore {
            /// Bytes needed.
            needs_bytes: u64,
            /// Bytes it has.
            has_bytes: u64,
        } => "it needs {} of room and has {}", Bytes(needs_bytes as f64), Bytes(has_bytes as f64);
        /// Ordered by a user.
        Ordered(order: Order) => "it was {order} by hand";
        /// Ordered by a rule.
        Ruled(order: Order) => "files of its path are {order}";
        /// A move failed.
        MoveFailed {
            /// Level of the move.
            to: Level,
        } => "it could not be moved to {to}";
    }
}

impl Reason {
    /// The nearest reason of the shared file table, without figures; [`Reason::TooFewSyncs`] if there is none.
    #[must_use]
    pub const fn stored(self) -> Self {
        match self {
            Self::CostsMore { .. } | Self::SlowTail { .. } => Self::Slower,
            Self::LongBetweenSyncs { .. } => Self::LongWrites,
            Self::DisplacedBy { .. } | Self::Stopped { .. } => Self::Displaced,
            Self::Ordered(_) => Self::ByHand,
            Self::Ruled(_) => Self::Excluded,
            Self::OthersSaveMore { .. }
            | Self::TooLarge { .. }
            | Self::WaitsForRoom { .. }
            | Self::NeedsMore { .. } => Self::NoRoom,
            stored if stored.is_stored() => stored,
            _ => Self::TooFewSyncs,
        }
    }

    /// Whether programs may write the file through descriptors that `/proc` does not show.
    #[must_use]
    pub const fn is_out_of_sight(self) -> bool {
        matches!(self, Self::Ring | Self::KernelAio | Self::Parted)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_reason_numbers_decode_to_unknown() {
        assert_eq!(Reason::from_number(255), Reason::Unknown);
    }

    #[test]
    fn stored_reasons_decode_to_what_was_encoded() {
        for reason in Reason::STORED {
            assert_eq!(Reason::from_number(reason.number()), *reason);
        }
    }
}
