//! A namespace of blocks: slices, reads and writes that wait, what a program does with a disk.

use std::sync::Arc;

use byway::{Backend, Command, ErrorKind, LbaRange, LbaRanges, NamespaceKind, Nsid, NvmCommand, Payload};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PySlice, PyTuple};

use crate::buffer::Buffer;
use crate::command::{both_of, whole_blocks};
use crate::command_queue::CommandQueue;
use crate::errors::{Fault, invalid, is_of, refused};
use crate::held::Held;
use crate::memory::{Cargo, Keep, len_of};
use crate::query::{self, BlockQueries};

/// Most bytes of one command by which bytes are read.
const STEP_BYTES: usize = 1 << 20;

/// Most blocks that a command can say (NVM Command Set, Read, NLB).
const MOST_BLOCKS: usize = 1 << 16;

/// A namespace of blocks. `nvm[3]` and `nvm[3:10]` are bytes of blocks; assigning writes them.
#[pyclass(frozen, module = "byway")]
pub struct Nvm {
    queue: Arc<CommandQueue>,
    queries: Arc<BlockQueries>,
    nsid: Nsid,
    lba_bytes: u32,
    blocks: u64,
    /// Most bytes that a read of bytes takes by one command, and so most that it has beside them.
    step_bytes: usize,
    /// Most bytes of one command.
    most_bytes: usize,
}

impl Nvm {
    /// Namespace `nsid` of a device, or that of the URI, or the first of blocks.
    pub fn open(held: &Arc<Held>, nsid: Option<u32>) -> Result<Self, Fault> {
        let nsid = nsid.map(Nsid::new).transpose()?;
        let (namespace, most_bytes) = held.look(|device| {
            let namespace = device.nvm_namespace(nsid)?;
            Ok((namespace, device.capabilities().limits.transfer_bytes))
        })?;
        let NamespaceKind::Nvm { lba_bytes, blocks } = namespace.kind else {
            let said = format!("namespace {} is no block namespace", namespace.nsid);
            return Err(byway::Error::host(ErrorKind::InvalidArgument, said).into());
        };
        let lba = lba_bytes as usize;
        let most_bytes =
            (usize::try_from(most_bytes).unwrap_or(usize::MAX) / lba).clamp(1, MOST_BLOCKS) * lba;
        let step_bytes = most_bytes.min((STEP_BYTES / lba).max(1) * lba);
        let queue = CommandQueue::open(held, |options| options)?;
        let queries = BlockQueries::new(held, namespace.nsid);
        Ok(Self { queue, queries, nsid: namespace.nsid, lba_bytes, blocks, step_bytes, most_bytes })
    }

    /// Whether it is of the device that `held` holds.
    pub fn is_of(&self, held: &Arc<Held>) -> bool {
        self.queries.is_of(held)
    }

    /// The namespace, and the size of its blocks in bytes.
    pub const fn shape(&self) -> (Nsid, u32) {
        (self.nsid, self.lba_bytes)
    }

    fn send(&self, py: Python<'_>, command: NvmCommand) -> PyResult<()> {
        self.queue.execute(py, Command::Nvm(command), Keep::Nothing).map(drop)
    }

    /// Reads into memory of a buffer or of the program's.
    fn read_cargo(&self, py: Python<'_>, slba: u64, cargo: Cargo) -> PyResult<()> {
        let nsid = self.nsid;
        let blocks = match self.whole_blocks(cargo.len()) {
            Ok(blocks) => blocks,
            Err(error) => return cargo.refuse(error),
        };
        let Cargo { memory, keep } = cargo;
        let command = match memory {
            Payload::Vectored(into) => NvmCommand::ReadVectored { nsid, slba, blocks, into },
            Payload::Buffer(into) => NvmCommand::Read { nsid, slba, blocks, into },
            Payload::Small(_) | Payload::Empty => return Ok(()),
        };
        self.queue.execute(py, Command::Nvm(command), keep).map(drop)
    }

    fn write_cargo(&self, py: Python<'_>, slba: u64, cargo: Cargo) -> PyResult<()> {
        let blocks = match self.whole_blocks(cargo.len()) {
            Ok(blocks) => blocks,
            Err(error) => return cargo.refuse(error),
        };
        let Cargo { memory: data, keep } = cargo;
        let command = NvmCommand::Write { nsid: self.nsid, slba, blocks, data };
        self.queue.execute(py, Command::Nvm(command), keep).map(drop)
    }

    /// Does `one` with an object's memory: as a whole, or where that is more than a command can move, part by part.
    fn in_parts(
        &self,
        slba: u64,
        object: &Bound<'_, PyAny>,
        one: impl Fn(u64, &Bound<'_, PyAny>) -> PyResult<()>,
    ) -> PyResult<()> {
        let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
        if is_list || len_of(object)? <= self.most_bytes {
            return one(slba, object);
        }
        let bytes = PyMemoryView::from(object)?.call_method1("cast", ("B",))?;
        let len = bytes.len()?;
        self.whole_blocks(len)?;
        for at in (0..len).step_by(self.most_bytes) {
            let part = PySlice::new(bytes.py(), at as isize, (at + self.most_bytes).min(len) as isize, 1);
            one(slba + at as u64 / u64::from(self.lba_bytes), &bytes.get_item(part)?)?;
        }
        Ok(())
    }

    fn whole_blocks(&self, bytes: usize) -> PyResult<u32> {
        whole_blocks(bytes, self.lba_bytes as usize)
    }

    /// First block and number of blocks of an index or a slice.
    fn range(&self, at: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
        if let Ok(slice) = at.cast::<PySlice>() {
            let indices = slice.indices(isize::try_from(self.blocks)?)?;
            if indices.step != 1 {
                return Err(invalid("blocks are read and written one behind the other: a slice has step 1"));
            }
            return Ok((indices.start as u64, indices.slicelength as u64));
        }
        let not_an_index = |_| PyTypeError::new_err("blocks are named by a number or a slice of numbers");
        let index: i64 = at.extract().map_err(not_an_index)?;
        let block = if index < 0 { self.blocks.checked_add_signed(index) } else { Some(index as u64) };
        let block = block.filter(|block| *block < self.blocks);
        block.map(|block| (block, 1)).ok_or_else(|| {
            PyIndexError::new_err(format!("block {index} of a namespace of {} blocks", self.blocks))
        })
    }
}

#[pymethods]
impl Nvm {
    /// Size of a block in bytes.
    #[getter]
    const fn lba_bytes(&self) -> u32 {
        self.lba_bytes
    }

    /// Number of blocks.
    #[getter]
    const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The namespace's identifier.
    #[getter]
    fn nsid(&self) -> u32 {
        self.nsid.get()
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.blocks)?)
    }

    fn __repr__(&self) -> String {
        format!("<byway.Nvm {} of {} blocks of {} bytes>", self.nsid, self.blocks, self.lba_bytes)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, at: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let (slba, blocks) = self.range(at)?;
        self.read(py, slba, blocks)
    }

    fn __setitem__(&self, at: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let (slba, blocks) = self.range(at)?;
        let wanted = blocks * u64::from(self.lba_bytes);
        let given = len_of(data)? as u64;
        if given != wanted {
            return Err(invalid(format!("{blocks} blocks have {wanted} bytes, not {given}")));
        }
        if blocks == 0 { Ok(()) } else { self.write(slba, data) }
    }

    /// Reads blocks.
    #[pyo3(signature = (slba, blocks=1))]
    fn read<'py>(&self, py: Python<'py>, slba: u64, blocks: u64) -> PyResult<Bound<'py, PyBytes>> {
        let is_there = slba.checked_add(blocks).is_some_and(|end| end <= self.blocks);
        if !is_there {
            let said = format!("{blocks} blocks from {slba} on, of a namespace of {}", self.blocks);
            return Err(refused(ErrorKind::OutOfRange, said));
        }
        let len = usize::try_from(blocks * u64::from(self.lba_bytes))?;
        let room = len.min(self.step_bytes);
        let room = self.queue.held.with(py, |device| device.buffer(room))?;
        let room = Bound::new(py, Buffer::over(room))?;
        PyBytes::new_with(py, len, |into| {
            let mut slba = slba;
            for part in into.chunks_mut(self.step_bytes) {
                self.read_cargo(py, slba, Cargo::of_start(&room, part.len())?)?;
                room.get().copy_to(part)?;
                slba += part.len() as u64 / u64::from(self.lba_bytes);
            }
            Ok(())
        })
    }

    /// Reads as many blocks as `into` holds into it: a buffer, whatever exports memory that can be written (a bytearray,
    /// a numpy array), or a list of such. Nothing is copied where the backend can use the memory.
    fn read_into(&self, slba: u64, into: &Bound<'_, PyAny>) -> PyResult<()> {
        self.in_parts(slba, into, |slba, part| self.read_cargo(part.py(), slba, Cargo::to_fill(part)?))
    }

    /// Writes blocks: a buffer, bytes, whatever exports memory, or a list of such.
    fn write(&self, slba: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let align_bytes = self.queue.align_bytes();
        self.in_parts(slba, data, |slba, part| {
            self.write_cargo(part.py(), slba, Cargo::to_send(part, align_bytes)?)
        })
    }

    /// Writes `new` if the blocks equal `expected`, of the same length: atomically against other writers. Returns whether it did.
    fn compare_and_write(
        &self,
        slba: u64,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let py = expected.py();
        let both = both_of(expected, new)?.into_any();
        let cargo = Cargo::to_send(&both, self.queue.align_bytes())?;
        let blocks = match whole_blocks(cargo.len(), 2 * self.lba_bytes as usize) {
            Ok(blocks) => blocks,
            Err(error) => return cargo.refuse(error),
        };
        let Cargo { memory: data, keep } = cargo;
        let command = NvmCommand::CompareAndWrite { nsid: self.nsid, slba, blocks, data };
        match self.queue.execute(py, Command::Nvm(command), keep) {
            Ok(_) => Ok(true),
            Err(error) if is_of(py, &error, ErrorKind::Mismatch) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Has the device execute `sql` over the `bytes` bytes from block `slba` on, a Parquet file; returns the result as `Kv.query` does.
    #[pyo3(signature = (slba, bytes, sql, *, format="csv", header=true, explain=false))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn query<'py>(
        &self,
        py: Python<'py>,
        slba: u64,
        bytes: u64,
        sql: &str,
        format: &str,
        header: bool,
        explain: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let options = query::options_of(format, header, explain)?;
        let result = self.queries.execute(py, (slba, bytes), sql, options)?;
        Ok(PyBytes::new(py, &result))
    }

    /// The same as a `pyarrow.Table`: `to_pandas()` of it is a data frame.
    fn query_arrow<'py>(
        &self,
        py: Python<'py>,
        slba: u64,
        bytes: u64,
        sql: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        query::table(py, &self.queries.execute(py, (slba, bytes), sql, query::arrow())?)
    }

    /// Makes completed writes durable on the media below.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.send(py, NvmCommand::Flush { nsid: self.nsid })
    }

    /// Deallocates blocks that are no longer needed; of a Byway device they read as zeroes.
    #[pyo3(signature = (slba, blocks=1))]
    fn trim(&self, py: Python<'_>, slba: u64, blocks: u32) -> PyResult<()> {
        let ranges = LbaRanges::new(&[LbaRange { slba, blocks }]).map_err(Fault::from)?;
        self.send(py, NvmCommand::Deallocate { nsid: self.nsid, ranges })
    }

    /// Makes blocks read as zeroes.
    #[pyo3(signature = (slba, blocks=1))]
    fn write_zeroes(&self, py: Python<'_>, slba: u64, blocks: u32) -> PyResult<()> {
        self.send(py, NvmCommand::WriteZeroes { nsid: self.nsid, slba, blocks, deallocate: true })
    }
}
