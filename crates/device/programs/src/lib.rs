#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod allow_list;
mod builtin;
mod ebpf;
mod fault;
mod memory;
mod object_run;
mod program;
mod range;
mod refusal;
mod slots;
#[cfg(feature = "wasm")]
mod wasm;

pub use allow_list::{AllowList, Allowed, NamesNoProgram};
pub use builtin::{BuiltIn, DECOMPRESS_MAX_BYTES};
pub use ebpf::{CALL_DEPTH_MAX, HELPER_MAX_BYTES, INSTRUCTIONS_MAX, Unsound};
pub use fault::Fault;
pub use memory::{MEMORY_MAX_BYTES, Memory};
pub use object_run::{OUTPUT_MAX_BYTES, ObjectRun};
pub use program::{Execution, Program, Progress, SHA256_BYTES};
pub use range::{MemoryRange, RangeLimits, RangeSets, Ranges};
pub use refusal::Refusal;
pub use slots::{ProgramPart, SlotLimits, Slots};
#[cfg(feature = "wasm")]
pub use wasm::WASM_MEMORY_MAX_BYTES;
