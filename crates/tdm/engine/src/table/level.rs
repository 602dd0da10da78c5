//! How a file is served, and why not better.

use std::fmt;

use byway_tdm_policy::Level;

macro_rules! whys {
    ($($name:ident = $number:literal, $sentence:literal;)*) => {
        /// Why a file is at its level and at no better one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Why {
            $(#[doc = $sentence] $name = $number,)*
        }

        impl Why {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// In a sentence.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => $sentence,)*
                }
            }

            /// Whether a program may write it that has no descriptor of it which the system tells of.
            #[must_use]
            pub const fn is_out_of_sight(self) -> bool {
                matches!(self, Self::Ring | Self::KernelAio | Self::Parted)
            }

            /// By its number on the board; none that we know is [`Why::Unknown`].
            #[inline]
            #[must_use]
            pub const fn from_number(number: u8) -> Self {
                Self::BY_NUMBER[number as usize]
            }

            /// Calls of absorbed files look at it: one load.
            const BY_NUMBER: [Self; 256] = {
                let mut all = [Self::Unknown; 256];
                $(all[$number] = Self::$name;)*
                all
            };
        }
    };
}

whys! {
    Unknown = 0, "it has not been looked at yet";
    Earned = 1, "it is synced often enough to be worth it";
    TooFewSyncs = 2, "it is not synced often enough to be worth it";
    OtherOwner = 3, "it belongs to another user";
    NoBirthTime = 4, "its file system does not say when it was made, so its inode cannot be told from a later one";
    Direct = 5, "it is open past the page cache (O_DIRECT)";
    SyncOnWrite = 6, "it is open so that every write syncs (O_SYNC, O_DSYNC)";
    Mapped = 7, "a program has mapped it for writing";
    Stdio = 8, "the C library writes it through a stream, which is not seen";
    Ring = 9, "a program that writes it uses io_uring, whose writes are not seen";
    KernelAio = 10, "a program that writes it uses asynchronous I/O of the kernel or the C library, which is not seen";
    HandedOn = 11, "it was handed to another program, which may write it unseen";
    BoardFull = 12, "a program may have it open that found no entry for it on the board";
    NoRoom = 13, "device memory has no room for its log";
    VolatileMemory = 14, "the device's memory does not outlive its power";
    SyncIsCheap = 15, "syncing it below costs no more than absorbing it";
    Unlinked = 16, "it has no name, so nothing could be brought back into it";
    ByHand = 17, "somebody said so";
    NoDaemon = 18, "the daemon does not answer";
    SyncFailed = 19, "a sync below failed, and every later one fails with it";
    LongWrites = 20, "it is synced seldom for how much is written, so that logging costs more than syncing";
    Excluded = 21, "a rule leaves it out";
    FlagsChanged = 22, "a program changed whether it appends to it";
    Cloned = 23, "blocks of another file were made part of it";
    BareCall = 24, "a program changes it by system calls that are not the C library's";
    Renamed = 25, "it got another name, under which its log would not be found";
    Slower = 26, "absorbing it cost more than syncing it below";
    Displaced = 27, "its room went to files that save more by it";
    Parted = 29, "threads of a program that writes it have descriptors of their own, whose numbers say nothing to the others";
    OtherProcesses = 30, "its programs are in another PID namespace than the daemon, where a lock's holder goes by another number";
    OtherPaths = 31, "its path leads somewhere else where the daemon is, as in another mount namespace, so its log would not be found";
    Sandboxed = 32, "a program that writes it has its system calls filtered, which may leave this library none of its own";
    Mounted = 28, "it is in a FUSE mount, whose own process serves it, or nobody does";
    Outgrown = 40, "it outgrew the room that it had in device memory";
    OpenElsewhere = 41, "it is open more than once, or was opened by somebody else";
    NoLease = 42, "its file system does not say who else opens it, or reserves no room";
    Busy = 43, "calls of it were under way all the time";
    ReadUnseen = 44, "a program reads it in a way that is not seen";
    Closed = 45, "whoever had it open has closed it";
    CannotOverwrite = 46, "it is open to append, and this system writes such a file nowhere else";
    WentBelow = 47, "a program did something with it that only the kernel can";
    LevelIsHome = 48, "device memory is its home";
    StandsStill = 49, "somebody stands still inside of a call of it";
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

/// A file's level and the reason for it, in one word of the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// How it is served.
    pub level: Level,
    /// Why.
    pub why: Why,
    /// It is not to be promoted as long as any process has it: something unseen may write it.
    pub is_barred: bool,
}

impl Standing {
    /// Of a file that nobody has looked at.
    pub const NEW: Self = Self { level: Level::Pass, why: Why::Unknown, is_barred: false };

    pub(super) const fn to_word(self) -> u64 {
        let level = match self.level {
            Level::Pass => 0,
            Level::Absorb => 1,
            Level::Dax => 2,
        };
        level | (self.why as u64) << 8 | (self.is_barred as u64) << 16
    }

    /// All that most calls are to know.
    #[inline]
    pub(super) const fn level_of(word: u64) -> Level {
        match word & 0xff {
            1 => Level::Absorb,
            2 => Level::Dax,
            _ => Level::Pass,
        }
    }

    #[inline]
    pub(super) const fn from_word(word: u64) -> Self {
        Self {
            level: Self::level_of(word),
            why: Why::from_number((word >> 8) as u8),
            is_barred: word >> 16 & 1 == 1,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_standing_is_one_word_and_back() {
        for level in [Level::Pass, Level::Absorb, Level::Dax] {
            for why in Why::ALL {
                for is_barred in [false, true] {
                    let standing = Standing { level, why: *why, is_barred };
                    assert_eq!(Standing::from_word(standing.to_word()), standing);
                }
            }
        }
    }

    #[test]
    fn a_new_file_is_a_word_of_zeroes() {
        assert_eq!(Standing::NEW.to_word(), 0);
    }

    #[test]
    fn numbers_that_no_reason_has_are_unknown() {
        assert_eq!(Why::from_number(255), Why::Unknown);
    }
}
