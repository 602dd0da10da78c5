//! Processes that were stopped.

use rustix::fs::{Mode, OFlags, open};

/// Of what the system says of a process, so much has its state.
const LOOK_BYTES: usize = 128;

/// Whether a process was stopped by a signal, and does nothing until it is told to go on. One that a debugger holds may go on in a moment, and
/// one of which the system does not tell counts as going.
pub(super) fn is_stopped(pid: i32) -> bool {
    pid > 0 && state(pid) == Some(b'T')
}

/// As a letter (proc(5)).
fn state(pid: i32) -> Option<u8> {
    let file = open(format!("/proc/{pid}/stat"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut look = [0; LOOK_BYTES];
    let len = rustix::io::read(&file, &mut look).ok()?;
    // A program's name stands before it, and may have brackets and spaces of its own.
    let behind_name = look[..len].iter().rposition(|byte| *byte == b')')? + 2;
    look[..len].get(behind_name).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn a_process_is_stopped_between_the_signal_that_stops_it_and_the_one_that_has_it_go_on() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        assert!(!is_stopped(pid) && !is_stopped(0));
        for (signal, stopped) in [(Signal::STOP, true), (Signal::CONT, false)] {
            kill_process(Pid::from_child(&child), signal).unwrap();
            let end = Instant::now() + Duration::from_secs(20);
            while is_stopped(pid) != stopped {
                assert!(Instant::now() < end, "{:?}", state(pid));
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_stopped(pid));
    }
}
