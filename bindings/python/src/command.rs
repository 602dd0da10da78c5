//! Commands as values: what they are, and with what memory. One may be submitted again and again.

use byway::spec::Command as Entry;
use byway::{
    CopyRanges, KvCommand, LbaRange, LbaRanges, Namespace, NamespaceKind, Nsid, NvmCommand, Payload,
    RawCommand, RawData, StoreOptions,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::buffer::Buffer;
use crate::command_queue::{CommandQueue, Flight};
use crate::errors::{Fault, invalid};
use crate::held::Held;
use crate::kv::KeyBytes;
use crate::memory::{Cargo, Keep, len_of};

/// A command for a queue. Where no namespace is given, it is for the first of its kind, or that of the URI.
#[pyclass(frozen, module = "byway")]
pub struct Command {
    name: &'static str,
    nsid: Option<u32>,
    what: What,
}

enum What {
    Read { slba: u64, blocks: u32, into: Option<Py<PyAny>> },
    Write { slba: u64, data: Py<PyAny> },
    Compare { slba: u64, data: Py<PyAny> },
    CompareAndWrite { slba: u64, both: Py<PyAny> },
    Flush,
    Trim { ranges: Vec<LbaRange> },
    WriteZeroes { slba: u64, blocks: u32 },
    Verify { slba: u64, blocks: u32 },
    Copy { to: u64, from: Vec<LbaRange> },
    Put { key: byway::Key, value: Py<PyAny>, options: StoreOptions },
    Get { key: byway::Key, into: Py<PyAny> },
    Delete { key: byway::Key },
    Exists { key: byway::Key },
    Raw { entry: Box<Entry>, data: Option<Py<PyAny>>, into: Option<Py<PyAny>> },
}

/// The namespaces that commands of a queue may be for.
pub struct Spaces {
    all: Vec<Namespace>,
    nvm: Result<Namespace, String>,
    kv: Result<Namespace, String>,
}

/// A command with its memory, ready to be sent.
pub type Ready = (byway::Command, Flight);

impl Spaces {
    /// Those of a device.
    pub fn of(held: &Held) -> Result<Self, Fault> {
        use byway::Backend;
        held.look(|device| {
            let meant = |namespace: byway::Result<Namespace>| namespace.map_err(|error| error.to_string());
            let (nvm, kv) = (meant(device.nvm_namespace(None)), meant(device.kv_namespace(None)));
            Ok(Self { all: device.namespaces()?, nvm, kv })
        })
    }

    fn given(&self, nsid: u32) -> PyResult<&Namespace> {
        let found = self.all.iter().find(|namespace| namespace.nsid.get() == nsid);
        found.ok_or_else(|| invalid(format!("there is no namespace {nsid}")))
    }

    /// The block namespace that is meant, and the bytes of its blocks.
    fn nvm(&self, nsid: Option<u32>) -> PyResult<(Nsid, usize)> {
        let namespace = match nsid {
            Some(nsid) => self.given(nsid)?,
            None => self.nvm.as_ref().map_err(|said| invalid(said.clone()))?,
        };
        match namespace.kind {
            NamespaceKind::Nvm { lba_bytes, .. } => Ok((namespace.nsid, lba_bytes as usize)),
            _ => Err(invalid(format!("namespace {} is no block namespace", namespace.nsid))),
        }
    }

    /// The key-value namespace that is meant.
    fn kv(&self, nsid: Option<u32>) -> PyResult<Nsid> {
        let namespace = match nsid {
            Some(nsid) => self.given(nsid)?,
            None => self.kv.as_ref().map_err(|said| invalid(said.clone()))?,
        };
        match namespace.kind {
            NamespaceKind::Kv { .. } => Ok(namespace.nsid),
            _ => Err(invalid(format!("namespace {} is no key-value namespace", namespace.nsid))),
        }
    }
}

#[pymethods]
impl Command {
    /// Reads blocks into `into`, or into a buffer that the completion brings.
    #[staticmethod]
    #[pyo3(signature = (slba, blocks=1, into=None, *, nsid=None))]
    fn read(slba: u64, blocks: u32, into: Option<Py<PyAny>>, nsid: Option<u32>) -> Self {
        Self { name: "read", nsid, what: What::Read { slba, blocks, into } }
    }

    /// Writes blocks.
    #[staticmethod]
    #[pyo3(signature = (slba, data, *, nsid=None))]
    fn write(slba: u64, data: Py<PyAny>, nsid: Option<u32>) -> Self {
        Self { name: "write", nsid, what: What::Write { slba, data } }
    }

    /// Compares blocks with `data`: finishes with MismatchError where they differ.
    #[staticmethod]
    #[pyo3(signature = (slba, data, *, nsid=None))]
    fn compare(slba: u64, data: Py<PyAny>, nsid: Option<u32>) -> Self {
        Self { name: "compare", nsid, what: What::Compare { slba, data } }
    }

    /// Writes `new` if the blocks equal `expected`, of the same length: atomically against other writers. Finishes with
    /// MismatchError where they differ.
    #[staticmethod]
    #[pyo3(signature = (slba, expected, new, *, nsid=None))]
    fn compare_and_write(
        slba: u64,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
        nsid: Option<u32>,
    ) -> PyResult<Self> {
        let both = both_of(expected, new)?.into_any().unbind();
        Ok(Self { name: "compare_and_write", nsid, what: What::CompareAndWrite { slba, both } })
    }

    /// Makes completed writes durable.
    #[staticmethod]
    #[pyo3(signature = (*, nsid=None))]
    fn flush(nsid: Option<u32>) -> Self {
        Self { name: "flush", nsid, what: What::Flush }
    }

    /// Deallocates blocks that are no longer needed.
    #[staticmethod]
    #[pyo3(signature = (slba, blocks=1, *, nsid=None))]
    fn trim(slba: u64, blocks: u32, nsid: Option<u32>) -> Self {
        Self { name: "trim", nsid, what: What::Trim { ranges: vec![LbaRange { slba, blocks }] } }
    }

    /// As `trim`, of several ranges: pairs of a first block and a number of blocks.
    #[staticmethod]
    #[pyo3(signature = (ranges, *, nsid=None))]
    fn trim_ranges(ranges: Vec<(u64, u32)>, nsid: Option<u32>) -> Self {
        Self { name: "trim", nsid, what: What::Trim { ranges: ranges_of(&ranges) } }
    }

    /// Makes blocks read as zeroes.
    #[staticmethod]
    #[pyo3(signature = (slba, blocks=1, *, nsid=None))]
    fn write_zeroes(slba: u64, blocks: u32, nsid: Option<u32>) -> Self {
        Self { name: "write_zeroes", nsid, what: What::WriteZeroes { slba, blocks } }
    }

    /// Reads and checks blocks within the device.
    #[staticmethod]
    #[pyo3(signature = (slba, blocks=1, *, nsid=None))]
    fn verify(slba: u64, blocks: u32, nsid: Option<u32>) -> Self {
        Self { name: "verify", nsid, what: What::Verify { slba, blocks } }
    }

    /// Copies ranges, pairs of a first block and a number of blocks, to block `to`, within the device.
    #[staticmethod]
    #[pyo3(signature = (to, ranges, *, nsid=None))]
    fn copy(to: u64, ranges: Vec<(u64, u32)>, nsid: Option<u32>) -> Self {
        Self { name: "copy", nsid, what: What::Copy { to, from: ranges_of(&ranges) } }
    }

    /// Stores a value.
    #[staticmethod]
    #[pyo3(signature = (key, value, *, must_exist=false, must_not_exist=false, nsid=None))]
    fn put(
        key: KeyBytes,
        value: Py<PyAny>,
        must_exist: bool,
        must_not_exist: bool,
        nsid: Option<u32>,
    ) -> Self {
        let options = StoreOptions::NONE.must_exist(must_exist).must_not_exist(must_not_exist);
        Self { name: "put", nsid, what: What::Put { key: key.0, value, options } }
    }

    /// Reads a value into `into`, or as many bytes as `into` says into a buffer that the completion brings; its result is the
    /// length of the whole value.
    #[staticmethod]
    #[pyo3(signature = (key, into, *, nsid=None))]
    fn get(key: KeyBytes, into: Py<PyAny>, nsid: Option<u32>) -> Self {
        Self { name: "get", nsid, what: What::Get { key: key.0, into } }
    }

    /// Deletes a key.
    #[staticmethod]
    #[pyo3(signature = (key, *, nsid=None))]
    fn delete(key: KeyBytes, nsid: Option<u32>) -> Self {
        Self { name: "delete", nsid, what: What::Delete { key: key.0 } }
    }

    /// Asks whether a key is there: finishes with KeyNotFoundError where it is not.
    #[staticmethod]
    #[pyo3(signature = (key, *, nsid=None))]
    fn exists(key: KeyBytes, nsid: Option<u32>) -> Self {
        Self { name: "exists", nsid, what: What::Exists { key: key.0 } }
    }

    /// Any command, passed through: the dwords of its entry, and what it sends or fills (an object that holds memory, or a
    /// number of bytes).
    #[staticmethod]
    #[pyo3(signature = (opcode, *, nsid=0, cdw2=0, cdw3=0, cdw10=0, cdw11=0, cdw12=0, cdw13=0, cdw14=0, cdw15=0, data=None, into=None))]
    #[expect(clippy::too_many_arguments, reason = "the fields of an entry")]
    fn raw(
        opcode: u8,
        nsid: u32,
        cdw2: u32,
        cdw3: u32,
        cdw10: u32,
        cdw11: u32,
        cdw12: u32,
        cdw13: u32,
        cdw14: u32,
        cdw15: u32,
        data: Option<Py<PyAny>>,
        into: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        if data.is_some() && into.is_some() {
            return Err(invalid("a command sends or receives, not both"));
        }
        let entry =
            Entry { cdw2, cdw3, cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, ..Entry::new(opcode, 0, nsid) };
        Ok(Self { name: "raw", nsid: None, what: What::Raw { entry: Box::new(entry), data, into } })
    }

    /// The word for it: `read`, `put`, `raw` and so on.
    #[getter]
    const fn name(&self) -> &'static str {
        self.name
    }

    fn __repr__(&self) -> String {
        format!("<byway.Command {}>", self.name)
    }
}

impl Command {
    /// The command with its memory, for a queue.
    pub fn ready(&self, py: Python<'_>, queue: &CommandQueue, spaces: &Spaces) -> PyResult<Ready> {
        match &self.what {
            What::Read { .. }
            | What::Write { .. }
            | What::Compare { .. }
            | What::CompareAndWrite { .. }
            | What::Flush
            | What::Trim { .. }
            | What::WriteZeroes { .. }
            | What::Verify { .. }
            | What::Copy { .. } => self.nvm(py, queue, spaces.nvm(self.nsid)?),
            What::Put { .. } | What::Get { .. } | What::Delete { .. } | What::Exists { .. } => {
                self.kv(py, queue, spaces.kv(self.nsid)?)
            }
            What::Raw { entry, data, into } => raw(py, queue, entry, data.as_ref(), into.as_ref()),
        }
    }

    fn nvm(&self, py: Python<'_>, queue: &CommandQueue, (nsid, lba_bytes): (Nsid, usize)) -> PyResult<Ready> {
        let command = match &self.what {
            What::Read { slba, blocks, into } => {
                return read(py, queue, nsid, lba_bytes, *slba, *blocks, into.as_ref());
            }
            What::Write { slba, data } => {
                return send(py, queue, data, lba_bytes, |blocks, data| {
                    NvmCommand::Write { nsid, slba: *slba, blocks, data }.into()
                });
            }
            What::Compare { slba, data } => {
                return send(py, queue, data, lba_bytes, |blocks, data| {
                    NvmCommand::Compare { nsid, slba: *slba, blocks, data }.into()
                });
            }
            What::CompareAndWrite { slba, both } => {
                return send(py, queue, both, 2 * lba_bytes, |blocks, data| {
                    NvmCommand::CompareAndWrite { nsid, slba: *slba, blocks, data }.into()
                });
            }
            What::Trim { ranges } => {
                NvmCommand::Deallocate { nsid, ranges: LbaRanges::new(ranges).map_err(Fault::from)? }
            }
            What::Copy { to, from } => {
                NvmCommand::Copy { nsid, to: *to, from: CopyRanges::new(from).map_err(Fault::from)? }
            }
            What::WriteZeroes { slba, blocks } => {
                NvmCommand::WriteZeroes { nsid, slba: *slba, blocks: *blocks, deallocate: true }
            }
            What::Verify { slba, blocks } => NvmCommand::Verify { nsid, slba: *slba, blocks: *blocks },
            _ => NvmCommand::Flush { nsid },
        };
        Ok((command.into(), Flight::of(Keep::Nothing)))
    }

    fn kv(&self, py: Python<'_>, queue: &CommandQueue, nsid: Nsid) -> PyResult<Ready> {
        let command = match &self.what {
            What::Put { key, value, options } => {
                let Cargo { memory, keep } = Cargo::to_send(value.bind(py), queue.align_bytes())?;
                let command = KvCommand::Store { nsid, key: *key, value: memory, options: *options };
                return Ok((
                    command.into(),
                    Flight { memory: Some(value.clone_ref(py)), ..Flight::of(keep) },
                ));
            }
            What::Get { key, into } => {
                let (cargo, into) = filled(into.bind(py), queue)?;
                let Cargo { memory: Payload::Buffer(room), keep } = cargo else {
                    return cargo.refuse(invalid("a value is read into one piece of memory"));
                };
                let command = KvCommand::Retrieve { nsid, key: *key, into: room };
                let flight = Flight { memory: Some(into.unbind()), answers_length: true, ..Flight::of(keep) };
                return Ok((command.into(), flight));
            }
            What::Delete { key } => KvCommand::Delete { nsid, key: *key },
            What::Exists { key } => KvCommand::Exist { nsid, key: *key },
            _ => return Err(PyTypeError::new_err("no command of keys and values")),
        };
        Ok((command.into(), Flight::of(Keep::Nothing)))
    }
}

fn read(
    py: Python<'_>,
    queue: &CommandQueue,
    nsid: Nsid,
    lba_bytes: usize,
    slba: u64,
    blocks: u32,
    into: Option<&Py<PyAny>>,
) -> PyResult<Ready> {
    let (cargo, into) = match into {
        Some(into) => filled(into.bind(py), queue)?,
        None => new_buffer(py, queue, blocks as usize * lba_bytes)?,
    };
    let blocks = match whole_blocks(cargo.len(), lba_bytes) {
        Ok(blocks) => blocks,
        Err(error) => return cargo.refuse(error),
    };
    let Cargo { memory, keep } = cargo;
    let command = match memory {
        Payload::Buffer(into) => NvmCommand::Read { nsid, slba, blocks, into },
        other => NvmCommand::ReadVectored { nsid, slba, blocks, into: other.into_buffers().1 },
    };
    Ok((command.into(), Flight { memory: Some(into.unbind()), ..Flight::of(keep) }))
}

/// What is expected and what is to be written, one behind the other, as a command sends them.
pub fn both_of<'py>(expected: &Bound<'py, PyAny>, new: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let (expected_bytes, new_bytes) = (len_of(expected)?, len_of(new)?);
    if expected_bytes != new_bytes {
        return Err(invalid(format!(
            "{expected_bytes} bytes are expected, and {new_bytes} would be written"
        )));
    }
    PyList::new(expected.py(), [expected, new])
}

/// A command that sends blocks.
fn send(
    py: Python<'_>,
    queue: &CommandQueue,
    data: &Py<PyAny>,
    lba_bytes: usize,
    command: impl FnOnce(u32, Payload) -> byway::Command,
) -> PyResult<Ready> {
    let cargo = Cargo::to_send(data.bind(py), queue.align_bytes())?;
    let blocks = match whole_blocks(cargo.len(), lba_bytes) {
        Ok(blocks) => blocks,
        Err(error) => return cargo.refuse(error),
    };
    let Cargo { memory, keep } = cargo;
    Ok((command(blocks, memory), Flight { memory: Some(data.clone_ref(py)), ..Flight::of(keep) }))
}

fn raw(
    py: Python<'_>,
    queue: &CommandQueue,
    entry: &Entry,
    data: Option<&Py<PyAny>>,
    into: Option<&Py<PyAny>>,
) -> PyResult<Ready> {
    let (data, keep, memory) = match (data, into) {
        (Some(data), _) => {
            let cargo = Cargo::to_send(data.bind(py), queue.align_bytes())?;
            (RawData::ToDevice(cargo.memory), cargo.keep, Some(data.clone_ref(py)))
        }
        (None, Some(into)) => {
            let (Cargo { memory, keep }, into) = filled(into.bind(py), queue)?;
            let data = match memory {
                Payload::Buffer(into) => RawData::FromDevice(into),
                other => RawData::FromDeviceVectored(other.into_buffers().1),
            };
            (data, keep, Some(into.unbind()))
        }
        (None, None) => (RawData::None, Keep::Nothing, None),
    };
    let command = RawCommand { entry: *entry, data };
    Ok((command.into(), Flight { memory, ..Flight::of(keep) }))
}

/// Memory to be filled, and the object that the completion brings: that which was given, or a new buffer of as many bytes.
fn filled<'py>(into: &Bound<'py, PyAny>, queue: &CommandQueue) -> PyResult<(Cargo, Bound<'py, PyAny>)> {
    match into.extract::<usize>() {
        Ok(len) => new_buffer(into.py(), queue, len),
        Err(_) => Ok((Cargo::to_fill(into)?, into.clone())),
    }
}

fn new_buffer<'py>(
    py: Python<'py>,
    queue: &CommandQueue,
    len: usize,
) -> PyResult<(Cargo, Bound<'py, PyAny>)> {
    let buffer = queue.held.with(py, |device| byway::Backend::buffer(device, len))?;
    let buffer = Bound::new(py, Buffer::over(buffer))?;
    Ok((Cargo::of_buffer(&buffer)?, buffer.into_any()))
}

fn ranges_of(ranges: &[(u64, u32)]) -> Vec<LbaRange> {
    ranges.iter().map(|(slba, blocks)| LbaRange { slba: *slba, blocks: *blocks }).collect()
}

/// How many blocks these bytes are.
pub fn whole_blocks(bytes: usize, lba_bytes: usize) -> PyResult<u32> {
    let blocks = u32::try_from(bytes / lba_bytes).ok();
    blocks
        .filter(|blocks| *blocks > 0 && bytes.is_multiple_of(lba_bytes))
        .ok_or_else(|| invalid(format!("{bytes} bytes are no whole number of blocks of {lba_bytes} bytes")))
}
