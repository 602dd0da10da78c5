//! Programs in WebAssembly.
//!
//! A module exports the function `run`, of the two parameters of the command, and the memory `memory`. It may import from `byway`:
//!
//! ```wat
//! (import "byway" "count" (func (result i32)))                        ;; ranges
//! (import "byway" "length" (func (param i32) (result i32)))           ;; bytes of a range, 0 if it is not there
//! (import "byway" "read" (func (param i32 i32 i32 i32)))              ;; range, position in it, address in memory, bytes
//! (import "byway" "write" (func (param i32 i32 i32 i32)))             ;; the same, from memory to the range
//! (func (export "run") (param i64 i64) (result i64) …)
//! ```
//!
//! All numbers are unsigned. Memory has at most [`WASM_MEMORY_MAX_BYTES`]; a start function is refused.

mod host;
mod run;

use wasmi::{CompilationMode, Config, EnforcedLimits, Engine, ExternType, Linker, Module, Store, ValType};

use crate::ebpf::Unsound;
use host::Host;

pub(crate) use run::Run;

/// Most bytes of memory of a module.
pub const WASM_MEMORY_MAX_BYTES: usize = 4 << 20;

/// Bytes of a page of a module's memory.
const PAGE_BYTES: u64 = 64 << 10;

/// Deepest nesting of calls.
const RECURSION_MAX: usize = 256;

/// A module that was verified.
#[derive(Debug)]
pub(crate) struct Verified {
    module: Module,
    linker: Linker<Host>,
    /// Bytes of memory that an instance begins with.
    memory_bytes: u64,
}

/// Steps of making an instance with a page of memory: about 2.5 µs.
const START_STEPS: u64 = 1024;

/// Bytes of further memory that are cleared in the time of one step, with what the kernel takes to give them.
const CLEARED_BYTES_PER_STEP: u64 = 32;

impl Verified {
    /// Compiles a module to the interpreter's code, and tries whether it can be instantiated.
    ///
    /// # Errors
    /// [`Unsound::Module`].
    pub fn load(bytes: &[u8]) -> Result<Self, Unsound> {
        let engine = Engine::new(&config());
        let module = Module::new(&engine, bytes).map_err(|_| Unsound::Module("it does not validate"))?;
        let memory_bytes = check_exports(&module)?;
        let linker =
            host::linker(&engine).map_err(|_| Unsound::Module("the device has no functions for it"))?;
        let verified = Self { module, linker, memory_bytes };
        verified.instantiate(Host::default()).map_err(|_| {
            Unsound::Module("its imports are unknown, its memory is too large, or its data is outside it")
        })?;
        Ok(verified)
    }

    /// What making an instance takes, in steps.
    pub const fn start_steps(&self) -> u64 {
        START_STEPS + self.memory_bytes.saturating_sub(PAGE_BYTES) / CLEARED_BYTES_PER_STEP
    }

    /// An instance with its memory as the module says.
    fn instantiate(&self, host: Host) -> Result<(Store<Host>, wasmi::Instance), wasmi::Error> {
        let mut store = Store::new(self.linker.engine(), host);
        store.limiter(Host::limits);
        let instance = self.linker.instantiate_and_start(&mut store, &self.module)?;
        Ok((store, instance))
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        .compilation_mode(CompilationMode::Eager)
        .enforced_limits(EnforcedLimits::strict())
        .ignore_custom_sections(true)
        .allow_start_fn(false)
        .wasm_multi_memory(false)
        .wasm_custom_page_sizes(false)
        .set_max_recursion_depth(RECURSION_MAX)
        .set_max_cached_stacks(0);
    config
}

/// Whether the module has the function that is run, and its memory: how many bytes that has at first.
fn check_exports(module: &Module) -> Result<u64, Unsound> {
    let is_run = |exported: ExternType| {
        exported.func().is_some_and(|function| {
            function.params() == [ValType::I64; 2] && function.results() == [ValType::I64]
        })
    };
    if !module.get_export(run::FUNCTION).is_some_and(is_run) {
        return Err(Unsound::Module("it exports no function `run` of two 64-bit numbers that gives one"));
    }
    let memory = module.get_export(run::MEMORY).and_then(|exported| exported.memory().copied());
    let memory = memory.ok_or(Unsound::Module("it exports no memory `memory`"))?;
    Ok(memory.minimum().saturating_mul(PAGE_BYTES))
}
