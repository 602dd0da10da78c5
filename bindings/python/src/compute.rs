//! Computation in a device: local memory, and programs that run over it.

use std::sync::Arc;

use byway::compute::{CopySource, MemoryRange, ProgramRanges};
use byway::spec::programs::ProgramType;
use byway::{Device, Nsid};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Fault, invalid};
use crate::held::{Held, Part, without_gil};
use crate::memory::with_bytes;
use crate::nvm::Nvm;
use crate::turnstile::Turnstile;

/// A namespace of local memory of a device. Positions and lengths are in bytes, and multiples of 4.
#[pyclass(frozen, module = "byway")]
pub struct LocalMemory {
    calls: Arc<Calls<byway::compute::LocalMemory>>,
    nsid: u32,
    size_bytes: u64,
}

/// A namespace of programs of a device, which run over its local memory.
#[pyclass(frozen, module = "byway")]
pub struct Programs {
    calls: Arc<Calls<byway::compute::Programs>>,
    nsid: u32,
}

/// A range of local memory, as Python has it: namespace, first byte, bytes.
type Range = (u32, u64, u32);

/// Ranges that a program runs over: these, or those of a set.
#[derive(FromPyObject)]
enum Ranges {
    Set(u16),
    Listed(Vec<Range>),
}

impl Default for Ranges {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

/// Synchronous calls to a namespace, with their queue: closed before the device is.
struct Calls<T: Send + 'static> {
    calls: Turnstile<Option<T>>,
    held: Arc<Held>,
}

impl<T: Send + 'static> Calls<T> {
    fn open(held: &Arc<Held>, open: impl FnOnce(&Device) -> byway::Result<T>) -> Result<Arc<Self>, Fault> {
        let calls = Turnstile::new(Some(held.look(open)?));
        let calls = Arc::new(Self { calls, held: Arc::clone(held) });
        held.adopt(&calls);
        Ok(calls)
    }

    /// Does something with the namespace, with the GIL released.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut T) -> byway::Result<R> + Send,
    ) -> PyResult<R> {
        self.held.check_owner()?;
        let done = py.detach(|| -> Result<R, Fault> {
            let mut calls = self.calls.enter();
            Ok(what(calls.as_mut().ok_or(Fault::Closed("device"))?)?)
        });
        Ok(done?)
    }
}

impl<T: Send + 'static> Part for Calls<T> {
    fn close(&self) {
        drop(self.calls.enter().take());
    }
}

impl<T: Send + 'static> Drop for Calls<T> {
    fn drop(&mut self) {
        if self.held.is_here() {
            without_gil(|| self.close());
        }
    }
}

impl LocalMemory {
    /// Namespace `nsid` of a device.
    pub fn open(held: &Arc<Held>, nsid: u32) -> Result<Self, Fault> {
        let mut size_bytes = 0;
        let calls = Calls::open(held, |device| {
            let memory = device.memory(Nsid::new(nsid)?)?;
            size_bytes = memory.size_bytes();
            Ok(memory)
        })?;
        Ok(Self { calls, nsid, size_bytes })
    }

    fn copy(&self, py: Python<'_>, start: u64, len_bytes: u64, source: CopySource) -> PyResult<()> {
        self.calls.with(py, |memory| memory.copy(start, len_bytes, &[source]))
    }
}

#[pymethods]
impl LocalMemory {
    /// The namespace's identifier.
    #[getter]
    const fn nsid(&self) -> u32 {
        self.nsid
    }

    /// Its size in bytes.
    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.size_bytes)?)
    }

    fn __repr__(&self) -> String {
        format!("<byway.LocalMemory {} of {} bytes>", self.nsid, self.size_bytes)
    }

    /// Reads `bytes` bytes from byte `start` on.
    fn read<'py>(&self, py: Python<'py>, start: u64, bytes: usize) -> PyResult<Bound<'py, PyBytes>> {
        if bytes as u64 > self.size_bytes {
            return Err(invalid(format!("{bytes} bytes are more than a memory of {} has", self.size_bytes)));
        }
        let mut read = vec![0; bytes];
        self.calls.with(py, |memory| memory.read(start, &mut read))?;
        Ok(PyBytes::new(py, &read))
    }

    /// Writes `data` from byte `start` on.
    fn write(&self, py: Python<'_>, start: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = with_bytes(data, <[u8]>::to_vec)?;
        self.calls.with(py, |memory| memory.write(start, &data))
    }

    /// Sets `bytes` bytes from byte `start` on to zero.
    fn fill(&self, py: Python<'_>, start: u64, bytes: u32) -> PyResult<()> {
        self.calls.with(py, |memory| memory.fill(start, bytes))
    }

    /// Copies `bytes` bytes from byte `source` of the local memory `nsid` to byte `start` on, within the device.
    fn copy_from(&self, py: Python<'_>, start: u64, nsid: u32, source: u64, bytes: u32) -> PyResult<()> {
        let nsid = Nsid::new(nsid).map_err(Fault::from)?;
        self.copy(py, start, bytes.into(), CopySource::Memory { nsid, start: source, len_bytes: bytes })
    }

    /// Copies blocks of `nvm` from block `slba` on to byte `start` on, within the device.
    #[pyo3(signature = (start, nvm, slba, blocks=1))]
    fn copy_blocks(&self, py: Python<'_>, start: u64, nvm: &Nvm, slba: u64, blocks: u32) -> PyResult<()> {
        if !nvm.is_of(&self.calls.held) {
            return Err(invalid("a device copies blocks of its own namespaces, not of another device"));
        }
        let (nsid, lba_bytes) = nvm.shape();
        let len_bytes = u64::from(blocks) * u64::from(lba_bytes);
        self.copy(py, start, len_bytes, CopySource::Blocks { nsid, slba, blocks })
    }
}

impl Programs {
    /// Namespace `nsid` of a device.
    pub fn open(held: &Arc<Held>, nsid: u32) -> Result<Self, Fault> {
        let calls = Calls::open(held, |device| device.programs(Nsid::new(nsid)?))?;
        Ok(Self { calls, nsid })
    }
}

#[pymethods]
impl Programs {
    /// The namespace's identifier.
    #[getter]
    const fn nsid(&self) -> u32 {
        self.nsid
    }

    fn __repr__(&self) -> String {
        format!("<byway.Programs {}>", self.nsid)
    }

    /// Loads a program of `type` ("ebpf" or "wasm") at an index; the device verifies it.
    #[pyo3(signature = (index, program, *, r#type="ebpf", identifier=None))]
    fn load(
        &self,
        py: Python<'_>,
        index: u16,
        program: &Bound<'_, PyAny>,
        r#type: &str,
        identifier: Option<u64>,
    ) -> PyResult<()> {
        let of_type = match r#type {
            "ebpf" => ProgramType::EBPF,
            "wasm" => ProgramType::WASM,
            other => return Err(invalid(format!("a program is ebpf or wasm, not {other}"))),
        };
        let program = with_bytes(program, <[u8]>::to_vec)?;
        self.calls.with(py, |programs| programs.load(index, of_type, identifier, &program))
    }

    /// Removes the program at an index, which is not activated.
    fn unload(&self, py: Python<'_>, index: u16) -> PyResult<()> {
        self.calls.with(py, |programs| programs.unload(index))
    }

    /// Lets the program at an index be executed.
    fn activate(&self, py: Python<'_>, index: u16) -> PyResult<()> {
        self.calls.with(py, |programs| programs.activate(index))
    }

    /// Lets the program at an index no longer be executed.
    fn deactivate(&self, py: Python<'_>, index: u16) -> PyResult<()> {
        self.calls.with(py, |programs| programs.deactivate(index))
    }

    /// Has the device keep ranges, each `(nsid, start, bytes)`; the number that `execute` names them by.
    fn create_range_set(&self, py: Python<'_>, ranges: Vec<Range>) -> PyResult<u16> {
        let ranges = ranges_of(&ranges)?;
        self.calls.with(py, |programs| programs.create_range_set(&ranges))
    }

    /// Has the device forget a set of ranges.
    fn delete_range_set(&self, py: Python<'_>, set: u16) -> PyResult<()> {
        self.calls.with(py, |programs| programs.delete_range_set(set))
    }

    /// Executes the program at an index over ranges, each `(nsid, start, bytes)`, or over a set of them by its number, with two
    /// parameters; returns what it returns. Linux passes no commands on that bring ranges: there a set is needed.
    #[pyo3(signature = (index, ranges=Ranges::default(), first=0, second=0))]
    fn execute(&self, py: Python<'_>, index: u16, ranges: Ranges, first: u64, second: u64) -> PyResult<u64> {
        let parameters = [first, second];
        match ranges {
            Ranges::Set(set) => {
                self.calls.with(py, |programs| programs.execute(index, ProgramRanges::Set(set), parameters))
            }
            Ranges::Listed(listed) => {
                let listed = ranges_of(&listed)?;
                self.calls.with(py, |programs| programs.execute(index, &*listed, parameters))
            }
        }
    }
}

fn ranges_of(ranges: &[Range]) -> PyResult<Vec<MemoryRange>> {
    let range = |&(nsid, start, len_bytes): &Range| {
        Ok(MemoryRange { nsid: Nsid::new(nsid).map_err(Fault::from)?, start, len_bytes })
    };
    ranges.iter().map(range).collect()
}
