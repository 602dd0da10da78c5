//! Detection of stopped processes.

use rustix::fs::{Mode, OFlags, open};

/// Bytes of `/proc/PID/stat` that contain the state.
const LOOK_BYTES: usize = 128;

/// Whether a process is stopped by a signal. A traced process may continue soon, and one without a readable state counts as running.
pub(super) fn is_stopped(pid: i32) -> bool {
    pid > 0 && state(pid) == Some(b'T')
}

/// Its state letter (proc(5)).
fn state(pid: i32) -> Option<u8> {
    let file = open(format!("/proc/{pid}/stat"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut look = [0; LOOK_BYTES];
    let len = rustix::io::read(&file, &mut look).ok()?;
    // The program's name precedes it and may contain brackets and spaces.
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
    fn process_is_stopped_between_sigstop_and_sigcont() {
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
