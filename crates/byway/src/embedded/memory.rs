//! Whether there is memory for a device's engines, checked before its image is touched.

use byway_core::{Error, ErrorKind, Result};
use byway_kv::KvOptions;
use byway_sys::{Shortage, check_headroom, check_machine};

/// Memory of an opening beside cache and memtable: tables of blocks, rings, buffers, stacks.
const OPENING_BYTES: u64 = 64 << 20;

/// What memory is wanted for: it decides what an error advises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryUser {
    /// Opening by a URI, whose options set how much is wanted.
    Opening,
    /// A call that takes no such options, as `check` and `create`.
    WithoutOptions,
}

/// Checks that there is memory for `engines` key-value engines before the image is touched: a later failed allocation would
/// abort the process.
pub(crate) fn check_memory(kv: &KvOptions, engines: u64, user: MemoryUser) -> Result<()> {
    let refused = |shortage| from_shortage(shortage, user);
    // A small machine may open a device by default: what is not used is not taken.
    if kv.most_bytes() > KvOptions::default().most_bytes() {
        check_machine(kv.most_bytes()).map_err(refused)?;
    }
    let wanted_bytes = kv.most_bytes().saturating_mul(engines).saturating_add(OPENING_BYTES);
    check_headroom(wanted_bytes).map_err(refused)
}

fn from_shortage(shortage: Shortage, user: MemoryUser) -> Error {
    let gib = |bytes: u64| bytes as f64 / (1 << 30) as f64;
    let said = match shortage {
        Shortage::Machine { wanted_bytes, total_bytes } if user == MemoryUser::Opening => format!(
            "cache= and memtable= want {:.1} GiB of memory, and this machine has {:.1} GiB",
            gib(wanted_bytes),
            gib(total_bytes)
        ),
        shortage => match user {
            MemoryUser::Opening => format!("{shortage}; a smaller cache= and memtable= need less"),
            MemoryUser::WithoutOptions => {
                format!("{shortage}; end other programs, or raise the memory limit of this one")
            }
        },
    };
    Error::host(ErrorKind::CapacityExceeded, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_of_memory_advises_options_only_to_callers_that_take_them() {
        let message = |user| {
            let cause = std::io::Error::from_raw_os_error(rustix::io::Errno::NOMEM.raw_os_error());
            from_shortage(Shortage::Process { wanted_bytes: 1 << 30, cause }, user).to_string()
        };
        assert!(message(MemoryUser::Opening).contains("a smaller cache= and memtable="));
        let without_options = message(MemoryUser::WithoutOptions);
        assert!(!without_options.contains("cache="), "{without_options}");
        assert!(without_options.contains("raise the memory limit"), "{without_options}");
    }
}
