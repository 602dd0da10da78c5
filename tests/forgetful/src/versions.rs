//! Allowed values after a power loss: for each target the synced value, and every value written since.

use std::collections::BTreeMap;

/// Values by target. The default of a value is the content before any write.
#[derive(Debug, Clone)]
pub struct Versions<T, V> {
    values: BTreeMap<T, Vec<V>>,
    /// For each target, which version was the last when a sync was begun that has not ended.
    begun: BTreeMap<T, usize>,
}

impl<T: Ord + Copy, V: Clone + Default> Versions<T, V> {
    /// The initial values, all durable.
    pub fn of(values: impl IntoIterator<Item = (T, V)>) -> Self {
        let values = values.into_iter().map(|(target, value)| (target, vec![value])).collect();
        Self { values, begun: BTreeMap::new() }
    }

    /// The present value.
    pub fn last(&self, target: T) -> V {
        self.values.get(&target).and_then(|values| values.last()).cloned().unwrap_or_default()
    }

    /// Something is about to be written.
    pub fn write(&mut self, target: T, value: V) {
        self.values.entry(target).or_insert_with(|| vec![V::default()]).push(value);
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
        self.begun = self.values.iter().map(|(target, values)| (*target, values.len() - 1)).collect();
    }

    /// The sync ended: the values it covered are durable.
    pub fn end_sync(&mut self) {
        for (target, version) in std::mem::take(&mut self.begun) {
            if let Some(values) = self.values.get_mut(&target) {
                values.drain(..version);
            }
        }
    }

    /// Each target with what may be there, in the order it was written.
    pub fn targets(&self) -> impl Iterator<Item = (T, &[V])> {
        self.values.iter().map(|(target, values)| (*target, values.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_value_is_the_oldest_allowed_after_a_cut() {
        let mut versions = Versions::of([(1, 10)]);
        versions.write(1, 11);
        versions.begin_sync();
        versions.write(1, 12);
        versions.write(2, 20);
        assert_eq!(versions.targets().collect::<Vec<_>>(), [(1, &[10, 11, 12][..]), (2, &[0, 20][..])]);
        versions.end_sync();
        assert_eq!(versions.targets().collect::<Vec<_>>(), [(1, &[11, 12][..]), (2, &[0, 20][..])]);
        versions.sync();
        assert_eq!((versions.last(1), versions.last(2), versions.last(3)), (12, 20, 0));
    }
}
