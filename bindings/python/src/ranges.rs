//! Scans, cursors and batches of a key-value namespace. The GIL is released while the device works.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway::{CursorState, Key, KeyRange, ScanOptions, ScanState};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Fault;
use crate::kv::{Calls, KeyBytes, KeyPart};
use crate::memory::with_bytes;

/// Pairs that are taken from a scan with the GIL released once.
const PAIRS_AT_ONCE: usize = 128;

/// Pairs of a range in order, one after the other.
#[pyclass(frozen, module = "byway._byway", name = "ScanIterator")]
pub struct Scan {
    calls: Arc<Calls>,
    place: Mutex<Place>,
}

struct Place {
    scan: ScanState,
    ready: VecDeque<(Key, Vec<u8>)>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl Scan {
    const fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        if let Some(pair) = locked(&self.place).ready.pop_front() {
            return Ok(Some(pair_of(py, &pair)));
        }
        let next = self.calls.with(py, |kv| {
            let place = &mut *locked(&self.place);
            while place.ready.len() < PAIRS_AT_ONCE
                && let Some((key, value)) = place.scan.next_pair(kv)?
            {
                place.ready.push_back((Key::new(key)?, value.to_vec()));
            }
            Ok(place.ready.pop_front())
        })?;
        Ok(next.map(|pair| pair_of(py, &pair)))
    }
}

fn pair_of<'py>(
    py: Python<'py>,
    (key, value): &(Key, Vec<u8>),
) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
    (PyBytes::new(py, key.as_bytes()), PyBytes::new(py, value))
}

/// A position among the pairs of a namespace: `seek`, then `next` and `prev` in any order.
#[pyclass(frozen, module = "byway._byway", name = "Cursor")]
pub struct Cursor {
    calls: Arc<Calls>,
    state: Mutex<CursorState>,
}

#[pymethods]
impl Cursor {
    /// Goes to the first pair whose key is `key` or above; whether there is one.
    fn seek(&self, py: Python<'_>, key: KeyBytes) -> PyResult<bool> {
        self.calls.with(py, |kv| locked(&self.state).seek(kv, key.0.as_bytes()))
    }

    /// Goes to the first pair; whether there is one.
    fn seek_first(&self, py: Python<'_>) -> PyResult<bool> {
        self.calls.with(py, |kv| locked(&self.state).seek_first(kv))
    }

    /// Goes to the last pair; whether there is one.
    fn seek_last(&self, py: Python<'_>) -> PyResult<bool> {
        self.calls.with(py, |kv| locked(&self.state).seek_last(kv))
    }

    /// Goes to the next pair; whether there is one.
    fn next(&self, py: Python<'_>) -> PyResult<bool> {
        self.calls.with(py, |kv| locked(&self.state).next(kv))
    }

    /// Goes to the pair before; whether there is one.
    fn prev(&self, py: Python<'_>) -> PyResult<bool> {
        self.calls.with(py, |kv| locked(&self.state).prev(kv))
    }

    /// The key it is at, or None.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        locked(&self.state).key().map(|key| PyBytes::new(py, key))
    }

    /// The value it is at, or None.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        locked(&self.state).value().map(|value| PyBytes::new(py, value))
    }
}

/// Puts and deletions for `Kv.commit`. Of several changes of one key the last counts.
#[pyclass(frozen, module = "byway._byway", name = "Batch")]
#[derive(Default)]
pub struct Batch(Mutex<byway::Batch>);

#[pymethods]
impl Batch {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds a put.
    fn put(&self, key: KeyBytes, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let put = with_bytes(value, |value| locked(&self.0).put(key.0.as_bytes(), value))?;
        Ok(put.map_err(Fault::from)?)
    }

    /// Adds a deletion.
    fn delete(&self, key: KeyBytes) -> PyResult<()> {
        Ok(locked(&self.0).delete(key.0.as_bytes()).map_err(Fault::from)?)
    }

    /// Forgets what was added.
    fn clear(&self) {
        locked(&self.0).clear();
    }

    fn __len__(&self) -> usize {
        locked(&self.0).len()
    }
}

/// Keys by name, as calls from Python give them: a prefix, or a start and an end.
pub type Named = (Option<KeyPart>, Option<KeyBytes>, Option<KeyBytes>);

impl Scan {
    /// A scan at its beginning.
    pub fn new(calls: &Arc<Calls>, named: Named, options: ScanOptions) -> PyResult<Self> {
        let scan = ScanState::new(&range_of(named)?, options);
        Ok(Self { calls: Arc::clone(calls), place: Mutex::new(Place { scan, ready: VecDeque::new() }) })
    }
}

impl Cursor {
    /// A cursor before the first pair.
    pub fn new(calls: &Arc<Calls>) -> Self {
        Self { calls: Arc::clone(calls), state: Mutex::default() }
    }
}

impl Batch {
    /// What was added so far.
    pub fn changes(&self) -> byway::Batch {
        locked(&self.0).clone()
    }
}

/// The range of these keys.
pub fn range_of((prefix, start, end): Named) -> PyResult<KeyRange> {
    let bytes = |key: &Option<KeyBytes>| key.as_ref().map(|key| key.0.as_bytes().to_vec());
    let range = match (prefix, bytes(&start), bytes(&end)) {
        (Some(prefix), None, None) => KeyRange::prefix(&prefix.0),
        (Some(_), ..) => return Err(PyValueError::new_err("a prefix stands alone")),
        (None, None, None) => Ok(KeyRange::ALL),
        (None, Some(start), None) => KeyRange::new(start..),
        (None, None, Some(end)) => KeyRange::new(..end),
        (None, Some(start), Some(end)) => KeyRange::new(start..end),
    };
    Ok(range.map_err(Fault::from)?)
}
