//! Keys of any types: groups by values that are compared as encoded rows.

use std::sync::Arc;

use ahash::RandomState;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, new_null_array};
use arrow_row::{Row, RowConverter, Rows, SortField};
use arrow_schema::DataType;
use hashbrown::HashTable;

use super::keys::table_bytes;
use super::with_equal_bits;
use crate::error::QueryError;

/// Groups by values that are compared as encoded rows.
pub(super) struct RowKeys {
    types: Vec<DataType>,
    converter: RowConverter,
    table: HashTable<u32>,
    hasher: RandomState,
    /// The key of each group.
    keys: Rows,
}

/// Most combinations of dictionary entries that are looked up by their number.
const COMBINATIONS_MAX: usize = 1 << 12;

impl RowKeys {
    pub fn new(types: &[DataType]) -> Result<Self, QueryError> {
        let fields = types.iter().map(|data_type| SortField::new(data_type.clone())).collect();
        let converter = RowConverter::new(fields)?;
        let keys = converter.empty_rows(0, 0);
        Ok(Self {
            types: types.to_vec(),
            converter,
            table: HashTable::new(),
            hasher: RandomState::new(),
            keys,
        })
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.keys.num_rows()
    }

    /// Bytes of memory that they take.
    pub fn held_bytes(&self) -> usize {
        self.keys.size() + table_bytes(&self.table)
    }

    /// The keys, an array a column.
    pub fn into_arrays(self) -> Result<Vec<ArrayRef>, QueryError> {
        Ok(self.converter.convert_rows(&self.keys)?)
    }

    /// Adds the group of each row to `of_row`. New keys make new groups.
    pub fn assign(&mut self, keys: &[ArrayRef], of_row: &mut Vec<u32>) -> Result<(), QueryError> {
        match Combinations::of(keys) {
            Some(combinations) => self.assign_combinations(&combinations, of_row),
            None => self.assign_rows(keys, of_row),
        }
    }

    fn assign_rows(&mut self, keys: &[ArrayRef], of_row: &mut Vec<u32>) -> Result<(), QueryError> {
        let rows = self.rows(keys)?;
        let mut last: Option<(usize, u32)> = None;
        for (at, row) in rows.iter().enumerate() {
            // Rows of one group often follow one another.
            let group = match last {
                Some((before, group)) if rows.row(before) == row => group,
                _ => self.group_of(row),
            };
            last = Some((at, group));
            of_row.push(group);
        }
        Ok(())
    }

    fn assign_combinations(
        &mut self,
        combinations: &Combinations<'_>,
        of_row: &mut Vec<u32>,
    ) -> Result<(), QueryError> {
        const UNKNOWN: u32 = u32::MAX;
        combinations.number(of_row);
        let mut groups = [UNKNOWN; COMBINATIONS_MAX];
        for place in of_row {
            let number = *place as usize % COMBINATIONS_MAX;
            if groups[number] == UNKNOWN {
                groups[number] = self.group_of_one(&combinations.values(number))?;
            }
            *place = groups[number];
        }
        Ok(())
    }

    fn group_of_one(&mut self, key: &[ArrayRef]) -> Result<u32, QueryError> {
        let rows = self.rows(key)?;
        Ok(self.group_of(rows.row(0)))
    }

    fn rows(&self, keys: &[ArrayRef]) -> Result<Rows, QueryError> {
        let plain = |(key, data_type): (&ArrayRef, &DataType)| {
            let plain = if key.data_type() == data_type {
                Arc::clone(key)
            } else {
                arrow_cast::cast(key, data_type)?
            };
            Ok::<_, QueryError>(with_equal_bits(plain))
        };
        let keys: Vec<_> = keys.iter().zip(&self.types).map(plain).collect::<Result<_, _>>()?;
        Ok(self.converter.convert_columns(&keys)?)
    }

    fn group_of(&mut self, row: Row<'_>) -> u32 {
        let (keys, hasher) = (&self.keys, &self.hasher);
        let hash = hasher.hash_one(row.data());
        let is_it = |group: &u32| keys.row(*group as usize) == row;
        let rehash = |group: &u32| hasher.hash_one(keys.row(*group as usize).data());
        let next = keys.num_rows() as u32;
        let group = *self.table.entry(hash, is_it, rehash).or_insert(next).get();
        if group == next {
            self.keys.push(row);
        }
        group
    }
}

/// Keys whose values are few: each combination of entries of their dictionaries has a number.
struct Combinations<'a> {
    keys: Vec<&'a DictionaryArray<Int32Type>>,
    rows: usize,
}

impl<'a> Combinations<'a> {
    /// The combinations of `keys`; `None` unless all are dictionaries, and the combinations few.
    fn of(keys: &'a [ArrayRef]) -> Option<Self> {
        let keys: Vec<_> =
            keys.iter().map(|key| key.as_dictionary_opt::<Int32Type>()).collect::<Option<_>>()?;
        // One more for NULL.
        let count = keys.iter().try_fold(1_usize, |count, key| count.checked_mul(key.values().len() + 1))?;
        let rows = keys.first()?.len();
        (count <= COMBINATIONS_MAX).then_some(Self { keys, rows })
    }

    /// Has `numbers` hold the number of each row's combination.
    fn number(&self, numbers: &mut Vec<u32>) {
        numbers.clear();
        numbers.resize(self.rows, 0);
        for key in &self.keys {
            let entries = key.values().len() as u32;
            let codes = key.keys();
            let numbers = numbers.iter_mut().zip(codes.values());
            match codes.nulls() {
                None => numbers.for_each(|(number, code)| *number = *number * (entries + 1) + *code as u32),
                Some(nulls) => numbers.zip(nulls.iter()).for_each(|((number, code), is_valid)| {
                    *number = *number * (entries + 1) + if is_valid { *code as u32 } else { entries };
                }),
            }
        }
    }

    /// The values of a combination, an array of one element a key.
    fn values(&self, mut number: usize) -> Vec<ArrayRef> {
        let mut values: Vec<_> = Vec::with_capacity(self.keys.len());
        for key in self.keys.iter().rev() {
            let entries = key.values().len();
            let code = number % (entries + 1);
            number /= entries + 1;
            values.push(if code == entries {
                new_null_array(key.values().data_type(), 1)
            } else {
                key.values().slice(code, 1)
            });
        }
        values.reverse();
        values
    }
}
