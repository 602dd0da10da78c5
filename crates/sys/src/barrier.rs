//! A barrier in every thread of this process, or of all processes that want it, by the one that needs it: the others order their accesses by the
//! compiler alone.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};

use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};

/// Has every thread of the process that runs now pass a full memory barrier, and passes one itself (`membarrier(2)`, private
/// expedited): a thread that wrote before a point of its program is seen to have, or what it reads behind that point
/// is at least what the caller wrote before. Some microseconds, and an interrupt for every processor that runs the process.
///
/// # Errors
/// The system has none (Linux has had it since 4.14), or a filter of system calls keeps it away.
pub fn everywhere() -> io::Result<()> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    // Miri knows nothing of it.
    let register = || !cfg!(miri) && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
    if !*REGISTERED.get_or_init(register) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(membarrier(MembarrierCommand::PrivateExpedited)?)
}

/// Has this process, and its children, be among those whose threads [`for_registered`] has pass a barrier, whichever process calls that.
///
/// # Errors
/// The system has none (Linux has had it since 4.16), or a filter of system calls keeps it away.
pub fn register() -> io::Result<()> {
    Ok(membarrier(MembarrierCommand::RegisterGlobalExpedited)?)
}

/// Has every thread of each registered process that runs now pass a full memory barrier, and passes one itself (`membarrier(2)`, global
/// expedited). Where the system has none, no process is registered.
///
/// # Errors
/// A filter of system calls keeps it away: nothing is known of the others.
pub fn for_registered() -> io::Result<()> {
    fence(Ordering::SeqCst);
    match membarrier(MembarrierCommand::GlobalExpedited) {
        Ok(()) | Err(Errno::NOSYS | Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed, compiler_fence};

    use super::*;

    /// Each of two threads writes its word and looks at the other's. Without a barrier both may find zeroes.
    #[test]
    fn asymmetric_barrier_orders_stores_of_two_threads() {
        const ROUNDS: u32 = 2000;
        if everywhere().is_err() {
            return;
        }
        let (light, heavy) = (AtomicU32::new(0), AtomicU32::new(0));
        let turns = [(); 2].map(|()| std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            let lightly = scope.spawn(|| {
                let look = |round| {
                    turns[0].wait();
                    light.store(round, Relaxed);
                    compiler_fence(std::sync::atomic::Ordering::SeqCst);
                    let seen = heavy.load(Relaxed);
                    turns[1].wait();
                    seen
                };
                (1..=ROUNDS).map(look).collect::<Vec<_>>()
            });
            let look = |round| {
                turns[0].wait();
                heavy.store(round, Relaxed);
                assert!(everywhere().is_ok());
                let seen = light.load(Relaxed);
                turns[1].wait();
                seen
            };
            let heavily: Vec<_> = (1..=ROUNDS).map(look).collect();
            let lightly = lightly.join();
            let mut rounds = lightly.iter().flatten().zip(&heavily).zip(1..);
            assert!(rounds.all(|((one, other), round)| *one == round || *other == round));
        });
    }
}
