//! Sums, and averages of them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal64Type, Decimal128Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Decimal128Array, Float64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::accumulator::{Accumulator, Finish, same_kind};
use super::rows::{GroupedRows, PARTIALS};
use crate::error::QueryError;

/// Calls `add` with the group and the value of each row that is not NULL.
#[inline]
fn each<T: ArrowPrimitiveType>(of_row: &[u32], values: &ArrayRef, mut add: impl FnMut(usize, T::Native)) {
    let values = values.as_primitive::<T>();
    match values.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => of_row.iter().zip(values.values()).for_each(|(group, value)| add(*group as usize, *value)),
        Some(nulls) => {
            for ((group, value), is_valid) in of_row.iter().zip(values.values()).zip(nulls.iter()) {
                if is_valid {
                    add(*group as usize, *value);
                }
            }
        }
    }
}

fn no_values() -> QueryError {
    QueryError::Value("a sum of no expression".to_owned())
}

/// Sums of floating-point numbers, added one after the other in the order of the rows.
#[derive(Default)]
pub(super) struct FloatSums {
    groups: Vec<(f64, u64)>,
}

impl Accumulator for FloatSums {
    fn add(&mut self, rows: &GroupedRows<'_>, values: Option<&ArrayRef>) -> Result<(), QueryError> {
        self.groups.resize(rows.groups, (0.0, 0));
        each::<Float64Type>(rows.of_row, values.ok_or_else(no_values)?, |group, value| {
            let (sum, count) = &mut self.groups[group];
            *sum += value;
            *count += 1;
        });
        Ok(())
    }

    fn merge(
        &mut self,
        of_row: &[u32],
        groups: usize,
        other: Box<dyn Accumulator>,
    ) -> Result<(), QueryError> {
        self.groups.resize(groups, (0.0, 0));
        for (group, (sum, count)) in of_row.iter().zip(same_kind::<Self>(other)?.groups) {
            let mine = &mut self.groups[*group as usize];
            *mine = (mine.0 + sum, mine.1 + count);
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<(f64, u64)>()
    }

    fn finish(&mut self, groups: usize, finish: Finish, _: &DataType) -> Result<ArrayRef, QueryError> {
        self.groups.resize(groups, (0.0, 0));
        let values = self.groups.iter().map(|(sum, count)| {
            let value = if finish == Finish::Value { *sum } else { sum / *count as f64 };
            (*count > 0).then_some(value)
        });
        Ok(Arc::new(values.collect::<Float64Array>()))
    }
}

/// Sums of integers and decimals, which are exact in any order.
pub(super) struct WholeSums {
    of: DataType,
    groups: Vec<WholeSum>,
    has_overflown: bool,
    /// What one batch adds to each group, while its values have 64 bits.
    of_batch: Vec<(i64, u64)>,
    /// The same of values for all rows.
    of_partials: Vec<[i64; PARTIALS]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct WholeSum {
    sum: i128,
    count: u64,
}

/// Bits of values of which a batch cannot overflow 64: batches have fewer than 2^16 rows.
const SMALL_BITS: u32 = 47;

/// Rows that are added as a batch.
const SMALL_ROWS_MAX: usize = 1 << 16;

/// Whether values have few bits. Without an early end, so that it takes several at a time.
fn are_small<T: ArrowPrimitiveType<Native: Into<i128>>>(values: &[T::Native]) -> bool {
    let (sizes, are_wide) = values.iter().fold((0, false), |(sizes, are_wide), value| {
        let wide: i128 = (*value).into();
        let low = wide as i64;
        (sizes | (low ^ (low >> 63)) as u64, are_wide | (i128::from(low) != wide))
    });
    !are_wide && sizes >> SMALL_BITS == 0
}

impl WholeSums {
    pub fn new(of: DataType) -> Self {
        Self { of, groups: Vec::new(), has_overflown: false, of_batch: Vec::new(), of_partials: Vec::new() }
    }

    fn resize(&mut self, groups: usize) {
        self.groups.resize(groups, WholeSum::default());
    }

    fn add_all<T: ArrowPrimitiveType<Native: Into<i128>>>(
        &mut self,
        rows: &GroupedRows<'_>,
        values: &ArrayRef,
    ) {
        let all = values.as_primitive::<T>();
        let is_small = rows.of_row.len() < SMALL_ROWS_MAX && are_small::<T>(all.values());
        if is_small && self.groups.len() <= rows.of_row.len() {
            return match all.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => self.add_small_of_all::<T>(rows, all.values()),
                Some(_) => self.add_small::<T>(rows.of_row, values),
            };
        }
        each::<T>(rows.of_row, values, |group, value| self.add_one(group, value.into(), 1));
    }

    /// Adds values whose sum fits 64 bits, one for each row.
    fn add_small_of_all<T: ArrowPrimitiveType<Native: Into<i128>>>(
        &mut self,
        rows: &GroupedRows<'_>,
        values: &[T::Native],
    ) {
        if let ([sum], count) = (self.groups.as_mut_slice(), values.len() as u64) {
            let added: i64 = values.iter().map(|value| (*value).into() as i64).sum();
            let (total, overflows) = sum.sum.overflowing_add(added.into());
            *sum = WholeSum { sum: total, count: sum.count + count };
            self.has_overflown |= overflows;
            return;
        }
        let mut of_batch = std::mem::take(&mut self.of_partials);
        of_batch.clear();
        of_batch.resize(self.groups.len(), [0; PARTIALS]);
        let (groups, last_groups) = rows.of_row.as_chunks::<PARTIALS>();
        let (chunks, last_values) = values.as_chunks::<PARTIALS>();
        for (groups, values) in groups.iter().zip(chunks) {
            (0..PARTIALS).for_each(|at| of_batch[groups[at] as usize][at] += values[at].into() as i64);
        }
        for (group, value) in last_groups.iter().zip(last_values) {
            of_batch[*group as usize][0] += (*value).into() as i64;
        }
        for (group, (partials, count)) in of_batch.iter().zip(rows.counts()).enumerate() {
            self.add_one(group, partials.iter().sum::<i64>().into(), (*count).into());
        }
        self.of_partials = of_batch;
    }

    /// Adds values whose sum fits 64 bits.
    fn add_small<T: ArrowPrimitiveType<Native: Into<i128>>>(&mut self, of_row: &[u32], values: &ArrayRef) {
        let mut of_batch = std::mem::take(&mut self.of_batch);
        of_batch.clear();
        of_batch.resize(self.groups.len(), (0, 0));
        each::<T>(of_row, values, |group, value| {
            let (sum, count) = &mut of_batch[group];
            *sum += value.into() as i64;
            *count += 1;
        });
        for (group, (sum, count)) in of_batch.iter().enumerate() {
            self.add_one(group, (*sum).into(), *count);
        }
        self.of_batch = of_batch;
    }

    fn add_one(&mut self, group: usize, value: i128, count: u64) {
        let kept = &mut self.groups[group];
        let (sum, overflows) = kept.sum.overflowing_add(value);
        kept.sum = sum;
        kept.count += count;
        self.has_overflown |= overflows;
    }

    fn check(&self) -> Result<(), QueryError> {
        if self.has_overflown {
            return Err(QueryError::Value("a sum has more than 38 digits".to_owned()));
        }
        Ok(())
    }

    fn sums(&self, data_type: &DataType) -> Result<ArrayRef, QueryError> {
        let nulls: NullBuffer = self.groups.iter().map(|group| group.count > 0).collect();
        let sums: Vec<i128> = self.groups.iter().map(|group| group.sum).collect();
        let array = Decimal128Array::new(sums.into(), Some(nulls)).with_data_type(data_type.clone());
        array.validate_decimal_precision(array.precision())?;
        Ok(Arc::new(array))
    }

    /// Averages, rounded once. DuckDB 2.0.1 does so too, but where a query has the sum as well, or no keys, it rounds the sum first.
    fn averages(&self) -> ArrayRef {
        let scale = match self.of {
            DataType::Decimal128(_, scale) => scale,
            _ => 0,
        };
        let unit = 10_f64.powi(scale.into());
        let average =
            |group: &WholeSum| (group.count > 0).then(|| group.sum as f64 / (group.count as f64 * unit));
        Arc::new(self.groups.iter().map(average).collect::<Float64Array>())
    }
}

impl Accumulator for WholeSums {
    fn add(&mut self, rows: &GroupedRows<'_>, values: Option<&ArrayRef>) -> Result<(), QueryError> {
        self.resize(rows.groups);
        let values = values.ok_or_else(no_values)?;
        match values.data_type() {
            DataType::Int32 => self.add_all::<Int32Type>(rows, values),
            DataType::Int64 => self.add_all::<Int64Type>(rows, values),
            DataType::Decimal64(..) => self.add_all::<Decimal64Type>(rows, values),
            _ => self.add_all::<Decimal128Type>(rows, values),
        }
        self.check()
    }

    fn merge(
        &mut self,
        of_row: &[u32],
        groups: usize,
        other: Box<dyn Accumulator>,
    ) -> Result<(), QueryError> {
        self.resize(groups);
        for (group, theirs) in of_row.iter().zip(same_kind::<Self>(other)?.groups) {
            self.add_one(*group as usize, theirs.sum, theirs.count);
        }
        self.check()
    }

    fn held_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<WholeSum>()
            + self.of_batch.capacity() * size_of::<(i64, u64)>()
            + self.of_partials.capacity() * size_of::<[i64; PARTIALS]>()
    }

    fn finish(
        &mut self,
        groups: usize,
        finish: Finish,
        data_type: &DataType,
    ) -> Result<ArrayRef, QueryError> {
        self.resize(groups);
        match finish {
            Finish::Value => self.sums(data_type),
            Finish::Average => Ok(self.averages()),
        }
    }
}
