//! What may be where: for each target what the last sync covered, and everything written since.

use std::collections::BTreeMap;

/// Something that holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A unit of the block namespace.
    Unit(u64),
    /// A page of the key-value namespace.
    Page(u64),
    /// What the owner of the block namespace keeps.
    Owner,
    /// A page and an area of a namespace that comes and goes.
    PassingPage,
    PassingArea,
}

/// Content; empty for none.
pub type Value = Vec<u8>;

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

    /// What is there now.
    pub fn last(&self, target: Target) -> Value {
        self.values.get(&target).and_then(|values| values.last()).cloned().unwrap_or_default()
    }

    /// Something is about to be written.
    pub fn write(&mut self, target: Target, value: Value) {
        self.values.entry(target).or_insert_with(|| vec![Value::new()]).push(value);
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
