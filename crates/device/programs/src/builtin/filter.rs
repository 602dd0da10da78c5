//! Copies matching records.

use std::cmp::Ordering;

use super::field::Field;
use super::{next_records, source_and_result};
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
}

impl Filter {
    pub const fn new(parameters: [u64; 2]) -> Self {
        Self { parameters, at: 0, written: 0 }
    }

    pub fn advance(&mut self, ranges: &mut [&mut [u8]], steps: &mut u64) -> Result<Progress, Fault> {
        let [parameter, constant] = self.parameters;
        let (field, comparison) = Field::parse(parameter)?;
        let comparison = Comparison::parse(comparison)?;
        let (source, result) = source_and_result(ranges)?;
        let records = next_records(source, self.at, field.record_bytes, steps)?;
        for record in records.chunks_exact(field.record_bytes) {
            if comparison.holds(field.compare(field.of(record), constant)) {
                let end = self.written + record.len();
                result.get_mut(self.written..end).ok_or(Fault::ResultTooLarge)?.copy_from_slice(record);
                self.written = end;
            }
        }
        self.at += records.len();
        let is_done = self.at >= source.len();
        let matched = (self.written / field.record_bytes) as u64;
        Ok(if is_done { Progress::Done(matched) } else { Progress::Pending })
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
