//! When a controller that was lost is known to have ended.
//!
//! *A witness says so.* Another portal of the same subsystem that has said before that it has the controller, and says now that
//! it has it no more. One that never had it says nothing by that: it may be another machine's, which knows its own alone. Nor does
//! one that was itself lost and found since.
//!
//! *Else its time is over*: as long as it may take a controller to miss its host, and to end what it has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::Deadline;
use byway_fabrics::ControllerId;

use super::standing::{PathPlace, Paths, Standing};
use crate::attach::has_controller;

/// The first pause between two questions; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How long a witness has to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// How long a controller is waited for that does not miss its host: none is used that says so.
const ENDS_WITHIN: Duration = Duration::from_secs(600);

/// A controller that was lost.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    paths: Arc<Paths>,
    path: usize,
    generation: u64,
    controller: ControllerId,
    ends_within: Duration,
}

/// What is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Ended,
    Lives,
    Nothing,
}

impl Fence {
    pub fn new(place: &PathPlace, lost: &Standing, ends_within: Option<Duration>) -> Self {
        Self {
            paths: Arc::clone(&place.paths),
            path: place.index,
            generation: lost.generation,
            controller: lost.controller,
            ends_within: ends_within.unwrap_or(ENDS_WITHIN),
        }
    }

    /// Finds out in a thread of its own: the keeper looks for another controller meanwhile.
    pub fn begin(self) {
        let fence = self.clone();
        if std::thread::Builder::new().name("byway-fence".into()).spawn(move || fence.find_out()).is_err() {
            self.find_out();
        }
    }

    fn find_out(&self) {
        let (mut since, mut pause) = (Instant::now(), FIRST_PAUSE);
        while !self.paths.is_over() {
            match self.ask() {
                Known::Ended => break,
                Known::Lives => since = Instant::now(),
                Known::Nothing if since.elapsed() >= self.ends_within => break,
                Known::Nothing => {}
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        self.paths.settle(self.path, self.generation);
    }

    fn ask(&self) -> Known {
        let standing = self.paths.that_stand();
        let same_name = |(_, other): &&(usize, Standing)| other.controller == self.controller;
        if let Some((path, _)) = standing.iter().find(same_name) {
            // No two controllers of a portal have one number. Of another's, a question would be answered for the wrong one.
            return if *path == self.path { Known::Ended } else { Known::Nothing };
        }
        let asked = standing.iter().filter(|(path, _)| *path != self.path).map(|other| self.ask_one(other));
        asked.fold(Known::Nothing, |known, said| match (known, said) {
            (Known::Ended, _) | (_, Known::Ended) => Known::Ended,
            (Known::Lives, _) | (_, Known::Lives) => Known::Lives,
            _ => Known::Nothing,
        })
    }

    fn ask_one(&self, (witness, before): &(usize, Standing)) -> Known {
        let of = (self.path, self.generation);
        let peer = self.paths.peer(*witness);
        match has_controller(peer, self.controller, Deadline::after(ANSWERS_WITHIN)) {
            Ok(true) => {
                self.paths.note_known((*witness, before.generation), of);
                Known::Lives
            }
            // Asked of whoever stands there still.
            Ok(false) if before.knows(of) && self.paths.stands(*witness, before.generation) => Known::Ended,
            _ => Known::Nothing,
        }
    }

    /// Has the portals see each other's controllers while they live: that of a path which was found, and those that stand.
    pub fn acquaint(paths: &Arc<Paths>, found: usize) {
        let paths = Arc::clone(paths);
        let acquaint = move || {
            let standing = paths.that_stand();
            let Some((_, this)) = standing.iter().find(|(path, _)| *path == found) else { return };
            for (path, other) in standing.iter().filter(|(path, _)| *path != found) {
                introduce(&paths, (found, this), (*path, other));
                introduce(&paths, (*path, other), (found, this));
            }
        };
        // Without it time tells, later.
        let _ = std::thread::Builder::new().name("byway-witness".into()).spawn(acquaint);
    }
}

/// Asks whoever is at the other end of one path for the controller of another.
fn introduce(paths: &Paths, (witness, at): (usize, &Standing), (of, standing): (usize, &Standing)) {
    let answered = has_controller(paths.peer(witness), standing.controller, Deadline::after(ANSWERS_WITHIN));
    if at.controller != standing.controller && matches!(answered, Ok(true)) {
        paths.note_known((witness, at.generation), (of, standing.generation));
    }
}
