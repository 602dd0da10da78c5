//! Memory checks before an operation that cannot be undone halfway: a failed allocation would abort the process.

use std::io;
use std::mem::MaybeUninit;

use crate::exclusive::ExclusiveMapping;

/// Why there is not that much memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Shortage {
    /// More than the machine has, swap included.
    #[error("this machine has {total_bytes} bytes of memory, and {wanted_bytes} are wanted")]
    Machine {
        /// Requested bytes, in all.
        wanted_bytes: u64,
        /// Memory and swap of the machine.
        total_bytes: u64,
    },
    /// More than the system gives this process now: its address space is limited, or memory is short.
    #[error("this process cannot have {wanted_bytes} bytes of memory more: {cause}")]
    Process {
        /// Requested bytes, beyond what the process has.
        wanted_bytes: u64,
        /// What the system said.
        cause: io::Error,
    },
}

/// Whether this machine has that much memory at all, swap included.
///
/// # Errors
/// [`Shortage::Machine`].
pub fn check_machine(wanted_bytes: u64) -> Result<(), Shortage> {
    match machine_bytes().filter(|total| wanted_bytes > *total) {
        Some(total_bytes) => Err(Shortage::Machine { wanted_bytes, total_bytes }),
        None => Ok(()),
    }
}

/// Whether this process has room for that much memory more, on top of what it has: its address space may be limited
/// (`ulimit -v`). None is taken.
///
/// # Errors
/// [`Shortage::Process`].
pub fn check_headroom(wanted_bytes: u64) -> Result<(), Shortage> {
    let len = usize::try_from(wanted_bytes).unwrap_or(usize::MAX);
    // Mapped, not touched, and unmapped.
    let tried = ExclusiveMapping::anonymous(len.max(1)).map(drop);
    tried.map_err(|cause| Shortage::Process { wanted_bytes, cause })
}

/// Memory and swap of this machine.
fn machine_bytes() -> Option<u64> {
    let mut about = MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the system fills one such structure, of which any bytes are a valid value.
    let about = unsafe { (libc::sysinfo(about.as_mut_ptr()) == 0).then(|| about.assume_init()) }?;
    Some((about.totalram + about.totalswap).saturating_mul(about.mem_unit.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_beyond_the_machine_is_refused_and_a_page_is_there() {
        for enough in [0, 4096] {
            assert!(check_headroom(enough).is_ok() && check_machine(enough).is_ok());
        }
        for wanted in [1 << 60, u64::MAX] {
            assert!(matches!(check_machine(wanted), Err(Shortage::Machine { .. })));
            assert!(matches!(check_headroom(wanted), Err(Shortage::Process { .. })));
        }
    }
}
