//! An open device.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use byway::spec::Command as Entry;
use byway::{AdminCommand, Backend, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::admin::{self, Answer, nsid_of};
use crate::admin_queue::AdminQueue;
use crate::buffer::Buffer;
use crate::compute::{LocalMemory, Programs};
use crate::errors::{Fault, invalid, refused};
use crate::facts::{Capabilities, Chosen, Identity, KvStats, Namespace};
use crate::held::Held;
use crate::image;
use crate::kv::Kv;
use crate::ledger::Ledger;
use crate::nvm::Nvm;
use crate::queue::Queue;

/// An open device: a context manager that closes it.
#[pyclass(frozen, module = "byway")]
pub struct Device {
    pub held: Arc<Held>,
    uri: String,
    kv: OnceLock<Py<Kv>>,
    nvm: OnceLock<Py<Nvm>>,
}

/// Opens the device that a URI names.
#[pyfunction]
#[pyo3(signature = (uri, *, to_read=false))]
pub fn open_uri(py: Python<'_>, uri: String, to_read: bool) -> PyResult<Device> {
    let open = if to_read { byway::open_to_read } else { byway::open };
    let device = py.detach(|| open(&uri)).map_err(|error| match byway::uri::path_of(&uri) {
        Some(path) => Fault::of_file(error, path),
        None => Fault::from(error),
    })?;
    Ok(Device { held: Held::new(device), uri, kv: OnceLock::new(), nvm: OnceLock::new() })
}

/// The URI of a file or block device at a path, whatever it has in it.
#[pyfunction]
pub fn uri_of_file(path: PathBuf) -> String {
    byway::uri::of_file(path)
}

/// A URI with more options behind those that it has.
#[pyfunction]
pub fn with_options(uri: &str, more: &str) -> String {
    byway::uri::with_options(uri, more)
}

#[pymethods]
impl Device {
    /// The URI that it was opened by.
    #[getter]
    fn uri(&self) -> &str {
        &self.uri
    }

    /// The word for the backend that serves it.
    #[getter]
    fn backend(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.held.with(py, |device| Ok(device.name()))
    }

    /// The backend that serves it, why that one, and why not faster ones.
    #[getter]
    fn chosen(&self, py: Python<'_>) -> PyResult<Chosen> {
        self.held.with(py, |device| Ok(Chosen::from(device)))
    }

    /// Identity that the device reports.
    #[getter]
    fn identity(&self, py: Python<'_>) -> PyResult<Identity> {
        self.held.with(py, |device| Ok(Identity::from(device.identity())))
    }

    /// What can be done with it.
    #[getter]
    fn capabilities(&self, py: Python<'_>) -> PyResult<Capabilities> {
        self.held.with(py, |device| Ok(Capabilities::from(device.capabilities())))
    }

    /// The namespaces that are attached, asked anew.
    #[getter]
    fn namespaces(&self, py: Python<'_>) -> PyResult<Vec<Namespace>> {
        let namespaces = self.held.with(py, Backend::namespaces)?;
        Ok(namespaces.into_iter().map(Namespace::from).collect())
    }

    /// The key-value namespace that the URI names, or the first.
    #[getter]
    fn kv(&self, py: Python<'_>) -> PyResult<Py<Kv>> {
        shared(&self.kv, py, || self.open_kv(py, None))
    }

    /// The namespace of blocks that the URI names, or the first.
    #[getter]
    fn nvm(&self, py: Python<'_>) -> PyResult<Py<Nvm>> {
        shared(&self.nvm, py, || self.open_nvm(py, None))
    }

    /// A key-value namespace by its number, with a queue of its own: for another one, or for another thread.
    #[pyo3(signature = (nsid=None))]
    fn open_kv(&self, py: Python<'_>, nsid: Option<u32>) -> PyResult<Kv> {
        Ok(py.detach(|| Kv::open(&self.held, nsid))?)
    }

    /// A namespace of blocks by its number, with a queue of its own: for another one, or for another thread.
    #[pyo3(signature = (nsid=None))]
    fn open_nvm(&self, py: Python<'_>, nsid: Option<u32>) -> PyResult<Nvm> {
        Ok(py.detach(|| Nvm::open(&self.held, nsid))?)
    }

    /// Makes a namespace of local memory of this many bytes, and attaches it to this controller; its number.
    fn create_memory(&self, py: Python<'_>, size_bytes: u64) -> PyResult<u32> {
        self.held.with(py, |device| Ok(device.create_memory(size_bytes)?.get()))
    }

    /// Makes a namespace of programs, and attaches it to this controller; its number.
    fn create_programs(&self, py: Python<'_>) -> PyResult<u32> {
        self.held.with(py, |device| Ok(device.create_programs()?.get()))
    }

    /// Deletes a namespace of any kind with everything in it.
    fn delete_namespace(&self, py: Python<'_>, nsid: u32) -> PyResult<()> {
        self.held.with(py, |device| device.delete_namespace(byway::Nsid::new(nsid)?))
    }

    /// A namespace of local memory by its number, with a queue of its own.
    fn open_memory(&self, py: Python<'_>, nsid: u32) -> PyResult<LocalMemory> {
        Ok(py.detach(|| LocalMemory::open(&self.held, nsid))?)
    }

    /// A namespace of programs by its number, with a queue of its own.
    fn open_programs(&self, py: Python<'_>, nsid: u32) -> PyResult<Programs> {
        Ok(py.detach(|| Programs::open(&self.held, nsid))?)
    }

    /// A buffer of this many zeroes, in memory that the device is quickest with.
    fn buffer(&self, py: Python<'_>, len: usize) -> PyResult<Buffer> {
        let mut memory = self.held.with(py, |device| device.buffer(len))?;
        memory.as_mut_slice().fill(0);
        Ok(Buffer::over(memory))
    }

    /// Prepares a buffer of the program's as those of `buffer` are: commands need no copy of it. It is whole pages.
    fn prepare(&self, py: Python<'_>, buffer: &Buffer) -> PyResult<()> {
        let brought = buffer.take()?;
        let prepared = self.held.with(py, |device| Ok(device.prepare(brought)))?;
        let (memory, error) = match prepared {
            Ok(memory) => (memory, None),
            Err(unprepared) => (unprepared.buffer, Some(unprepared.error)),
        };
        buffer.give_back(memory);
        error.map_or(Ok(()), |error| Err(Fault::from(error).into()))
    }

    /// A queue for many commands at once, as the URI asks for where it is not said here.
    #[pyo3(signature = (depth=None, *, transfer=None))]
    fn queue(&self, py: Python<'_>, depth: Option<u32>, transfer: Option<&str>) -> PyResult<Queue> {
        let method = transfer.map(str::parse::<byway::Method>).transpose();
        let method = method.map_err(|error| invalid(error.to_string()))?;
        Ok(py.detach(|| Queue::open(&self.held, depth, method))?)
    }

    /// A queue whose commands are awaited in an asyncio loop.
    #[pyo3(signature = (depth=None, *, transfer=None))]
    fn async_queue<'py>(
        &self,
        py: Python<'py>,
        depth: Option<u32>,
        transfer: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let queue = self.queue(py, depth, transfer)?;
        py.import("byway.aio")?.getattr("AsyncQueue")?.call1((queue,))
    }

    /// Identify: the structure `cns`, of a namespace or of the controller.
    #[pyo3(signature = (cns, *, nsid=None, csi=0, selector=0))]
    fn identify(
        &self,
        py: Python<'_>,
        cns: u8,
        nsid: Option<u32>,
        csi: u8,
        selector: u16,
    ) -> PyResult<Py<PyBytes>> {
        let nsid = nsid_of(nsid)?;
        let answer = admin::execute(py, &self.held, |device| {
            let into = device.buffer(admin::IDENTIFY_BYTES)?;
            Ok(AdminCommand::Identify { cns, csi, nsid, selector, into })
        })?;
        Ok(answer.data)
    }

    /// Reads `len` bytes of a log page.
    #[pyo3(signature = (log, len, *, offset=0, nsid=None, csi=0, retain_event=false))]
    #[expect(clippy::too_many_arguments, reason = "the fields of the command")]
    fn get_log(
        &self,
        py: Python<'_>,
        log: u8,
        len: usize,
        offset: u64,
        nsid: Option<u32>,
        csi: u8,
        retain_event: bool,
    ) -> PyResult<Py<PyBytes>> {
        if len == 0 || !len.is_multiple_of(4) {
            return Err(invalid(format!("a log is read in units of 4 bytes, not {len}")));
        }
        let nsid = nsid_of(nsid)?;
        let answer = admin::execute(py, &self.held, |device| {
            let into = device.buffer(len)?;
            Ok(AdminCommand::GetLog { log, csi, nsid, retain_event, offset_bytes: offset, into })
        })?;
        Ok(answer.data)
    }

    /// Reads a feature: its value, and `len` bytes of data where it has some. `select` is 0 for the current value, 1 for the
    /// default, 2 for the saved one, 3 for what can be done with it.
    #[pyo3(signature = (feature, *, select=0, nsid=None, cdw11=0, len=0))]
    fn get_feature(
        &self,
        py: Python<'_>,
        feature: u8,
        select: u8,
        nsid: Option<u32>,
        cdw11: u32,
        len: usize,
    ) -> PyResult<Answer> {
        let nsid = nsid_of(nsid)?;
        admin::execute(py, &self.held, |device| {
            let into = if len == 0 { None } else { Some(device.buffer(len)?) };
            Ok(AdminCommand::GetFeature { feature, select, nsid, cdw11, into })
        })
    }

    /// Sets a feature, with its data, where it has some, in one piece or a list of several; the device's answer.
    #[pyo3(signature = (feature, value, *, cdw12=0, save=false, nsid=None, data=None))]
    #[expect(clippy::too_many_arguments, reason = "the fields of the command")]
    fn set_feature(
        &self,
        py: Python<'_>,
        feature: u8,
        value: u32,
        cdw12: u32,
        save: bool,
        nsid: Option<u32>,
        data: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u32> {
        let nsid = nsid_of(nsid)?;
        let data = admin::sent(py, &self.held, data)?;
        let answer = admin::execute(py, &self.held, |_| {
            Ok(AdminCommand::SetFeature { feature, save, nsid, cdw11: value, cdw12, data })
        })?;
        Ok(answer.result)
    }

    /// Formats a namespace: all it holds is gone; with `erase`, no byte of it is left.
    #[pyo3(signature = (nsid, *, format=0, erase=false))]
    fn format(&self, py: Python<'_>, nsid: u32, format: u8, erase: bool) -> PyResult<()> {
        let nsid = byway::Nsid::new(nsid).map_err(Fault::from)?;
        admin::execute(py, &self.held, |_| Ok(AdminCommand::Format { nsid, format, erase })).map(drop)
    }

    /// Sanitizes the device: no byte of what was ever stored is left in it. `wipe` is `block_erase`, `crypto_erase` or
    /// `overwrite`, which writes `pattern` `passes` times, inverted in every second. Ctrl-C leaves it: the device goes on by
    /// itself, one in this process when it is used or opened again.
    #[pyo3(signature = (wipe="block_erase", *, passes=1, pattern=0))]
    fn sanitize(&self, py: Python<'_>, wipe: &str, passes: u8, pattern: u32) -> PyResult<()> {
        let wipe = match (wipe, passes) {
            ("block_erase", 1) if pattern == 0 => byway::Wipe::BlockErase,
            ("crypto_erase", 1) if pattern == 0 => byway::Wipe::CryptoErase,
            ("overwrite", 1..=16) => byway::Wipe::Overwrite { passes, pattern },
            ("overwrite", _) => return Err(invalid(format!("1 to 16 passes, not {passes}"))),
            ("block_erase" | "crypto_erase", _) => {
                return Err(invalid("passes and pattern are of overwrite"));
            }
            _ => return Err(invalid(format!("{wipe:?} is none of block_erase, crypto_erase, overwrite"))),
        };
        let held = &self.held;
        image::watched(py, |watch| {
            let look = held.look(|device| device.sanitize(wipe, |_| watch()));
            look.map_err(Fault::into_error)
        })
    }

    /// Any admin command, passed through: the dwords of its entry, and bytes to send, or a number of bytes or memory to receive;
    /// memory is one piece or a list of several.
    #[pyo3(signature = (opcode, *, nsid=0, cdw10=0, cdw11=0, cdw12=0, cdw13=0, cdw14=0, cdw15=0, data=None, into=None))]
    #[expect(clippy::too_many_arguments, reason = "the fields of an entry")]
    fn admin(
        &self,
        py: Python<'_>,
        opcode: u8,
        nsid: u32,
        cdw10: u32,
        cdw11: u32,
        cdw12: u32,
        cdw13: u32,
        cdw14: u32,
        cdw15: u32,
        data: Option<&Bound<'_, PyAny>>,
        into: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Answer> {
        let entry = Entry { cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, ..Entry::new(opcode, 0, nsid) };
        admin::pass(py, &self.held, entry, data, into)
    }

    /// The way for admin commands that go on by themselves.
    fn admin_queue(&self, py: Python<'_>) -> PyResult<AdminQueue> {
        Ok(py.detach(|| AdminQueue::open(&self.held))?)
    }

    /// What crossed the link so far, of a device in this process.
    fn ledger(&self, py: Python<'_>) -> PyResult<Ledger> {
        self.embedded(py, |device| Ledger::from(device.ledger()))
    }

    /// Turns the ledger on or off, of a device in this process.
    fn set_ledger(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        self.embedded(py, |device| device.set_ledger(on))
    }

    /// Nanoseconds, of a device in this process: modelled under a virtual or paced clock, else the machine's.
    fn now_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.embedded(py, byway::embedded::EmbeddedDevice::now_ns)
    }

    /// Counts of a key-value namespace's engine, of a device in this process.
    #[pyo3(signature = (nsid=None))]
    fn kv_stats(&self, py: Python<'_>, nsid: Option<u32>) -> PyResult<KvStats> {
        let nsid = nsid_of(nsid)?;
        let namespace = self.held.with(py, |device| device.kv_namespace(nsid))?;
        let stats = self.embedded(py, |device| device.kv_stats(namespace.nsid))?;
        let none = || refused(ErrorKind::Unsupported, format!("namespace {} counts nothing", namespace.nsid));
        stats.map(KvStats::from).ok_or_else(none)
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.held.is_closed()
    }

    /// Closes it, and all that was opened of it, once what is under way has finished. Twice is once.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.held.close())?)
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        // A child that leaves its parent's block closes nothing.
        if self.held.is_here() { self.close(py) } else { Ok(()) }
    }

    fn __repr__(&self) -> String {
        let closed = if self.closed() { ", closed" } else { "" };
        format!("<byway.Device {:?}{closed}>", self.uri)
    }
}

impl Device {
    fn embedded<R: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&byway::embedded::EmbeddedDevice) -> R + Send,
    ) -> PyResult<R> {
        self.held.with(py, |device| {
            let said = "only a device in this process (embedded:, embedded-ram:, embedded-null:) counts what crosses its link";
            let embedded = device.as_embedded();
            embedded.map(look).ok_or_else(|| byway::Error::host(ErrorKind::Unsupported, said))
        })
    }
}

/// What is there already, or is opened now. Of two threads that open it at once, one's is kept.
fn shared<T: pyo3::PyClass + Into<PyClassInitializer<T>>>(
    place: &OnceLock<Py<T>>,
    py: Python<'_>,
    open: impl FnOnce() -> PyResult<T>,
) -> PyResult<Py<T>> {
    match place.get() {
        Some(there) => Ok(there.clone_ref(py)),
        None => {
            let opened = Py::new(py, open()?)?;
            Ok(place.get_or_init(|| opened).clone_ref(py))
        }
    }
}
