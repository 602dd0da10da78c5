//! Programs in other PID namespaces.

use std::fs;
use std::path::Path;

use byway_tdm_engine::control::Peer;

/// Whether a program has the same process number in its own PID namespace. Locks in the shared file table name their holders by number.
pub(crate) fn has_our_numbers(peer: Peer) -> bool {
    // Not visible here: in another namespace.
    let Ok(status) = fs::read_to_string(format!("/proc/{}/status", peer.pid)) else { return false };
    has_one_number(&status)
}

/// Whether a program has ended meanwhile.
pub(crate) fn is_gone(peer: Peer) -> bool {
    peer.pid != 0 && !Path::new(&format!("/proc/{}", peer.pid)).exists()
}

/// A program in a nested namespace has several numbers (proc(5)). Old systems do not list them and count as having one.
fn has_one_number(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_none_or(|numbers| numbers.split_ascii_whitespace().count() == 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn program_in_a_nested_namespace_has_several_numbers() {
        assert!(has_one_number("Name:\tx\nNSpid:\t71\n") && has_one_number("Name:\tx\n"));
        assert!(!has_one_number("Name:\tx\nNSpid:\t71\t1\n"));
    }

    #[test]
    fn own_process_has_one_number() {
        let me = Peer { uid: 0, pid: std::process::id() as i32 };
        assert!(has_our_numbers(me));
        assert!(!has_our_numbers(Peer { pid: 0, ..me }));
    }

    #[test]
    fn ended_program_is_not_taken_for_another_namespace() {
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let peer = |pid: u32| Peer { uid: 0, pid: pid as i32 };
        assert!(is_gone(peer(ended.id())));
        assert!(!is_gone(peer(0)) && !is_gone(peer(std::process::id())));
    }
}
