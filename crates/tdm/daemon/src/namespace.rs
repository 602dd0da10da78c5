//! Programs of other PID namespaces.

use std::fs;
use std::path::Path;

use byway_tdm_engine::control::Peer;

/// Whether a program has the number to itself that it has here: locks on the board are held by numbers, which say nothing to programs of
/// another PID namespace.
pub(crate) fn has_our_numbers(peer: Peer) -> bool {
    // One of a namespace beside or above this one has no number here.
    let Ok(status) = fs::read_to_string(format!("/proc/{}/status", peer.pid)) else { return false };
    has_one_number(&status)
}

/// Whether a program that had a number here has ended: nobody is turned away by that.
pub(crate) fn is_gone(peer: Peer) -> bool {
    peer.pid != 0 && !Path::new(&format!("/proc/{}", peer.pid)).exists()
}

/// A program of a namespace below has a number in each on the way (proc(5)). A system that does not tell has none below.
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
    fn a_program_of_a_namespace_below_has_several_numbers() {
        assert!(has_one_number("Name:\tx\nNSpid:\t71\n") && has_one_number("Name:\tx\n"));
        assert!(!has_one_number("Name:\tx\nNSpid:\t71\t1\n"));
    }

    #[test]
    fn this_program_has_the_number_that_it_has_here() {
        let me = Peer { uid: 0, pid: std::process::id() as i32 };
        assert!(has_our_numbers(me));
        assert!(!has_our_numbers(Peer { pid: 0, ..me }));
    }

    #[test]
    fn a_program_that_has_ended_is_not_taken_for_one_of_another_namespace() {
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let peer = |pid: u32| Peer { uid: 0, pid: pid as i32 };
        assert!(is_gone(peer(ended.id())));
        assert!(!is_gone(peer(0)) && !is_gone(peer(std::process::id())));
    }
}
