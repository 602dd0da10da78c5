//! The sum, the least or the greatest of a field.

use super::check_records;
use super::field::{Field, Type};
use crate::fault::Fault;
use crate::program::Progress;

/// What is computed.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Sum,
    Least,
    Greatest,
}

/// A run.
#[derive(Debug)]
pub(crate) struct Aggregate {
    parameter: u64,
    at: usize,
    /// `None` before the first record.
    result: Option<u64>,
}

impl Aggregate {
    pub const fn new([parameter, _]: [u64; 2]) -> Self {
        Self { parameter, at: 0, result: None }
    }

    pub fn advance(&mut self, ranges: &mut [&mut [u8]], steps: &mut u64) -> Result<Progress, Fault> {
        let (field, operation) = Field::parse(self.parameter)?;
        let operation = Operation::parse(operation)?;
        if field.field_type != Type::Unsigned || field.width() != 8 {
            return Err(Fault::Parameter("it takes unsigned fields of 8 bytes"));
        }
        let [source] = ranges else { return Err(Fault::Parameter("it takes one range")) };
        check_records(source, field.record_bytes)?;
        let affordable = usize::try_from(steps.div_ceil(field.steps())).unwrap_or(usize::MAX);
        let rest = source.get(self.at..).unwrap_or_default();
        for record in rest.chunks_exact(field.record_bytes).take(affordable) {
            let value = field.of(record);
            self.result = Some(self.result.map_or(value, |result| operation.join(result, value)));
            self.at += record.len();
            *steps = steps.saturating_sub(field.steps());
        }
        let is_done = self.at >= source.len();
        Ok(if is_done { Progress::Done(self.result.unwrap_or(0)) } else { Progress::Pending })
    }
}

impl Operation {
    const fn parse(number: u8) -> Result<Self, Fault> {
        Ok(match number {
            0 => Self::Sum,
            1 => Self::Least,
            2 => Self::Greatest,
            _ => return Err(Fault::Parameter("the aggregate is unknown")),
        })
    }

    fn join(self, left: u64, right: u64) -> u64 {
        match self {
            Self::Sum => left.wrapping_add(right),
            Self::Least => left.min(right),
            Self::Greatest => left.max(right),
        }
    }
}
