//! Iteration over a key-value namespace, a page of keys at a time: between pages it holds nothing of the device's, so that
//! anything may be done to the namespace meanwhile. A key that is stored or deleted while it goes on may be met or not.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use byway::Key;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::kv::Calls;

/// Keys of the first page; each further one has twice as many, up to [`LAST_PAGE`].
const FIRST_PAGE: usize = 64;

/// Keys of a page of a long iteration.
const LAST_PAGE: usize = 4096;

/// Values that are asked for at once.
const VALUES: usize = 128;

/// Keys in order, one after the other.
#[pyclass(frozen, module = "byway._byway", name = "KeyIterator")]
pub struct Keys {
    calls: Arc<Calls>,
    prefix: Vec<u8>,
    place: Mutex<Place>,
}

/// How far an iteration has come.
struct Place {
    page: VecDeque<Key>,
    /// Where the next page begins; None where there is none.
    next: Option<Next>,
    page_keys: usize,
}

#[derive(Clone, Copy)]
enum Next {
    From(Option<Key>),
    Behind(Key),
}

/// Keys in order with their values, one after the other.
#[pyclass(frozen, module = "byway._byway", name = "ItemIterator")]
pub struct Items {
    keys: Keys,
    ready: Mutex<VecDeque<(Key, Vec<u8>)>>,
}

impl Keys {
    /// The keys that begin with `prefix`, from `start` on.
    pub fn new(calls: &Arc<Calls>, prefix: Vec<u8>, start: Option<Key>) -> Self {
        let place = Place { page: VecDeque::new(), next: Some(Next::From(start)), page_keys: FIRST_PAGE };
        Self { calls: Arc::clone(calls), prefix, place: Mutex::new(place) }
    }

    /// The next key.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Key>> {
        if let Some(key) = self.place().page.pop_front() {
            return Ok(Some(key));
        }
        self.fetch(py)?;
        Ok(self.place().page.pop_front())
    }

    /// The next keys, at most `most`; none at the end.
    fn next_many(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Key>> {
        if self.place().page.is_empty() {
            self.fetch(py)?;
        }
        let page = &mut self.place().page;
        Ok(page.drain(..most.min(page.len())).collect())
    }

    /// Asks for the next page.
    fn fetch(&self, py: Python<'_>) -> PyResult<()> {
        let (next, page_keys) = {
            let place = self.place();
            (place.next, place.page_keys)
        };
        let Some(next) = next else { return Ok(()) };
        let page = self.calls.with(py, |kv| {
            let (start, behind) = match next {
                Next::From(start) => (start, None),
                Next::Behind(last) => (Some(last), Some(last)),
            };
            let keys = kv.keys_with_prefix(&self.prefix, start)?;
            let keys = keys.filter(|key| !key.as_ref().is_ok_and(|key| Some(*key) == behind));
            keys.take(page_keys).collect::<byway::Result<VecDeque<Key>>>()
        })?;
        let next = page.back().copied().map(Next::Behind);
        *self.place() = Place { page, next, page_keys: (2 * page_keys).min(LAST_PAGE) };
        Ok(())
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Keys {
    const fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.next(py)?.map(|key| PyBytes::new(py, key.as_bytes())))
    }
}

impl Items {
    /// These keys with their values.
    pub fn new(keys: Keys) -> Self {
        Self { keys, ready: Mutex::new(VecDeque::new()) }
    }

    fn pop(&self) -> Option<(Key, Vec<u8>)> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Fetches more pairs; whether there may be any. A key that was deleted meanwhile has none.
    fn fetch(&self, py: Python<'_>) -> PyResult<bool> {
        let keys = self.keys.next_many(py, VALUES)?;
        let values = self.keys.calls.values_of(py, &keys)?;
        let pairs = keys.iter().zip(values).filter_map(|(key, value)| Some((*key, value?)));
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).extend(pairs);
        Ok(!keys.is_empty())
    }
}

#[pymethods]
impl Items {
    const fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        loop {
            if let Some((key, value)) = self.pop() {
                return Ok(Some((PyBytes::new(py, key.as_bytes()), PyBytes::new(py, &value))));
            }
            if !self.fetch(py)? {
                return Ok(None);
            }
        }
    }
}
