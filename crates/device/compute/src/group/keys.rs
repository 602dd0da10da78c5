//! Keys of groups, and the number of each.

use std::sync::Arc;

use ahash::RandomState;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::DataType;
use hashbrown::HashTable;

use super::row_keys::RowKeys;
use crate::error::QueryError;

/// Keys of groups. Groups are numbered as they come.
pub(super) enum Keys {
    /// All rows are one group.
    None,
    /// One integer.
    Integer(Integers),
    /// Any number of values of any types.
    Rows(RowKeys),
}

/// Groups by one integer.
pub(super) struct Integers {
    data_type: DataType,
    table: HashTable<u32>,
    hasher: RandomState,
    /// The key of each group; `None` for NULL.
    keys: Vec<Option<i64>>,
    null: Option<u32>,
}

impl Keys {
    pub fn new(types: &[DataType]) -> Result<Self, QueryError> {
        match types {
            [] => Ok(Self::None),
            [integer @ (DataType::Int32 | DataType::Int64)] => Ok(Self::Integer(Integers {
                data_type: integer.clone(),
                table: HashTable::new(),
                hasher: RandomState::new(),
                keys: Vec::new(),
                null: None,
            })),
            _ => RowKeys::new(types).map(Self::Rows),
        }
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        match self {
            Self::None => 1,
            Self::Integer(integers) => integers.keys.len(),
            Self::Rows(rows) => rows.len(),
        }
    }

    /// The groups of rows with these keys, as `of_row`. New keys make new groups.
    pub fn assign(
        &mut self,
        keys: &[ArrayRef],
        rows: usize,
        of_row: &mut Vec<u32>,
    ) -> Result<(), QueryError> {
        of_row.clear();
        match (self, keys) {
            (Self::Integer(integers), [key]) => integers.assign(key, of_row),
            (Self::Rows(table), keys) => table.assign(keys, of_row)?,
            _ => of_row.resize(rows, 0),
        }
        Ok(())
    }

    /// Bytes of memory that they take.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Integer(integers) => {
                integers.keys.capacity() * size_of::<Option<i64>>() + table_bytes(&integers.table)
            }
            Self::Rows(rows) => rows.held_bytes(),
        }
    }

    /// The keys, an array a column.
    pub fn into_arrays(self) -> Result<Vec<ArrayRef>, QueryError> {
        match self {
            Self::None => Ok(Vec::new()),
            Self::Integer(integers) => Ok(vec![integers.into_array()]),
            Self::Rows(rows) => rows.into_arrays(),
        }
    }
}

pub(super) fn table_bytes(table: &HashTable<u32>) -> usize {
    table.capacity() * (size_of::<u32>() + 1)
}

impl Integers {
    fn assign(&mut self, key: &ArrayRef, of_row: &mut Vec<u32>) {
        match key.data_type() {
            DataType::Int32 => {
                self.assign_all(key.as_primitive::<Int32Type>().iter().map(|key| key.map(i64::from)), of_row)
            }
            _ => self.assign_all(key.as_primitive::<Int64Type>().iter(), of_row),
        }
    }

    fn assign_all(&mut self, keys: impl Iterator<Item = Option<i64>>, of_row: &mut Vec<u32>) {
        let mut last = None;
        for key in keys {
            // Rows of one group often follow one another.
            let group = match last {
                Some((same, group)) if same == key => group,
                _ => self.group_of(key),
            };
            last = Some((key, group));
            of_row.push(group);
        }
    }

    fn group_of(&mut self, key: Option<i64>) -> u32 {
        let next = self.keys.len() as u32;
        let Some(value) = key else {
            let group = *self.null.get_or_insert(next);
            if group == next {
                self.keys.push(None);
            }
            return group;
        };
        let (keys, hasher) = (&self.keys, &self.hasher);
        let rehash = |group: &u32| keys[*group as usize].map_or(0, |key| hasher.hash_one(key));
        let entry = self.table.entry(hasher.hash_one(value), |group| keys[*group as usize] == key, rehash);
        let group = *entry.or_insert(next).get();
        if group == next {
            self.keys.push(key);
        }
        group
    }

    fn into_array(self) -> ArrayRef {
        match self.data_type {
            DataType::Int32 => {
                let keys = self.keys.into_iter().map(|key| key.map(|key| key as i32));
                Arc::new(keys.collect::<PrimitiveArray<Int32Type>>())
            }
            _ => Arc::new(self.keys.into_iter().collect::<PrimitiveArray<Int64Type>>()),
        }
    }
}
