//! MIN and MAX. NaN is greater than every number, and both zeroes are equal.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, GenericByteArray, PrimitiveArray,
};
use arrow_schema::DataType;

use super::accumulator::{Accumulator, Finish, same_kind};
use super::rows::GroupedRows;
use crate::error::QueryError;

/// Which of the two functions is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MinMax {
    Min,
    Max,
}

impl MinMax {
    /// Replaces `kept` by `value` if `value` is the new minimum or maximum.
    #[inline]
    pub fn offer<V: PartialOrd>(self, kept: &mut Option<V>, value: V) {
        if kept.as_ref().is_none_or(|kept| self.prefers(order(&value, kept))) {
            *kept = Some(value);
        }
    }

    /// Whether a value that compares as `than` with the kept one replaces it.
    fn prefers(self, than: Ordering) -> bool {
        match self {
            Self::Min => than == Ordering::Less,
            Self::Max => than == Ordering::Greater,
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
    function: MinMax,
    values: Vec<Option<V>>,
}

impl<V: PartialOrd> Kept<V> {
    fn new(function: MinMax) -> Self {
        Self { function, values: Vec::new() }
    }

    fn resize(&mut self, groups: usize) {
        self.values.resize_with(groups, || None);
    }

    fn offer(&mut self, group: u32, value: V) {
        self.function.offer(&mut self.values[group as usize], value);
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
    QueryError::Value("MIN or MAX without an argument".to_owned())
}

/// MIN or MAX of numbers, dates and times.
pub(super) struct PrimitiveMinMax<T: ArrowPrimitiveType>(Kept<T::Native>);

impl<T: ArrowPrimitiveType<Native: PartialOrd>> PrimitiveMinMax<T> {
    pub fn new(function: MinMax) -> Self {
        Self(Kept::new(function))
    }
}

impl<T: ArrowPrimitiveType<Native: PartialOrd>> Accumulator for PrimitiveMinMax<T> {
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

    fn finish(&mut self, groups: usize, _: Finish, data_type: &DataType) -> Result<ArrayRef, QueryError> {
        self.0.resize(groups);
        let array: PrimitiveArray<T> = self.0.values.drain(..).collect();
        Ok(Arc::new(array.with_data_type(data_type.clone())))
    }
}

/// MIN or MAX of booleans.
pub(super) struct BooleanMinMax(Kept<bool>);

impl BooleanMinMax {
    pub fn new(function: MinMax) -> Self {
        Self(Kept::new(function))
    }
}

impl Accumulator for BooleanMinMax {
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

    fn finish(&mut self, groups: usize, _: Finish, _: &DataType) -> Result<ArrayRef, QueryError> {
        self.0.resize(groups);
        Ok(Arc::new(self.0.values.drain(..).collect::<BooleanArray>()))
    }
}

/// MIN or MAX of strings or bytes, compared byte by byte.
pub(super) struct BytesMinMax<T: ByteArrayType<Offset = i32>> {
    kept: Kept<Box<[u8]>>,
    /// Bytes of the values that are kept.
    bytes: usize,
    array_type: PhantomData<T>,
}

impl<T: ByteArrayType<Offset = i32>> BytesMinMax<T> {
    pub fn new(function: MinMax) -> Self {
        Self { kept: Kept::new(function), bytes: 0, array_type: PhantomData }
    }

    /// Copies a value only where it replaces another.
    fn offer(&mut self, group: u32, value: &[u8]) {
        let function = self.kept.function;
        let kept = &mut self.kept.values[group as usize];
        if kept.as_ref().is_none_or(|kept| function.prefers(value.cmp(kept))) {
            self.bytes += value.len();
            self.bytes -= kept.as_ref().map_or(0, |kept| kept.len());
            *kept = Some(value.into());
        }
    }
}

impl<T: ByteArrayType<Offset = i32>> Accumulator for BytesMinMax<T> {
    fn add(&mut self, rows: &GroupedRows<'_>, values: Option<&ArrayRef>) -> Result<(), QueryError> {
        self.kept.resize(rows.groups);
        for (group, value) in rows.of_row.iter().zip(values.ok_or_else(no_values)?.as_bytes::<T>()) {
            if let Some(value) = value {
                self.offer(*group, value.as_ref());
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
        let other = same_kind::<Self>(other)?;
        self.bytes += other.bytes;
        self.kept.merge(of_row, groups, other.kept);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.bytes + self.kept.values.capacity() * size_of::<Option<Box<[u8]>>>()
    }

    fn finish(&mut self, groups: usize, _: Finish, _: &DataType) -> Result<ArrayRef, QueryError> {
        self.kept.resize(groups);
        let (offsets, values, nulls) = self.kept.values.drain(..).collect::<BinaryArray>().into_parts();
        Ok(Arc::new(GenericByteArray::<T>::try_new(offsets, values, nulls)?))
    }
}
