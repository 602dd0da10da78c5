//! Answers to I/O commands that a controller withholds until it is to give them.

use std::io::{self, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;

/// Open at first: every answer goes at once.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_shut: bool,
    kept: Vec<(TcpStream, Vec<u8>)>,
    unanswered: usize,
    most_unanswered: usize,
}

impl Gate {
    /// Keeps answers back from here on, and counts anew.
    pub fn shut(&self) {
        *self.state.lock().unwrap() = State { is_shut: true, ..State::default() };
    }

    /// Gives the answers that were kept, in order, and every later one at once.
    pub fn open(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_shut = false;
        state.unanswered = 0;
        // A host that is gone takes no answers.
        state.kept.drain(..).for_each(|(mut stream, out)| drop(stream.write_all(&out)));
    }

    /// An I/O command came.
    pub fn note_command(&self) {
        let mut state = self.state.lock().unwrap();
        state.unanswered += 1;
        state.most_unanswered = state.most_unanswered.max(state.unanswered);
    }

    /// Gives an answer, or keeps it.
    pub fn answer(&self, stream: &mut TcpStream, out: Vec<u8>) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        if state.is_shut {
            state.kept.push((stream.try_clone()?, out));
            return Ok(());
        }
        state.unanswered = state.unanswered.saturating_sub(1);
        stream.write_all(&out)
    }

    /// Commands that have no answer yet.
    pub fn unanswered(&self) -> usize {
        self.state.lock().unwrap().unanswered
    }

    /// The most that there were at once.
    pub fn most_unanswered(&self) -> usize {
        self.state.lock().unwrap().most_unanswered
    }
}
