//! Least and greatest values. NaN is greater than every number, and both zeroes are equal.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, StringArray};
use arrow_schema::DataType;

use super::accumulator::{Accumulator, Give, same_kind};
use super::rows::GroupedRows;
use crate::error::QueryError;

/// Which value of a group is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extreme {
    Least,
    Greatest,
}

impl Extreme {
    /// Whether a value that is `than` what is kept takes its place.
    fn is_beaten_by(self, than: Ordering) -> bool {
        match self {
            Self::Least => than == Ordering::Less,
            Self::Greatest => than == Ordering::Greater,
        }
    }
}

/// Order of two values. What has no order is a NaN.
fn order<N: PartialOrd>(left: &N, right: &N) -> Ordering {
    left.partial_cmp(right).unwrap_or_else(|| {
        let is_nan = |value: &N| value.partial_cmp(value).is_none();
        is_nan(left).cmp(&is_nan(right))
    })
}

/// The value of each group, `None` before it has one.
struct Kept<V> {
    extreme: Extreme,
    values: Vec<Option<V>>,
}

impl<V: PartialOrd> Kept<V> {
    fn new(extreme: Extreme) -> Self {
        Self { extreme, values: Vec::new() }
    }

    fn resize(&mut self, groups: usize) {
        self.values.resize_with(groups, || None);
    }

    fn offer(&mut self, group: u32, value: V) {
        let kept = &mut self.values[group as usize];
        if kept.as_ref().is_none_or(|kept| self.extreme.is_beaten_by(order(&value, kept))) {
            *kept = Some(value);
        }
    }

    fn merge(&mut self, of_row: &[u32], groups: usize, other: Self) {
        self.resize(groups);
        for (group, value) in of_row.iter().zip(other.values) {
            if let Some(value) = value {
                self.offer(*group, value);
            }
        }
    }
}

fn no_values() -> QueryError {
    QueryError::Value("the least or greatest of no expression".to_owned())
}

/// Extremes of numbers, dates and times.
pub(super) struct PrimitiveExtremes<T: ArrowPrimitiveType>(Kept<T::Native>);

impl<T: ArrowPrimitiveType<Native: PartialOrd>> PrimitiveExtremes<T> {
    pub fn new(extreme: Extreme) -> Self {
        Self(Kept::new(extreme))
    }
}

impl<T: ArrowPrimitiveType<Native: PartialOrd>> Accumulator for PrimitiveExtremes<T> {
    fn add(&mut self, rows: &GroupedRows<'_>, values: Option<&ArrayRef>) -> Result<(), QueryError> {
        self.0.resize(rows.groups);
        let values = values.ok_or_else(no_values)?.as_primitive::<T>();
        for (group, value) in rows.of_row.iter().zip(values.iter()) {
            if let Some(value) = value {
                self.0.offer(*group, value);
            }
        }
        Ok(())
    }

    fn merge(
        &mut self,
        of_row: &[u32],
        groups: usize,
        other: Box<dyn Accumulator>,
    ) -> Result<(), QueryError> {
        self.0.merge(of_row, groups, same_kind::<Self>(other)?.0);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.0.values.capacity() * size_of::<Option<T::Native>>()
    }

    fn finish(&mut self, groups: usize, _: Give, data_type: &DataType) -> Result<ArrayRef, QueryError> {
        self.0.resize(groups);
        let array: PrimitiveArray<T> = self.0.values.drain(..).collect();
        Ok(Arc::new(array.with_data_type(data_type.clone())))
    }
}

/// Extremes of true and false.
pub(super) struct BooleanExtremes(Kept<bool>);

impl BooleanExtremes {
    pub fn new(extreme: Extreme) -> Self {
        Self(Kept::new(extreme))
    }
}

impl Accumulator for BooleanExtremes {
    fn add(&mut self, rows: &GroupedRows<'_>, values: Option<&ArrayRef>) -> Result<(), QueryError> {
        self.0.resize(rows.groups);
        for (group, value) in rows.of_row.iter().zip(values.ok_or_else(no_values)?.as_boolean()) {
            if let Some(value) = value {
                self.0.offer(*group, value);
            }
        }
        Ok(())
    }

    fn merge(
        &mut self,
        of_row: &[u32],
        groups: usize,
        other: Box<dyn Accumulator>,
    ) -> Result<(), QueryError> {
        self.0.merge(of_row, groups, same_kind::<Self>(other)?.0);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.0.values.capacity()
    }

    fn finish(&mut self, groups: usize, _: Give, _: &DataType) -> Result<ArrayRef, QueryError> {
        self.0.resize(groups);
        Ok(Arc::new(self.0.values.drain(..).collect::<BooleanArray>()))
    }
}

/// Extremes of strings or bytes, compared byte by byte.
struct BytesKept {
    kept: Kept<Box<[u8]>>,
    /// Bytes of the values that are kept.
    bytes: usize,
}

impl BytesKept {
    fn new(extreme: Extreme) -> Self {
        Self { kept: Kept::new(extreme), bytes: 0 }
    }

    /// Copies a value only where it takes the place of another.
    fn offer(&mut self, group: u32, value: &[u8]) {
        let extreme = self.kept.extreme;
        let kept = &mut self.kept.values[group as usize];
        if kept.as_ref().is_none_or(|kept| extreme.is_beaten_by(value.cmp(kept))) {
            self.bytes += value.len();
            self.bytes -= kept.as_ref().map_or(0, |kept| kept.len());
            *kept = Some(value.into());
        }
    }

    fn merge(&mut self, of_row: &[u32], groups: usize, other: Self) {
        self.bytes += other.bytes;
        self.kept.merge(of_row, groups, other.kept);
    }

    fn held_bytes(&self) -> usize {
        self.bytes + self.kept.values.capacity() * size_of::<Option<Box<[u8]>>>()
    }
}

/// Extremes of strings.
pub(super) struct TextExtremes(BytesKept);

impl TextExtremes {
    pub fn new(extreme: Extreme) -> Self {
        Self(BytesKept::new(extreme))
    }
}

impl Accumulator for TextExtremes {
    fn add(&mut self, rows: &GroupedRows<'_>, values: Option<&ArrayRef>) -> Result<(), QueryError> {
        self.0.kept.resize(rows.groups);
        for (group, value) in rows.of_row.iter().zip(values.ok_or_else(no_values)?.as_string::<i32>()) {
            if let Some(value) = value {
                self.0.offer(*group, value.as_bytes());
            }
        }
        Ok(())
    }

    fn merge(
        &mut self,
        of_row: &[u32],
        groups: usize,
        other: Box<dyn Accumulator>,
    ) -> Result<(), QueryError> {
        self.0.merge(of_row, groups, same_kind::<Self>(other)?.0);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    fn finish(&mut self, groups: usize, _: Give, _: &DataType) -> Result<ArrayRef, QueryError> {
        self.0.kept.resize(groups);
        let text = |value: Option<Box<[u8]>>| value.map(|value| String::from_utf8_lossy(&value).into_owned());
        Ok(Arc::new(self.0.kept.values.drain(..).map(text).collect::<StringArray>()))
    }
}

/// Extremes of bytes.
pub(super) struct BinaryExtremes(BytesKept);

impl BinaryExtremes {
    pub fn new(extreme: Extreme) -> Self {
        Self(BytesKept::new(extreme))
    }
}

impl Accumulator for BinaryExtremes {
    fn add(&mut self, rows: &GroupedRows<'_>, values: Option<&ArrayRef>) -> Result<(), QueryError> {
        self.0.kept.resize(rows.groups);
        for (group, value) in rows.of_row.iter().zip(values.ok_or_else(no_values)?.as_binary::<i32>()) {
            if let Some(value) = value {
                self.0.offer(*group, value);
            }
        }
        Ok(())
    }

    fn merge(
        &mut self,
        of_row: &[u32],
        groups: usize,
        other: Box<dyn Accumulator>,
    ) -> Result<(), QueryError> {
        self.0.merge(of_row, groups, same_kind::<Self>(other)?.0);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    fn finish(&mut self, groups: usize, _: Give, _: &DataType) -> Result<ArrayRef, QueryError> {
        self.0.kept.resize(groups);
        Ok(Arc::new(self.0.kept.values.drain(..).collect::<BinaryArray>()))
    }
}
