//! The command that the test controller does not answer until it is aborted.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Condvar, Mutex};

use crate::LONG;

#[derive(Default)]
pub struct Unanswered {
    held: Mutex<Held>,
    came: Condvar,
}

#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    Answer(TcpStream, Vec<u8>),
    Answered,
}

impl Unanswered {
    /// Withholds the answer to a command.
    pub fn keep(&self, stream: TcpStream, answer: Vec<u8>) {
        *self.held.lock().unwrap() = Held::Answer(stream, answer);
        self.came.notify_all();
    }

    /// Sends the withheld answer; `false` if it was sent before.
    ///
    /// An Abort can overtake its command, which comes by another connection: here it waits for that.
    pub fn end(&self) -> std::io::Result<bool> {
        let held = self.held.lock().unwrap();
        let is_to_come = |held: &mut Held| matches!(held, Held::Nothing);
        let (mut held, _) = self.came.wait_timeout_while(held, LONG, is_to_come).unwrap();
        let Held::Answer(mut stream, answer) = std::mem::replace(&mut *held, Held::Answered) else {
            return Ok(false);
        };
        stream.write_all(&answer)?;
        Ok(true)
    }
}
