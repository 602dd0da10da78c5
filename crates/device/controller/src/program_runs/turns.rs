//! Whose turn it is. Controllers take turns, so that a host whose programs loop does not delay those of another; the programs of a
//! controller take turns among themselves.

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
#[derive(Debug)]
pub(super) struct Turns {
    /// Controllers with programs. The next one is first.
    controllers: VecDeque<OfController>,
    /// Programs that go on after a turn, of all controllers.
    going_on: usize,
    /// No program's time is over before this.
    earliest_ns: u64,
}

/// Programs of one controller.
#[derive(Debug)]
struct OfController {
    owner: ControllerId,
    /// The next one is first.
    turns: VecDeque<Turn>,
    /// Those of them that go on after a turn.
    going_on: usize,
}

impl Default for Turns {
    fn default() -> Self {
        Self { controllers: VecDeque::new(), going_on: 0, earliest_ns: u64::MAX }
    }
}

impl Turns {
    /// Whether one more program of a controller may wait for its first turn.
    pub fn has_room_for(&self, owner: ControllerId) -> bool {
        let controller = self.controllers.iter().find(|controller| controller.owner == owner);
        controller.is_none_or(|controller| controller.waiting() < PROGRAMS_WAITING_MAX)
    }

    /// Adds a program.
    pub fn add(&mut self, turn: Turn) {
        self.earliest_ns = self.earliest_ns.min(turn.deadline_ns);
        self.of(turn.run.owner).turns.push_back(turn);
    }

    /// Takes the program whose turn it is.
    pub fn next(&mut self) -> Option<Turn> {
        let mut controller = self.controllers.pop_front()?;
        let turn = controller.turns.pop_front();
        let goes_on = usize::from(turn.as_ref().is_some_and(|turn| !turn.is_first));
        controller.going_on -= goes_on;
        self.going_on -= goes_on;
        if !controller.turns.is_empty() {
            self.controllers.push_back(controller);
        }
        turn
    }

    /// Puts a program that goes on behind the others of its controller. Gives it back if it had its first turn, and as many go on as may.
    #[must_use]
    pub fn put_back(&mut self, mut turn: Turn) -> Option<Turn> {
        if turn.is_first && !self.may_go_on(turn.run.owner) {
            return Some(turn);
        }
        turn.is_first = false;
        let controller = self.of(turn.run.owner);
        controller.going_on += 1;
        controller.turns.push_back(turn);
        self.going_on += 1;
        None
    }

    /// Bytes of values and inputs of programs.
    pub fn kept_bytes(&self) -> usize {
        let turns = self.controllers.iter().flat_map(|controller| &controller.turns);
        turns.map(|turn| turn.run.bytes()).sum()
    }

    fn may_go_on(&self, owner: ControllerId) -> bool {
        let own = self.controllers.iter().find(|controller| controller.owner == owner);
        let own = own.map_or(0, |controller| controller.going_on);
        own < PROGRAM_RUNS_MAX && self.going_on < PROGRAM_RUNS_TOTAL_MAX
    }

    /// Whether a program's time may be over.
    pub const fn may_have_late(&self, now_ns: u64) -> bool {
        self.earliest_ns <= now_ns
    }

    /// Removes the programs for which `is_over` holds.
    pub fn extract(&mut self, mut is_over: impl FnMut(&Turn) -> bool) {
        for controller in &mut self.controllers {
            controller.turns.retain(|turn| !is_over(turn));
            controller.going_on = controller.turns.iter().filter(|turn| !turn.is_first).count();
        }
        self.controllers.retain(|controller| !controller.turns.is_empty());
        self.going_on = self.controllers.iter().map(|controller| controller.going_on).sum();
        let turns = self.controllers.iter().flat_map(|controller| &controller.turns);
        self.earliest_ns = turns.map(|turn| turn.deadline_ns).min().unwrap_or(u64::MAX);
    }

    /// The programs of a controller, which has its turn behind the others if it had none.
    fn of(&mut self, owner: ControllerId) -> &mut OfController {
        let at = self.controllers.iter().position(|controller| controller.owner == owner);
        let at = at.unwrap_or_else(|| {
            self.controllers.push_back(OfController { owner, turns: VecDeque::new(), going_on: 0 });
            self.controllers.len() - 1
        });
        &mut self.controllers[at]
    }
}

impl OfController {
    /// Those that wait for their first turn.
    fn waiting(&self) -> usize {
        self.turns.len() - self.going_on
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use byway_programs::{BuiltIn, Execution, Program, Ranges};

    use super::*;
    use crate::program_runs::RunOver;

    fn turn(id: u64, owner: u16) -> Turn {
        let ranges = Arc::new(Ranges::default());
        let program = Arc::new(Program::built_in(BuiltIn::Crc32c));
        let execution = Execution::new(program, &ranges, [0; 2], 1);
        let over = RunOver::Ranges { ranges, execution: Box::new(execution) };
        let run = ProgramRun { owner: ControllerId(owner), nsid: 1, over };
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
    fn programs_of_a_controller_take_turns() {
        let mut turns = Turns::default();
        turns.add(turn(0, 1));
        let first = turns.next().unwrap();
        assert!(turns.put_back(first).is_none());
        (1..4).for_each(|id| turns.add(turn(id, 1)));
        let order: Vec<u64> = std::iter::from_fn(|| turns.next()).map(|turn| turn.id.0).collect();
        assert_eq!(order, [0, 1, 2, 3]);
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
        assert_eq!((turns.may_have_late(4), turns.may_have_late(5)), (false, true));
        turns.extract(|turn| turn.deadline_ns <= 6);
        assert_eq!((turns.may_have_late(6), turns.next().map(|turn| turn.id.0)), (false, Some(7)));
    }
}
