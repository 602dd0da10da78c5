//! When a lost controller is known to have ended.
//!
//! *By a witness*: another portal of the same subsystem that reported the controller before, and no longer does. A portal that
//! never reported it proves nothing: another machine's knows only its own controllers. Nor does a portal that was itself lost
//! since.
//!
//! *Else by time*: the controller's keep-alive timeout and the time to end its commands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::Deadline;
use byway_fabrics::ControllerId;
use tracing::debug;

use super::live::{LiveController, PathPlace, Paths};
use crate::attach::has_controller;
use crate::backoff::Backoff;

/// First pause between two questions to the witnesses.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Longest pause between two questions to the witnesses.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How long a witness has to answer, at most.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Time for one answer: a quarter of the keep-alive at most, so that no keep-alive expires while a path is being set up.
fn time_to_answer(paths: &Paths, witness: usize) -> Deadline {
    Deadline::after((paths.peer(witness).options.keep_alive / 4).min(ANSWERS_WITHIN))
}

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

/// A witness's knowledge of a lost controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Ended,
    Lives,
    Nothing,
}

impl Fence {
    pub fn new(place: &PathPlace, lost: &LiveController, ends_within: Option<Duration>) -> Self {
        Self {
            paths: Arc::clone(&place.paths),
            path: place.index,
            generation: lost.generation,
            controller: lost.controller,
            ends_within: ends_within.unwrap_or(ENDS_WITHIN),
        }
    }

    /// Finds out in a thread of its own: the admin thread reconnects meanwhile.
    pub fn begin(self) {
        let fence = self.clone();
        if std::thread::Builder::new().name("byway-fence".into()).spawn(move || fence.find_out()).is_err() {
            self.find_out();
        }
    }

    fn find_out(&self) {
        let (mut since, mut backoff) = (Instant::now(), Backoff::new(FIRST_PAUSE, LONGEST_PAUSE));
        while !self.paths.is_over() {
            match self.ask() {
                Known::Ended => break,
                Known::Lives => since = Instant::now(),
                Known::Nothing if since.elapsed() >= self.ends_within => break,
                Known::Nothing => {}
            }
            std::thread::sleep(backoff.pause());
        }
        let portal = self.paths.peer(self.path).shown();
        debug!(%portal, controller = self.controller.0, "lost controller has ended");
        self.paths.settle(self.path, self.generation);
    }

    fn ask(&self) -> Known {
        let live = self.paths.that_stand();
        let same_name = |(_, other): &&(usize, LiveController)| other.controller == self.controller;
        if let Some((path, _)) = live.iter().find(same_name) {
            // Identifiers are unique in one target only: the question would be about another target's controller of this identifier.
            return if *path == self.path { Known::Ended } else { Known::Nothing };
        }
        let asked = live.iter().filter(|(path, _)| *path != self.path).map(|other| self.ask_one(other));
        asked.fold(Known::Nothing, |known, said| match (known, said) {
            (Known::Ended, _) | (_, Known::Ended) => Known::Ended,
            (Known::Lives, _) | (_, Known::Lives) => Known::Lives,
            _ => Known::Nothing,
        })
    }

    fn ask_one(&self, (witness, before): &(usize, LiveController)) -> Known {
        let of = (self.path, self.generation);
        let peer = self.paths.peer(*witness);
        match has_controller(peer, self.controller, time_to_answer(&self.paths, *witness)) {
            Ok(true) => {
                self.paths.note_known((*witness, before.generation), of);
                Known::Lives
            }
            // Valid only while the witness still has its controller.
            Ok(false) if before.knows(of) && self.paths.stands(*witness, before.generation) => Known::Ended,
            _ => Known::Nothing,
        }
    }
}

/// Asks live portals for the new path's controller, and its portal for theirs: who has seen one can later confirm its end.
pub(crate) fn acquaint(paths: &Paths, index: usize, mut this: LiveController) -> LiveController {
    let others = paths.that_stand();
    let sees = |(witness, at): (usize, &LiveController), of: &LiveController| {
        let deadline = time_to_answer(paths, witness);
        at.controller != of.controller
            && has_controller(paths.peer(witness), of.controller, deadline).is_ok_and(|has| has)
    };
    let seen: Vec<[bool; 2]> = std::thread::scope(|scope| {
        let both = |(path, other): &(usize, LiveController)| {
            [sees((*path, other), &this), sees((index, &this), other)]
        };
        let asked: Vec<_> = others.iter().map(|other| scope.spawn(move || both(other))).collect();
        asked.into_iter().map(|one| one.join().unwrap_or_default()).collect()
    });
    for ((path, other), [seen_there, seen_here]) in others.iter().zip(seen) {
        if seen_there {
            paths.note_known((*path, other.generation), (index, this.generation));
        }
        if seen_here {
            this.note((*path, other.generation));
        }
    }
    this
}
