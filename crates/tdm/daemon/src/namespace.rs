//! Programs of other PID namespaces.

use std::fs;

use byway_tdm_control::Peer;

/// Whether a program has the number to itself that it has here: locks on the board are held by numbers, which say nothing to programs of
/// another PID namespace.
pub(crate) fn has_our_numbers(peer: Peer) -> bool {
    // One of a namespace beside or above this one has no number here.
    let Ok(status) = fs::read_to_string(format!("/proc/{}/status", peer.pid)) else { return false };
    has_one_number(&status)
}

/// A program of a namespace below has a number in each on the way (proc(5)). A system that does not tell has none below.
fn has_one_number(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_none_or(|numbers| numbers.split_ascii_whitespace().count() == 1)
}

#[cfg(test)]
mod tests {
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
}
