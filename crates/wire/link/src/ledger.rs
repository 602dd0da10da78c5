//! The account of what crossed the link, by class of transaction.

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::class::Class;
use crate::cost::Cost;

/// Count and cost of one class of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Transactions recorded. A read or write that is split into several packets counts once.
    pub count: u64,
    /// Their total cost.
    #[serde(flatten)]
    pub cost: Cost,
}

/// Counts and costs of what crossed the link, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    rows: [Row; Class::COUNT],
}

impl Ledger {
    /// Adds one transaction.
    #[inline]
    pub fn record(&mut self, class: Class, cost: Cost) {
        self.record_many(class, 1, cost);
    }

    /// Adds `count` transactions that cost `cost` together.
    #[inline]
    pub fn record_many(&mut self, class: Class, count: u64, cost: Cost) {
        // The index of a class is below COUNT by construction, so this compiles to an address.
        let row = &mut self.rows[class.index()];
        row.count += count;
        row.cost += cost;
    }

    /// One class.
    pub fn row(&self, class: Class) -> Row {
        self.rows[class.index()]
    }

    /// Every class, in the order of [`Class::ALL`].
    pub fn rows(&self) -> impl Iterator<Item = (Class, Row)> + '_ {
        Class::ALL.into_iter().zip(self.rows)
    }

    /// Payload bytes of all classes but interrupts, which the papers did not count.
    pub fn payload_bytes(&self) -> u64 {
        self.total().payload_bytes - self.interrupt_bytes()
    }

    /// Wire bytes of all classes, interrupts too.
    pub fn wire_bytes(&self) -> u64 {
        self.total().wire_bytes()
    }

    /// Payload bytes of interrupts.
    pub fn interrupt_bytes(&self) -> u64 {
        self.row(Class::Interrupt).cost.payload_bytes
    }

    /// The sum of all classes, interrupts too.
    pub fn total(&self) -> Cost {
        self.rows.iter().fold(Cost::ZERO, |sum, row| sum + row.cost)
    }

    /// The difference to `earlier`, an older state of the same ledger.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut rows = self.rows;
        for (row, old) in rows.iter_mut().zip(earlier.rows) {
            row.count = row.count.saturating_sub(old.count);
            row.cost.payload_bytes = row.cost.payload_bytes.saturating_sub(old.cost.payload_bytes);
            row.cost.down_bytes = row.cost.down_bytes.saturating_sub(old.cost.down_bytes);
            row.cost.up_bytes = row.cost.up_bytes.saturating_sub(old.cost.up_bytes);
        }
        Self { rows }
    }

    /// Adds another ledger, such as the host's to the device's.
    pub fn merge(&mut self, other: &Self) {
        for (class, row) in other.rows() {
            self.record_many(class, row.count, row.cost);
        }
    }
}

impl Serialize for Ledger {
    /// A map from the name of each class that occurred to its row.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (class, row) in self.rows().filter(|(_, row)| row.count > 0) {
            map.serialize_entry(class.name(), &row)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Cost = Cost { payload_bytes: 4, down_bytes: 0, up_bytes: 24 };

    #[test]
    fn interrupts_count_as_wire_bytes_and_not_as_payload() {
        let mut ledger = Ledger::default();
        ledger.record(Class::Interrupt, COST);
        ledger.record(Class::Doorbell, Cost { payload_bytes: 4, down_bytes: 28, up_bytes: 0 });
        assert_eq!(ledger.payload_bytes(), 4);
        assert_eq!(ledger.interrupt_bytes(), 4);
        assert_eq!(ledger.wire_bytes(), 52);
    }

    #[test]
    fn ledger_difference_merges_back_to_the_total() {
        let mut ledger = Ledger::default();
        ledger.record(Class::DataRead, COST);
        let earlier = ledger;
        ledger.record(Class::DataRead, COST);
        ledger.record_many(Class::Shadow, 3, COST * 3);
        let added = ledger.since(&earlier);
        assert_eq!(added.row(Class::DataRead).count, 1);
        assert_eq!(added.row(Class::Shadow), Row { count: 3, cost: COST * 3 });
        let mut whole = earlier;
        whole.merge(&added);
        assert_eq!(whole, ledger);
    }
}
