//! What crossed the link of an embedded device, by class of transaction.

use pyo3::prelude::*;

use crate::facts::facts;

facts! {
    /// What one class of transactions amounts to.
    LedgerRow {
        /// Number of transactions.
        count: u64,
        /// Bytes of payload.
        payload_bytes: u64,
        /// Bytes on the wire, from the host to the device.
        down_bytes: u64,
        /// Bytes on the wire, from the device to the host.
        up_bytes: u64,
    }
}

/// What crossed the link so far; subtract an earlier one for what did since.
#[pyclass(frozen, eq, module = "byway")]
#[derive(Clone, Copy, PartialEq)]
pub struct Ledger(byway::Ledger);

#[pymethods]
impl Ledger {
    /// Payload bytes of all classes but interrupts.
    #[getter]
    fn payload_bytes(&self) -> u64 {
        self.0.payload_bytes()
    }

    /// Wire bytes of all classes, interrupts too.
    #[getter]
    fn wire_bytes(&self) -> u64 {
        self.0.wire_bytes()
    }

    /// Payload bytes of interrupts.
    #[getter]
    fn interrupt_bytes(&self) -> u64 {
        self.0.interrupt_bytes()
    }

    /// The classes that occurred, by name.
    fn rows(&self) -> std::collections::BTreeMap<&'static str, LedgerRow> {
        let occurred = self.0.rows().filter(|(_, row)| row.count > 0);
        occurred.map(|(class, row)| (class.name(), LedgerRow::of(row.count, row.cost))).collect()
    }

    fn __sub__(&self, earlier: &Self) -> Self {
        Self(self.0.since(&earlier.0))
    }

    fn __repr__(&self) -> String {
        format!("Ledger(payload_bytes={}, wire_bytes={})", self.0.payload_bytes(), self.0.wire_bytes())
    }
}

impl From<byway::Ledger> for Ledger {
    fn from(ledger: byway::Ledger) -> Self {
        Self(ledger)
    }
}

impl LedgerRow {
    fn of(count: u64, cost: byway::Cost) -> Self {
        let byway::Cost { payload_bytes, down_bytes, up_bytes } = cost;
        Self { count, payload_bytes, down_bytes, up_bytes }
    }
}
