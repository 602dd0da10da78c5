//! Reasons for a file's level: one sentence each, and a number for the shared file table.

use std::fmt;

macro_rules! whys {
    ($($name:ident = $number:literal, $sentence:literal;)*) => {
        /// Why a file is at its level and no higher.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Why {
            $(#[doc = $sentence] $name = $number,)*
        }

        impl Why {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The reason as a sentence.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => $sentence,)*
                }
            }

            /// Whether programs may write the file through descriptors that `/proc` does not show.
            #[must_use]
            pub const fn is_out_of_sight(self) -> bool {
                matches!(self, Self::Ring | Self::KernelAio | Self::Parted)
            }

            /// The reason of a stored number; [`Why::Unknown`] for an unknown number.
            #[inline]
            #[must_use]
            pub const fn from_number(number: u8) -> Self {
                Self::BY_NUMBER[number as usize]
            }

            /// A table: calls on absorbed files decode by one load.
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
    DaxByOrderAlone = 50, "files are promoted to DAX by order alone";
    AbsorbedFirst = 51, "only an absorbed file is promoted to DAX";
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_reason_numbers_decode_to_unknown() {
        assert_eq!(Why::from_number(255), Why::Unknown);
    }
}
