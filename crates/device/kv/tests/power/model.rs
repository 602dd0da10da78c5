//! What may be there: for each key what the last sync covered, and everything stored since.

use std::collections::BTreeMap;

/// A key, by its number.
pub type Target = u64;

/// A value, or none.
pub type Value = Option<Vec<u8>>;

#[derive(Debug, Clone, Default)]
pub struct Model {
    values: BTreeMap<Target, Vec<Value>>,
    /// For each target, which version was the last when a sync was begun that has not ended.
    begun: BTreeMap<Target, usize>,
}

impl Model {
    pub fn of(values: impl IntoIterator<Item = (Target, Value)>) -> Self {
        Self {
            values: values.into_iter().map(|(target, value)| (target, vec![value])).collect(),
            begun: BTreeMap::new(),
        }
    }

    /// Something is about to be written.
    pub fn write(&mut self, target: Target, value: Value) {
        self.values.entry(target).or_insert_with(|| vec![None]).push(value);
    }

    /// Everything written is durable.
    pub fn sync(&mut self) {
        for values in self.values.values_mut() {
            values.drain(..values.len() - 1);
        }
        self.begun.clear();
    }

    /// A sync begins that covers everything written so far.
    pub fn begin_sync(&mut self) {
        let last = |(target, values): (&Target, &Vec<Value>)| (*target, values.len() - 1);
        self.begun = self.values.iter().map(last).collect();
    }

    /// It ended: what it covered is durable.
    pub fn end_sync(&mut self) {
        for (target, version) in std::mem::take(&mut self.begun) {
            if let Some(values) = self.values.get_mut(&target) {
                values.drain(..version);
            }
        }
    }

    /// The process goes on from what is there.
    pub fn targets(&self) -> impl Iterator<Item = (Target, &[Value])> {
        self.values.iter().map(|(target, values)| (*target, values.as_slice()))
    }
}
