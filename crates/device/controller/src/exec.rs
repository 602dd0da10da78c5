//! Exec: a program over the value of a key, copied chunk by chunk and then run in time slices.

use std::mem;
use std::sync::Arc;

use byway_flash::Flash;
use byway_kv::Key;
use byway_programs::{ObjectRun, Program};
use byway_spec::Status;
use byway_spec::vendor::ExecFields;

use crate::error::CommandError;
use crate::limits::{EXEC_BYTES_PER_STEP, EXEC_CHUNK_BYTES, EXEC_COPIES_MAX, EXEC_MAX_BYTES};
use crate::namespace::{KvNamespace, stopped};
use crate::query::ValueVersion;

/// What an Exec command asks for.
#[derive(Debug)]
pub(crate) struct ExecRequest {
    pub key: Key,
    pub input: Vec<u8>,
    /// Most bytes of the output that the host takes.
    pub taken_bytes: u32,
    /// Most bytes of the output that may stand behind the completion.
    pub inline_max_bytes: u16,
}

/// The output of a program, as far as its host takes it.
#[derive(Debug)]
pub(crate) struct Output {
    pub bytes: Vec<u8>,
    /// Its whole length.
    pub len_bytes: u32,
}

/// A program over a value: first the value is copied, then the program runs.
#[derive(Debug)]
pub(crate) struct ValueRun {
    key: Key,
    taken_bytes: u32,
    /// Bytes of the value and of the input.
    bytes: usize,
    /// Modelled time at which its last read of the flash ended.
    at_ps: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Copying(Copying),
    Running(Box<ObjectRun>),
    Over,
}

/// A value of which a part was copied.
#[derive(Debug)]
struct Copying {
    program: Arc<Program>,
    input: Vec<u8>,
    steps_max: u64,
    value: Vec<u8>,
    version: ValueVersion,
    /// Modelled time at which its reads begin, as those of a Retrieve all do.
    begun_ps: u64,
    copied_bytes: usize,
    /// Copies that were given up.
    copies: u32,
}

/// Checks the lengths of a command.
///
/// # Errors
/// Invalid Field for lengths over [`EXEC_MAX_BYTES`].
pub(crate) fn check(fields: &ExecFields) -> Result<(), CommandError> {
    if fields.request_bytes as usize > EXEC_MAX_BYTES {
        return Err(LONG_REQUEST);
    }
    if fields.output_max_bytes as usize > EXEC_MAX_BYTES {
        return Err(LONG_OUTPUT);
    }
    Ok(())
}

impl ValueRun {
    /// A run of `program` over the value of a key, which ends after `steps_max` steps. Nothing of the value is copied yet. `at_ps` is the
    /// modelled time at which its reads begin, and moves on to where the value is found, or is not.
    ///
    /// # Errors
    /// Key Does Not Exist; what the flash says.
    pub fn begin(
        (kv, flash): (&mut KvNamespace, &mut Flash),
        program: Arc<Program>,
        request: ExecRequest,
        steps_max: u64,
        at_ps: &mut u64,
    ) -> Result<Self, CommandError> {
        let ExecRequest { key, input, taken_bytes, .. } = request;
        let version = kv.read_value(flash, &key, None, 0, &mut [], at_ps)?;
        let value = vec![0; version.len_bytes() as usize];
        let bytes = value.len() + input.len();
        let begun_ps = *at_ps;
        let copying =
            Copying { program, input, steps_max, value, version, begun_ps, copied_bytes: 0, copies: 0 };
        Ok(Self { key, taken_bytes, bytes, at_ps: begun_ps, state: State::Copying(copying) })
    }

    /// Modelled time at which its last read of the flash ended.
    pub const fn at_ps(&self) -> u64 {
        self.at_ps
    }

    /// Most bytes that it takes.
    pub const fn bytes(&self) -> usize {
        self.bytes + EXEC_MAX_BYTES
    }

    /// What copying the next chunk of the value takes, in steps of a program; `None` once the value is copied.
    pub fn chunk_steps(&self) -> Option<u64> {
        let State::Copying(copying) = &self.state else { return None };
        let bytes = copying.chunk_end() - copying.copied_bytes;
        Some((bytes / EXEC_BYTES_PER_STEP) as u64)
    }

    /// Copies the next chunk of the value, if it is not copied yet. Begins again where it was moved or overwritten meanwhile.
    ///
    /// # Errors
    /// The key is gone, the value did not stay the same for long enough; what the flash says.
    pub fn copy_chunk(&mut self, (kv, flash): (&mut KvNamespace, &mut Flash)) -> Result<(), CommandError> {
        self.state = match mem::replace(&mut self.state, State::Over) {
            State::Copying(mut copying) => {
                match copying.copy_chunk((kv, flash), &self.key, &mut self.at_ps)? {
                    true => State::Running(Box::new(copying.run(self.taken_bytes)?)),
                    false => State::Copying(copying),
                }
            }
            state => state,
        };
        Ok(())
    }

    /// Runs about `steps` steps of the program over the value that was copied, no longer than `has_time` says. Gives the output once the
    /// program has ended, and how many steps it made.
    ///
    /// # Errors
    /// The program was stopped.
    pub fn run(
        &mut self,
        steps: u64,
        has_time: impl Fn() -> bool,
    ) -> (Result<Option<Output>, CommandError>, u64) {
        let State::Running(run) = &mut self.state else { return (Ok(None), 0) };
        let before = run.steps_left();
        let output = run.advance_while(steps, has_time).map_err(stopped);
        let output = output.map(|output| output.map(|output| Output::of(output, self.taken_bytes)));
        (output, before - run.steps_left())
    }
}

impl Output {
    fn of(output: &[u8], taken_bytes: u32) -> Self {
        let taken = output.len().min(taken_bytes as usize);
        Self { bytes: output[..taken].to_vec(), len_bytes: output.len() as u32 }
    }
}

impl Copying {
    /// Where the next chunk ends.
    fn chunk_end(&self) -> usize {
        self.version.part_end(self.copied_bytes, EXEC_CHUNK_BYTES)
    }

    /// Copies the next chunk, and moves `at_ps` on to where all reads have ended. Whether the value is whole.
    fn copy_chunk(
        &mut self,
        (kv, flash): (&mut KvNamespace, &mut Flash),
        key: &Key,
        at_ps: &mut u64,
    ) -> Result<bool, CommandError> {
        let at = self.copied_bytes;
        let (end, mut ended_ps) = (self.chunk_end(), self.begun_ps);
        let (known, into) = (Some(&self.version), &mut self.value[at..end]);
        let version = kv.read_value(flash, key, known, at as u64, into, &mut ended_ps);
        *at_ps = ended_ps.max(*at_ps);
        let version = version?;
        if version != self.version {
            self.begin_again(version, *at_ps)?;
            return Ok(self.value.is_empty());
        }
        self.copied_bytes = end;
        Ok(end == self.value.len())
    }

    fn begin_again(&mut self, version: ValueVersion, at_ps: u64) -> Result<(), CommandError> {
        self.copies += 1;
        // No more memory is taken than was counted when the run began.
        if self.copies >= EXEC_COPIES_MAX || version.len_bytes() as usize > self.value.capacity() {
            return Err(CHANGED);
        }
        self.value.resize(version.len_bytes() as usize, 0);
        (self.version, self.begun_ps, self.copied_bytes) = (version, at_ps, 0);
        Ok(())
    }

    fn run(self, taken_bytes: u32) -> Result<ObjectRun, CommandError> {
        let Self { program, value, input, steps_max, .. } = self;
        ObjectRun::new(program, value, input, taken_bytes, steps_max).map_err(stopped)
    }
}

const LONG_REQUEST: CommandError =
    CommandError::invalid_field("the request is longer than a request may be").at_byte(40);
const LONG_OUTPUT: CommandError =
    CommandError::invalid_field("more bytes of output than a command may take").at_byte(48);
const CHANGED: CommandError = CommandError::new(
    Status::QUERY_OBJECT_CHANGED,
    "the value was overwritten or moved again and again, or by a longer one, while it was copied",
);
