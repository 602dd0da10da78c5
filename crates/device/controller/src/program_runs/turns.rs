//! Whose turn it is. Controllers take turns, so that a host whose programs loop does not delay those of another; a controller's programs
//! take turns among themselves, those that have not begun alternating with those that go on.

use std::collections::VecDeque;

use super::ProgramRun;
use crate::id::{ControllerId, RunId};
use crate::limits::{PROGRAM_RUNS_MAX, PROGRAM_RUNS_TOTAL_MAX, PROGRAMS_WAITING_MAX};

/// A program that has its turn, or waits for it.
#[derive(Debug)]
pub(crate) struct Turn {
    pub id: RunId,
    pub run: ProgramRun,
    /// When it is stopped, by the runner's clock.
    pub deadline_ns: u64,
    /// It had none before.
    pub is_first: bool,
}

/// Programs of all controllers.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Controllers with programs. The next one is first.
    controllers: VecDeque<OfController>,
    /// Programs that go on, of all controllers.
    going_on: usize,
}

/// Programs of one controller, the next one first.
#[derive(Debug)]
struct OfController {
    owner: ControllerId,
    /// Had no turn yet.
    waiting: VecDeque<Turn>,
    going_on: VecDeque<Turn>,
    /// The next turn is that of one which waits, if there is one.
    takes_waiting: bool,
}

impl Turns {
    /// Whether one more program of a controller may wait for its first turn.
    pub fn has_room_for(&self, owner: ControllerId) -> bool {
        let controller = self.controllers.iter().find(|controller| controller.owner == owner);
        controller.is_none_or(|controller| controller.waiting.len() < PROGRAMS_WAITING_MAX)
    }

    /// Adds a program.
    pub fn add(&mut self, turn: Turn) {
        self.of(turn.run.owner).waiting.push_back(turn);
    }

    /// Takes the program whose turn it is.
    pub fn next(&mut self) -> Option<Turn> {
        let mut controller = self.controllers.pop_front()?;
        let turn = controller.next();
        self.going_on -= usize::from(turn.as_ref().is_some_and(|turn| !turn.is_first));
        if !controller.is_empty() {
            self.controllers.push_back(controller);
        }
        turn
    }

    /// Puts a program that goes on behind the others of its controller. Gives it back if it had its first turn, and as many go on as may.
    #[must_use]
    pub fn put_back(&mut self, mut turn: Turn) -> Option<Turn> {
        let has_room = self.going_on < PROGRAM_RUNS_TOTAL_MAX;
        let controller = self.of(turn.run.owner);
        if turn.is_first && !(has_room && controller.going_on.len() < PROGRAM_RUNS_MAX) {
            self.controllers.retain(|controller| !controller.is_empty());
            return Some(turn);
        }
        turn.is_first = false;
        controller.going_on.push_back(turn);
        self.going_on += 1;
        None
    }

    /// Whether a program's time is over.
    pub fn has_late(&self, now_ns: u64) -> bool {
        // All have the same time from their commands on, so that the first of those that wait is the first to be late.
        self.controllers.iter().any(|OfController { waiting, going_on, .. }| {
            waiting.front().into_iter().chain(going_on).any(|turn| turn.deadline_ns <= now_ns)
        })
    }

    /// Removes the programs for which `is_over` holds.
    pub fn extract(&mut self, mut is_over: impl FnMut(&Turn) -> bool) {
        for controller in &mut self.controllers {
            controller.waiting.retain(|turn| !is_over(turn));
            controller.going_on.retain(|turn| !is_over(turn));
        }
        self.controllers.retain(|controller| !controller.is_empty());
        self.going_on = self.controllers.iter().map(|controller| controller.going_on.len()).sum();
    }

    /// The programs of a controller, which has its turn behind the others if it had none.
    fn of(&mut self, owner: ControllerId) -> &mut OfController {
        let at = self.controllers.iter().position(|controller| controller.owner == owner);
        let at = at.unwrap_or_else(|| {
            self.controllers.push_back(OfController::new(owner));
            self.controllers.len() - 1
        });
        &mut self.controllers[at]
    }
}

impl OfController {
    const fn new(owner: ControllerId) -> Self {
        Self { owner, waiting: VecDeque::new(), going_on: VecDeque::new(), takes_waiting: true }
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.going_on.is_empty()
    }

    fn next(&mut self) -> Option<Turn> {
        let takes_waiting = self.takes_waiting;
        self.takes_waiting = !takes_waiting;
        if takes_waiting {
            self.waiting.pop_front().or_else(|| self.going_on.pop_front())
        } else {
            self.going_on.pop_front().or_else(|| self.waiting.pop_front())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use byway_programs::{BuiltIn, Execution, Program, Ranges};

    use super::*;

    fn turn(id: u64, owner: u16) -> Turn {
        let ranges = Arc::new(Ranges::default());
        let program = Arc::new(Program::built_in(BuiltIn::Crc32c));
        let execution = Execution::new(program, &ranges, [0; 2], 1);
        let run = ProgramRun { owner: ControllerId(owner), nsid: 1, ranges, execution };
        Turn { id: RunId(id), run, deadline_ns: id, is_first: true }
    }

    /// The owners of the next programs, which all go on.
    fn owners(turns: &mut Turns, count: usize) -> Vec<u16> {
        let next = |_| {
            let turn = turns.next().unwrap();
            let owner = turn.run.owner.0;
            assert!(turns.put_back(turn).is_none());
            owner
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn controllers_take_turns_however_many_programs_one_has() {
        let mut turns = Turns::default();
        (0..30).for_each(|id| turns.add(turn(id, 1)));
        turns.add(turn(30, 2));
        assert_eq!(owners(&mut turns, 6), [1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn programs_that_wait_alternate_with_those_that_go_on() {
        let mut turns = Turns::default();
        turns.add(turn(0, 1));
        let first = turns.next().unwrap();
        assert!(turns.put_back(first).is_none());
        (1..4).for_each(|id| turns.add(turn(id, 1)));
        let order: Vec<u64> = std::iter::from_fn(|| turns.next()).map(|turn| turn.id.0).collect();
        assert_eq!(order, [1, 0, 2, 3]);
        assert_eq!(turns.going_on, 0);
    }

    #[test]
    fn program_beyond_the_limit_of_its_controller_does_not_go_on() {
        let mut turns = Turns::default();
        (0..=PROGRAM_RUNS_MAX as u64).for_each(|id| turns.add(turn(id, 1)));
        turns.add(turn(99, 2));
        let mut refused = Vec::new();
        for _ in 0..4 * PROGRAM_RUNS_MAX + 8 {
            let next = turns.next().unwrap();
            refused.extend(turns.put_back(next).map(|turn| turn.id.0));
        }
        assert_eq!(refused, [PROGRAM_RUNS_MAX as u64]);
        assert_eq!(turns.going_on, PROGRAM_RUNS_MAX + 1);
    }

    #[test]
    fn program_is_late_from_its_deadline_on() {
        let mut turns = Turns::default();
        (5..8).for_each(|id| turns.add(turn(id, 1)));
        assert_eq!((turns.has_late(4), turns.has_late(5)), (false, true));
        turns.extract(|turn| turn.deadline_ns <= 6);
        assert_eq!((turns.has_late(6), turns.next().map(|turn| turn.id.0)), (false, Some(7)));
    }
}
