//! The time between two looks.

use std::time::{Duration, Instant};

use byway_console::terminal::Interrupt;

use super::{Key, Screen};

/// How often a wait is looked up from.
const LOOK: Duration = Duration::from_millis(50);

/// Waits so long; false where the work is to end.
pub fn wait(time: Duration, interrupt: &Interrupt, screen: Option<&Screen>) -> bool {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        if interrupt.check().is_err() {
            return false;
        }
        let look = left.min(LOOK);
        match screen {
            Some(screen) if screen.key_within(look) == Key::Quit => return false,
            Some(_) => {}
            None => std::thread::sleep(look),
        }
    }
    true
}
