//! A key-value namespace as a mapping from bytes to bytes.

use std::sync::Arc;

use byway::spec::Status;
use byway::{Backend, Error, Key, Queue, ScanOptions, StoreOptions};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyTuple};

use crate::errors::Fault;
use crate::held::{Held, Part, without_gil};
use crate::interruptible::{Interrupted, InterruptibleQueue};
use crate::keys::{Items, Keys};
use crate::memory::{fill, len_of, with_bytes};
use crate::query;
use crate::ranges::{Batch, Cursor, Scan, range_of};
use crate::turnstile::Turnstile;

/// Bytes of pairs that are gathered from Python before they are stored together.
const LOAD_BYTES: usize = 1 << 20;

/// Bytes of values that gets of many keys have room for at once, each.
const ROOM_BYTES: usize = 4096;

/// A key-value namespace, as a `MutableMapping` from bytes to bytes: `kv[b"key"]`, `kv[b"key"] = b"value"`, `del`, `in`,
/// and iteration in the order of keys.
///
/// `len` is exact: an embedded device mostly knows, any other device is listed, which takes as long as that takes.
#[pyclass(frozen, module = "byway", mapping)]
pub struct Kv(pub Arc<Calls>);

/// Synchronous calls to a key-value namespace, with their queue.
pub struct Calls {
    kv: Turnstile<Option<byway::Kv>>,
    nsid: u32,
    interrupted: Interrupted,
    held: Arc<Held>,
}

impl Calls {
    /// Does something with the namespace, with the GIL released. Ctrl-C ends it.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut byway::Kv) -> byway::Result<R> + Send,
    ) -> PyResult<R> {
        self.held.check_owner()?;
        let done = py.detach(|| -> Result<R, Fault> {
            let mut kv = self.kv.enter();
            Ok(what(kv.as_mut().ok_or(Fault::Closed("device"))?)?)
        });
        match done {
            Ok(done) => Ok(done),
            Err(fault) => Err(self.interrupted.take().unwrap_or_else(|| fault.into())),
        }
    }

    /// The values of many keys; None for one that is gone.
    pub fn values_of(&self, py: Python<'_>, keys: &[Key]) -> PyResult<Vec<Option<Vec<u8>>>> {
        self.with(py, |kv| {
            let mut values = vec![None; keys.len()];
            kv.get_many(keys, ROOM_BYTES, |at, value| {
                if let Some(place) = values.get_mut(at) {
                    *place = value.map(<[u8]>::to_vec);
                }
            })?;
            Ok(values)
        })
    }
}

impl Part for Calls {
    fn close(&self) {
        drop(self.kv.enter().take());
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        if !self.held.is_here() {
            return;
        }
        without_gil(|| self.close());
    }
}

impl Kv {
    /// Namespace `nsid` of a device, or that of the URI, or the first of keys and values.
    pub fn open(held: &Arc<Held>, nsid: Option<u32>) -> Result<Self, Fault> {
        let nsid = nsid.map(byway::Nsid::new).transpose()?;
        let interrupted = Interrupted::default();
        let kv = match held.look(|device| Ok(device.as_embedded().is_some_and(|it| it.never_waits())))? {
            true => held.look(|device| device.kv(nsid))?,
            false => patient(held, nsid, &interrupted)?,
        };
        let nsid = kv.nsid().get();
        let calls =
            Arc::new(Calls { kv: Turnstile::new(Some(kv)), nsid, interrupted, held: Arc::clone(held) });
        held.adopt(&calls);
        Ok(Self(calls))
    }
}

#[pymethods]
impl Kv {
    /// The namespace's identifier.
    #[getter]
    fn nsid(&self) -> u32 {
        self.0.nsid
    }

    fn __repr__(&self) -> String {
        format!("<byway.Kv {}>", self.0.nsid)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: KeyBytes) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.0.with(py, |kv| kv.get(key.0.as_bytes()))?;
        value.map(|value| PyBytes::new(py, &value)).ok_or_else(|| no_key(&key.0))
    }

    fn __setitem__(&self, py: Python<'_>, key: KeyBytes, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(py, key, value, false, false)
    }

    fn __delitem__(&self, py: Python<'_>, key: KeyBytes) -> PyResult<()> {
        let bytes = key.0.as_bytes();
        let was_there = self.0.with(py, |kv| {
            let is_there = kv.exists(bytes)?;
            if is_there {
                kv.delete(bytes)?;
            }
            Ok(is_there)
        })?;
        if was_there { Ok(()) } else { Err(no_key(&key.0)) }
    }

    fn __contains__(&self, py: Python<'_>, key: KeyBytes) -> PyResult<bool> {
        self.0.with(py, |kv| kv.exists(key.0.as_bytes()))
    }

    fn __iter__(&self) -> Keys {
        Keys::new(&self.0, b"".to_vec(), None)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(usize::try_from(self.count(py, KeyPart::default())?)?)
    }

    /// Whether there is a key; no key is counted for it.
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.with(py, |kv| kv.keys(None).next().transpose().map(|key| key.is_some()))
    }

    /// Whether another mapping has the same keys with the same values: all are read.
    fn __eq__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if slf.as_any().is(other) {
            return Ok(PyBool::new(py, true).to_owned().into_any());
        }
        let is_mapping = PyModule::import(py, "collections.abc")?.getattr("Mapping")?;
        if !other.is_instance(&is_mapping)? {
            return Ok(py.NotImplemented().into_bound(py));
        }
        mapping(py)?.call_method1("is_equal", (slf, other))
    }

    /// The value of a key, or `default` if there is no such key.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: KeyBytes,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.0.with(py, |kv| kv.get(key.0.as_bytes()))?;
        Ok(value.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    /// Reads the value of a key into memory of the program's. Returns the length of the whole value, which may be more than
    /// fits, or None if there is no such key.
    fn get_into(&self, key: KeyBytes, into: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let mut room = vec![0; len_of(into)?];
        let len = self.0.with(into.py(), |kv| kv.get_into(key.0.as_bytes(), &mut room))?;
        if let Some(len) = len {
            fill(into, room.get(..len).unwrap_or(&room))?;
        }
        Ok(len)
    }

    /// Runs a program over the value of a key, in the device: the one that was loaded with the identifier `operation`, or one of the device's
    /// own, 1 to 5. Returns at most `max_bytes` of its output, and the length of the whole output. Which programs may run is said where the
    /// device is opened, by `exec=` in its URI.
    #[pyo3(signature = (key, operation, input=None, *, max_bytes=65536))]
    fn exec<'py>(
        &self,
        py: Python<'py>,
        key: KeyBytes,
        operation: u32,
        input: Option<&Bound<'py, PyAny>>,
        max_bytes: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        let mut output = vec![0; max_bytes];
        let mut exec =
            |input: &[u8]| self.0.with(py, |kv| kv.exec(key.0.as_bytes(), operation, input, &mut output));
        let len = match input {
            Some(input) => with_bytes(input, exec)?,
            None => exec(&[]),
        }?;
        Ok((PyBytes::new(py, output.get(..len).unwrap_or(&output)), len))
    }

    /// The values of many keys, asked for together; None for each that is not there.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<KeyBytes>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys: Vec<Key> = keys.into_iter().map(|key| key.0).collect();
        let values = self.0.values_of(py, &keys)?;
        Ok(values.into_iter().map(|value| Some(PyBytes::new(py, &value?))).collect())
    }

    /// Stores a value. When this returns, it survives the death of the process.
    #[pyo3(signature = (key, value, *, must_exist=false, must_not_exist=false))]
    fn put(
        &self,
        py: Python<'_>,
        key: KeyBytes,
        value: &Bound<'_, PyAny>,
        must_exist: bool,
        must_not_exist: bool,
    ) -> PyResult<()> {
        let options = StoreOptions::NONE.must_exist(must_exist).must_not_exist(must_not_exist);
        let put = |value: &[u8]| self.0.with(py, |kv| kv.put_if(key.0.as_bytes(), value, options));
        with_bytes(value, put)?
    }

    /// Deletes a key; one that is not there is deleted already.
    fn delete(&self, py: Python<'_>, key: KeyBytes) -> PyResult<()> {
        self.0.with(py, |kv| kv.delete(key.0.as_bytes()))
    }

    /// The keys in order, as far as a device whose index is damaged can list them, and a sentence for each stretch that it
    /// cannot.
    fn listable_keys<'py>(&self, py: Python<'py>) -> PyResult<(Vec<Bound<'py, PyBytes>>, Vec<String>)> {
        let (keys, missed) = self.0.with(py, |kv| {
            let mut missed = Vec::new();
            let keys = kv.listable_keys(|unlisted| missed.push(unlisted.to_string()))?;
            Ok((keys, missed))
        })?;
        Ok((keys.iter().map(|key| PyBytes::new(py, key.as_bytes())).collect(), missed))
    }

    /// The keys in order: all, those that begin with `prefix`, those from `start` on.
    #[pyo3(signature = (prefix=KeyPart::default(), start=None))]
    fn keys<'py>(
        slf: &Bound<'py, Self>,
        prefix: KeyPart,
        start: Option<KeyBytes>,
    ) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Keys", &prefix, start)
    }

    /// The keys in order, as `keys` has them, each with its value.
    #[pyo3(signature = (prefix=KeyPart::default(), start=None))]
    fn items<'py>(
        slf: &Bound<'py, Self>,
        prefix: KeyPart,
        start: Option<KeyBytes>,
    ) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Items", &prefix, start)
    }

    /// The values in the order of their keys, as `keys` has them.
    #[pyo3(signature = (prefix=KeyPart::default(), start=None))]
    fn values<'py>(
        slf: &Bound<'py, Self>,
        prefix: KeyPart,
        start: Option<KeyBytes>,
    ) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "Values", &prefix, start)
    }

    fn _iter_keys(&self, prefix: KeyPart, start: Option<KeyBytes>) -> Keys {
        Keys::new(&self.0, prefix.0, start.map(|key| key.0))
    }

    fn _iter_items(&self, prefix: KeyPart, start: Option<KeyBytes>) -> Items {
        Items::new(self._iter_keys(prefix, start))
    }

    /// Deletes a key and returns its value, or `default` where there is no such key and a default is given.
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: KeyBytes,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and at most one default"));
        }
        let popped = self.0.with(py, |kv| {
            let value = kv.get(key.0.as_bytes())?;
            if value.is_some() {
                kv.delete(key.0.as_bytes())?;
            }
            Ok(value)
        })?;
        match popped {
            Some(value) => Ok(PyBytes::new(py, &value).into_any()),
            None => default.iter().next().ok_or_else(|| no_key(&key.0)),
        }
    }

    /// Deletes the first key and returns it with its value.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let popped = self.0.with(py, |kv| {
            while let Some(key) = kv.keys(None).next().transpose()? {
                let value = kv.get(key.as_bytes())?;
                kv.delete(key.as_bytes())?;
                // Another writer may have deleted it in between.
                if let Some(value) = value {
                    return Ok(Some((key, value)));
                }
            }
            Ok(None)
        })?;
        let (key, value) = popped.ok_or_else(|| PyKeyError::new_err("the namespace has no key"))?;
        Ok((PyBytes::new(py, key.as_bytes()), PyBytes::new(py, &value)))
    }

    /// The value of a key, which is `default` from now on where there was no such key.
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: KeyBytes,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let default = with_bytes(default, <[u8]>::to_vec)?;
        let value = self.0.with(py, |kv| match kv.get(key.0.as_bytes())? {
            Some(value) => Ok(value),
            None => kv.put(key.0.as_bytes(), &default).map(|()| default),
        })?;
        Ok(PyBytes::new(py, &value))
    }

    /// Deletes every key, one by one: `Device.format` empties a namespace at once.
    fn clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        mapping(slf.py())?.call_method1("clear", (slf,)).map(drop)
    }

    /// Stores the pairs of a mapping, or pairs in any order, as `load` does.
    #[pyo3(signature = (pairs=None, /))]
    fn update(slf: &Bound<'_, Self>, pairs: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        match pairs {
            Some(pairs) => mapping(slf.py())?.call_method1("update", (slf, pairs)).map(drop),
            None => Ok(()),
        }
    }

    /// How many keys there are, or how many begin with `prefix`: from the engine's counter for a device in this process, else
    /// counted one by one.
    #[pyo3(signature = (prefix=KeyPart::default()))]
    fn count(&self, py: Python<'_>, prefix: KeyPart) -> PyResult<u64> {
        if prefix.0.is_empty()
            && let Some(keys) = self.counted(py)?
        {
            return Ok(keys);
        }
        self.0.with(py, |kv| {
            let mut keys = kv.keys_with_prefix(&prefix.0, None)?;
            keys.try_fold(0, |count, key| key.map(|_| count + 1))
        })
    }

    /// Keys with their values in order: those that begin with `prefix`, or from `start` to before `end`. `reverse` gives the last
    /// first, `keys_only` empty values, `value_bytes` at most so much of each value.
    #[pyo3(signature = (prefix=None, start=None, end=None, *, reverse=false, limit=None, keys_only=false, value_bytes=None))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn scan(
        &self,
        prefix: Option<KeyPart>,
        start: Option<KeyBytes>,
        end: Option<KeyBytes>,
        reverse: bool,
        limit: Option<u64>,
        keys_only: bool,
        value_bytes: Option<u16>,
    ) -> PyResult<Scan> {
        let options = ScanOptions::default().backward(reverse).limit(limit).keys_only(keys_only);
        Scan::new(&self.0, (prefix, start, end), options.value_bytes(value_bytes))
    }

    /// Has the device execute `sql` over the value of a key, a Parquet file; returns the result as bytes: `csv`, `jsonl` or `arrow` (a
    /// stream of Arrow IPC). `explain` says what the query would read and move instead.
    #[pyo3(signature = (key, sql, *, format="csv", header=true, explain=false))]
    fn query<'py>(
        &self,
        py: Python<'py>,
        key: KeyBytes,
        sql: &str,
        format: &str,
        header: bool,
        explain: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let options = query::options_of(format, header, explain)?;
        let result = self.0.with(py, |kv| query::whole(kv.query(key.0.as_bytes(), sql, options)?))?;
        Ok(PyBytes::new(py, &result))
    }

    /// The same as a `pyarrow.Table`: `to_pandas()` of it is a data frame.
    fn query_arrow<'py>(&self, py: Python<'py>, key: KeyBytes, sql: &str) -> PyResult<Bound<'py, PyAny>> {
        let options = query::arrow();
        let stream = self.0.with(py, |kv| query::whole(kv.query(key.0.as_bytes(), sql, options)?))?;
        query::table(py, &stream)
    }

    /// A cursor over all pairs.
    fn cursor(&self) -> Cursor {
        Cursor::new(&self.0)
    }

    /// Does all that a batch holds or nothing of it, through any crash. A device without atomic Store Many refuses.
    fn commit(&self, py: Python<'_>, batch: &Batch) -> PyResult<()> {
        let changes = batch.changes();
        self.0.with(py, |kv| kv.commit(&changes))
    }

    /// Deletes many keys; one that is not there is deleted already. Not atomic.
    fn delete_many(&self, py: Python<'_>, keys: Vec<KeyBytes>) -> PyResult<()> {
        let keys: Vec<Key> = keys.into_iter().map(|key| key.0).collect();
        self.0.with(py, |kv| kv.delete_many(&keys))
    }

    /// Deletes the keys that begin with `prefix`, or from `start` to before `end`; returns how many. One of them is named:
    /// `clear` deletes all. Not atomic.
    #[pyo3(signature = (prefix=None, start=None, end=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        prefix: Option<KeyPart>,
        start: Option<KeyBytes>,
        end: Option<KeyBytes>,
    ) -> PyResult<u64> {
        if prefix.is_none() && start.is_none() && end.is_none() {
            return Err(PyValueError::new_err("name a prefix, a start or an end"));
        }
        let range = range_of((prefix, start, end))?;
        self.0.with(py, |kv| kv.delete_range(range))
    }

    /// Stores many pairs, many by one command: a mapping, or pairs in any order. Returns how many. Not atomic: on an error, a
    /// first part is stored.
    fn load(&self, pairs: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = pairs.py();
        let pairs = if pairs.hasattr("items")? { pairs.call_method0("items")? } else { pairs.clone() };
        let (mut loaded, mut bytes, mut gathered) = (0, 0, Vec::new());
        for pair in pairs.try_iter()? {
            let (key, value): (KeyBytes, Bound<'_, PyAny>) = pair?.extract()?;
            let value = with_bytes(&value, <[u8]>::to_vec)?;
            bytes += value.len();
            gathered.push((key.0, value));
            if bytes >= LOAD_BYTES {
                loaded += self.load_gathered(py, std::mem::take(&mut gathered))?;
                bytes = 0;
            }
        }
        Ok(loaded + self.load_gathered(py, gathered)?)
    }
}

impl Kv {
    /// What a device in this process has counted, if it is exact.
    fn counted(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let nsid = byway::Nsid::new(self.0.nsid).map_err(Fault::from)?;
        self.0.held.with(py, |device| {
            let stats = device.as_embedded().and_then(|embedded| embedded.kv_stats(nsid));
            Ok(stats.filter(|stats| stats.unsettled_entries == 0).map(|stats| stats.keys))
        })
    }

    fn load_gathered(&self, py: Python<'_>, pairs: Vec<(Key, Vec<u8>)>) -> PyResult<u64> {
        self.0.with(py, |kv| kv.load(pairs))
    }
}

/// What a namespace has of Python's own mappings.
fn mapping(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("byway._mapping").map(Bound::unbind))?;
    Ok(module.bind(py))
}

/// A view of keys, items or values.
fn view<'py>(
    kv: &Bound<'py, Kv>,
    class: &str,
    prefix: &KeyPart,
    start: Option<KeyBytes>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = kv.py();
    let start = start.map(|key| PyBytes::new(py, key.0.as_bytes()));
    mapping(py)?.getattr(class)?.call1((kv, PyBytes::new(py, &prefix.0), start))
}

/// Calls to a namespace of a device that lets them wait: Ctrl-C ends them.
fn patient(
    held: &Arc<Held>,
    nsid: Option<byway::Nsid>,
    interrupted: &Interrupted,
) -> Result<byway::Kv, Fault> {
    let kv = held.look(|device| {
        let (options, namespace) = (device.queue_options(), device.kv_namespace(nsid)?);
        let queue = device.default_queue()?;
        let capabilities = capabilities_of(device, &queue);
        let queue = Queue::other(InterruptibleQueue::new(queue, options, interrupted.clone()));
        Ok(byway::Kv::new(queue, &namespace)?.with_capabilities(&capabilities))
    })?;
    let of = Arc::clone(held);
    Ok(kv.with_memory(move |len| of.look(|device| device.buffer(len)).map_err(Fault::into_error)))
}

/// What can be done by a queue of a device's.
fn capabilities_of(device: &byway::Device, queue: &Queue) -> byway::Capabilities {
    let mut capabilities = device.capabilities().clone();
    let limits = &mut capabilities.limits;
    if let Some(bytes) = queue.ring_payload_bytes() {
        let most = limits.inline_bytes.min(u32::try_from(bytes).unwrap_or(u32::MAX));
        limits.bulk_bytes = limits.bulk_bytes.min(most);
    }
    capabilities
}

fn no_key(key: &Key) -> PyErr {
    let status = Status::KEY_DOES_NOT_EXIST.with_dnr();
    Fault::from(Error::status(status).doing(format!("look for key {key}"))).into()
}

/// A key: any object that holds 1 to 16 bytes.
pub struct KeyBytes(pub Key);

impl<'py> FromPyObject<'_, 'py> for KeyBytes {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let key = with_bytes(&given, Key::new)?;
        Ok(Self(key.map_err(|error| Fault::from(Error::from(error)))?))
    }
}

/// The beginning of keys: any object that holds bytes.
#[derive(Default)]
pub struct KeyPart(pub Vec<u8>);

impl<'py> FromPyObject<'_, 'py> for KeyPart {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        with_bytes(&given, |bytes| Self(bytes.to_vec()))
    }
}
