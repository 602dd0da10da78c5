//! A program over ranges of memory. Its state takes memory once it has begun, so that many can wait.

use std::sync::Arc;

use byway_programs::{Execution, Program, Ranges};

/// A program over ranges. The program and a set of ranges are in use while this is held.
#[derive(Debug)]
pub(crate) struct RangesRun {
    program: Arc<Program>,
    ranges: Arc<Ranges>,
    /// Ranges that the command brought, and that no set keeps.
    listed: usize,
    parameters: [u64; 2],
    /// Once it has begun.
    execution: Option<Execution>,
}

/// Bytes of a range: its place, and where it stands in their order.
const RANGE_BYTES: usize = 32;

impl RangesRun {
    /// A program that has not begun. The command brought `listed` of its ranges.
    pub const fn new(
        program: Arc<Program>,
        ranges: Arc<Ranges>,
        listed: usize,
        parameters: [u64; 2],
    ) -> Self {
        Self { program, ranges, listed, parameters, execution: None }
    }

    pub fn program(&self) -> &Program {
        &self.program
    }

    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// Bytes of the ranges that the command brought.
    pub const fn listed_bytes(&self) -> usize {
        self.listed * RANGE_BYTES
    }

    /// Its ranges and its state, which ends after `steps_max` steps if it has not begun.
    pub fn begin(&mut self, steps_max: u64) -> (&Ranges, &mut Execution) {
        let Self { program, ranges, parameters, execution, .. } = self;
        let begin = || Execution::new(Arc::clone(program), ranges, *parameters, steps_max);
        (ranges, execution.get_or_insert_with(begin))
    }
}
