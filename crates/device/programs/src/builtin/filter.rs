//! Copies matching records.

use std::cmp::Ordering;

use super::field::{Field, LINE_BYTES};
use super::{check_records, source_and_result};
use crate::fault::Fault;
use crate::program::Progress;

/// A comparison with the constant.
#[derive(Debug, Clone, Copy)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A run.
#[derive(Debug)]
pub(crate) struct Filter {
    parameters: [u64; 2],
    /// Position in the source.
    at: usize,
    /// Bytes of the result.
    written: usize,
    /// Bytes of the record at `at` that are copied already: it matches.
    copied: usize,
}

impl Filter {
    pub const fn new(parameters: [u64; 2]) -> Self {
        Self { parameters, at: 0, written: 0, copied: 0 }
    }

    pub fn advance(&mut self, ranges: &mut [&mut [u8]], steps: &mut u64) -> Result<Progress, Fault> {
        let [parameter, constant] = self.parameters;
        let (field, comparison) = Field::parse(parameter)?;
        let comparison = Comparison::parse(comparison)?;
        let (source, result) = source_and_result(ranges)?;
        check_records(source, field.record_bytes)?;
        let rest = source.get(self.at..).unwrap_or_default();
        for record in rest.chunks_exact(field.record_bytes) {
            if *steps == 0 {
                return Ok(Progress::Pending);
            }
            if self.copied > 0 || comparison.holds(field.compare(field.of(record), constant)) {
                self.copy(record, result, steps)?;
            } else {
                *steps = steps.saturating_sub(field.steps());
                self.at += record.len();
            }
        }
        let is_done = self.copied == 0;
        let matched = (self.written / field.record_bytes) as u64;
        Ok(if is_done { Progress::Done(matched) } else { Progress::Pending })
    }

    /// Copies as much of a record as there are steps for.
    fn copy(&mut self, record: &[u8], result: &mut [u8], steps: &mut u64) -> Result<(), Fault> {
        let room = result.get_mut(self.written..self.written + record.len()).ok_or(Fault::ResultTooLarge)?;
        let affordable = usize::try_from(*steps).unwrap_or(usize::MAX).saturating_mul(LINE_BYTES);
        let end = self.copied.saturating_add(affordable).min(record.len());
        let part = self.copied..end;
        *steps -= part.len().div_ceil(LINE_BYTES) as u64;
        room[part.clone()].copy_from_slice(&record[part]);
        self.copied = end;
        if end == record.len() {
            (self.at, self.written, self.copied) = (self.at + end, self.written + end, 0);
        }
        Ok(())
    }
}

impl Comparison {
    const fn parse(number: u8) -> Result<Self, Fault> {
        Ok(match number {
            0 => Self::Equal,
            1 => Self::NotEqual,
            2 => Self::Less,
            3 => Self::LessOrEqual,
            4 => Self::Greater,
            5 => Self::GreaterOrEqual,
            _ => return Err(Fault::Parameter("the comparison is unknown")),
        })
    }

    /// As floating point compares: what is not a number differs from everything.
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}
