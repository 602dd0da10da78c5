//! Queries: SQL that a device executes over an object of its own, and the result as it comes.

use std::io::{self, Read};

use byway_core::{BackendQueue, Buffer, Error, ErrorKind, Key, Nsid, Outcome, RawCommand, RawData, Result};
use byway_spec::Command as Entry;
use byway_spec::base::status::sct;
use byway_spec::vendor::{BlockObject, QueryAnswer, QueryCdw11, QueryFormat, ResultsAnswer, VendorOpcode};

use crate::calls::kv::Kv;
use crate::calls::nvm::Nvm;
use crate::calls::queue::Queue;
use crate::calls::scratch::Scratch;

/// Bytes of a buffer for a part of a result, at least.
const PART_MIN_BYTES: usize = 4 << 10;

/// The same at most.
const PART_MAX_BYTES: usize = 1 << 20;

/// How a query's result is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlOptions {
    /// CSV, JSON lines or a stream of Arrow IPC.
    pub format: QueryFormat,
    /// CSV: the first line names the columns.
    pub header: bool,
    /// The result says what the query would read and move, instead of its rows: text, or JSON with the format for that.
    pub explain: bool,
}

impl SqlOptions {
    byway_sys::setters! {
        /// CSV, JSON lines or a stream of Arrow IPC.
        format: QueryFormat;
        /// CSV: the first line names the columns.
        header: bool;
        /// What the query would read and move, instead of its rows.
        explain: bool;
    }
}

impl Kv {
    /// Has the device execute `sql` over the value of `key`, a Parquet file: one SELECT, whatever its FROM calls the object. Returns once
    /// there is a part of the result; dropping that ends the query.
    ///
    /// ```
    /// # #[cfg(feature = "compute")] {
    /// use std::io::Read;
    ///
    /// let device = byway::open("embedded-ram:64M")?;
    /// let mut kv = device.kv(None)?;
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/laghos/test1.parquet");
    /// # let file = std::fs::read(path).unwrap();
    /// kv.put(b"mesh", &file)?;
    /// let mut result = String::new();
    /// let sql = "SELECT count(*), max(x) FROM mesh WHERE y < 0.04";
    /// kv.query(b"mesh", sql, byway::SqlOptions::default())?.read_to_string(&mut result).unwrap();
    /// assert_eq!(result, "4,2.5625\n");
    /// # }
    /// # Ok::<(), byway::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a device that executes no queries; [`ErrorKind::KeyNotFound`]; a query that the device refuses or
    /// that failed, in the device's words.
    pub fn query(&mut self, key: &[u8], sql: &str, options: SqlOptions) -> Result<SqlResult<'_>> {
        let key = Key::new(key)?;
        let mut entry = begin(self.nsid(), sql, options);
        entry.set_key(key.padded());
        entry.cdw11 = QueryCdw11::from_bits(entry.cdw11).with_key_len(key.len() as u8).into_bits();
        let nsid = self.nsid();
        let (queue, buffer) = self.queue_and_buffer();
        SqlResult::begin(queue, buffer, nsid, entry, sql)
    }
}

impl Nvm {
    /// As [`Kv::query`], over the `len_bytes` bytes from block `slba` on. A command that changes them while the query runs ends it.
    ///
    /// # Errors
    /// As there, and [`ErrorKind::OutOfRange`].
    pub fn query(
        &mut self,
        slba: u64,
        len_bytes: u64,
        sql: &str,
        options: SqlOptions,
    ) -> Result<SqlResult<'_>> {
        let mut entry = begin(self.nsid(), sql, options);
        BlockObject { slba, len_bytes }.write_to(&mut entry);
        let nsid = self.nsid();
        let (queue, buffer) = self.queue_and_buffer();
        SqlResult::begin(queue, buffer, nsid, entry, sql)
    }
}

fn begin(nsid: Nsid, sql: &str, options: SqlOptions) -> Entry {
    let mut entry = Entry::new(VendorOpcode::QUERY.0, 0, nsid.get());
    entry.cdw10 = sql.len() as u32;
    let fields = QueryCdw11::new().with_format(options.format.0).with_header(options.header);
    entry.cdw11 = fields.with_explain(options.explain).into_bits();
    entry
}

/// The result of a query, as it comes: bytes in the format that was asked for.
pub struct SqlResult<'a> {
    queue: &'a mut Queue,
    /// What the text and parts travel in, kept from query to query.
    scratch: &'a mut Scratch,
    nsid: Nsid,
    id: u16,
    state: Progress,
    /// Bytes of the result that came.
    result_offset_bytes: u64,
    /// The last part, and where in it the next byte is.
    part: Option<Buffer>,
    at: usize,
}

/// How far a result is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// So many bytes are there.
    Ready(u64),
    /// None are there yet.
    Coming,
    /// All came; the device has forgotten the query.
    Over,
}

impl<'a> SqlResult<'a> {
    fn begin(
        queue: &'a mut Queue,
        scratch: &'a mut Scratch,
        nsid: Nsid,
        entry: Entry,
        sql: &str,
    ) -> Result<Self> {
        // Long enough for a short result, too.
        let mut text = scratch.take(sql.len().max(PART_MIN_BYTES))?;
        text.set_len(sql.len());
        text.as_mut_slice().copy_from_slice(sql.as_bytes());
        let command = RawCommand { entry, data: RawData::ToDevice(text.into()) };
        let done = queue.execute(command.into()).map_err(of_query)?;
        let id = QueryAnswer::from_bits(done.dw0()).id();
        let state = Progress::Ready(done.answer.dw1.into());
        scratch.keep(done.buffer);
        Ok(Self { queue, scratch, nsid, id, state, result_offset_bytes: 0, part: None, at: 0 })
    }

    /// The next bytes of the result, `None` behind the last. Waits for them.
    ///
    /// # Errors
    /// The query failed, in the device's words: what came before is not the result.
    pub fn next_part(&mut self) -> Result<Option<&[u8]>> {
        while self.rest().is_empty() {
            match self.state {
                Progress::Over => return Ok(None),
                Progress::Coming => self.wait()?,
                Progress::Ready(bytes) => self.take(bytes)?,
            }
        }
        let (part, from) = (self.part.as_ref(), std::mem::replace(&mut self.at, usize::MAX));
        Ok(part.and_then(|part| part.as_slice().get(from..)))
    }

    /// Bytes of the last part that were not given out.
    fn rest(&self) -> &[u8] {
        self.part.as_ref().and_then(|part| part.as_slice().get(self.at..)).unwrap_or_default()
    }

    fn entry(&self, opcode: VendorOpcode) -> Entry {
        let mut entry = Entry::new(opcode.0, 0, self.nsid.get());
        entry.cdw11 = self.id.into();
        entry
    }

    fn wait(&mut self) -> Result<()> {
        let entry = self.entry(VendorOpcode::QUERY_WAIT);
        let waited = self.execute(entry, RawData::None)?;
        self.state = Progress::Ready(waited.answer.dw1.into());
        Ok(())
    }

    fn take(&mut self, ready_bytes: u64) -> Result<()> {
        let room_bytes =
            (ready_bytes as usize).clamp(PART_MIN_BYTES, PART_MAX_BYTES).next_multiple_of(PART_MIN_BYTES);
        let mut entry = self.entry(VendorOpcode::QUERY_RESULTS);
        entry.cdw10 = room_bytes as u32;
        (entry.cdw12, entry.cdw13) =
            (self.result_offset_bytes as u32, (self.result_offset_bytes >> 32) as u32);
        let buffer = self.buffer(room_bytes)?;
        let done = self.execute(entry, RawData::FromDevice(buffer))?;
        let (given_bytes, rest) = (done.dw0() as usize, ResultsAnswer::from_bits(done.answer.dw1));
        let mut part = done.buffer.filter(|part| given_bytes <= part.len()).ok_or_else(too_many)?;
        part.set_len(given_bytes);
        self.result_offset_bytes += given_bytes as u64;
        (self.part, self.at) = (Some(part), 0);
        self.state = match (rest.more(), rest.ready_bytes()) {
            (false, _) => Progress::Over,
            (true, 0) => Progress::Coming,
            (true, bytes) => Progress::Ready(bytes.into()),
        };
        Ok(())
    }

    /// A buffer of this length: the last one, if it has room for so many bytes.
    fn buffer(&mut self, len: usize) -> Result<Buffer> {
        if let Some(part) = self.part.take() {
            self.scratch.keep(Some(part));
        }
        self.scratch.take(len)
    }

    /// Sends a command about the query. It is over where the device says that it has failed.
    fn execute(&mut self, entry: Entry, data: RawData) -> Result<Outcome> {
        self.queue.execute(RawCommand { entry, data }.into()).map_err(|error| {
            if error.nvme_status().is_some_and(|status| status.sct() == sct::VENDOR) {
                self.state = Progress::Over;
            }
            of_query(error)
        })
    }
}

impl Read for SqlResult<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.rest().is_empty() && self.next_part().map_err(io::Error::other)?.is_some() {
            self.at = 0;
        }
        let rest = self.rest();
        let given = rest.len().min(into.len());
        into[..given].copy_from_slice(&rest[..given]);
        self.at = self.at.saturating_add(given);
        Ok(given)
    }
}

impl Drop for SqlResult<'_> {
    /// Ends a query whose result was not taken to its end.
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            self.scratch.keep(Some(part));
        }
        if self.state != Progress::Over {
            let entry = self.entry(VendorOpcode::QUERY_END);
            // A device that is gone has no query either.
            let _ = self.queue.execute(RawCommand { entry, data: RawData::None }.into());
        }
    }
}

fn of_query(error: Error) -> Error {
    error.doing("execute a query")
}

fn too_many() -> Error {
    Error::host(ErrorKind::Protocol, "the device gave more of a result than there was room for")
}
