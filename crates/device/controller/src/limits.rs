//! Limits that controllers announce and check, each in one place.

use std::time::Duration;

use byway_spec::base::identify::{Controller as Identified, Csi};

/// Host pages are 4 KiB: CAP.MPSMIN = CAP.MPSMAX = 0.
pub const PAGE_BYTES: usize = 4096;

/// Largest transfer of one command: 16 MiB (Identify MDTS 12, in units of 4 KiB).
pub const MAX_TRANSFER_BYTES: usize = 16 << 20;

/// Highest namespace identifier, and so how many there may be (Identify Controller NN, MNAN).
pub const MAX_NAMESPACES: u32 = 64;

/// Most controllers of a subsystem. Identify lists at most 2047 (Base 2.1, figure 137); over fabrics there can be that many
/// beside the one on PCIe.
pub const MAX_CONTROLLERS: u16 = 2048;

/// Queue pairs besides the admin queue.
pub const MAX_IO_QUEUES: u16 = 128;

/// Interrupt vectors a completion queue may name: one each, and the admin queue's.
pub(crate) const INTERRUPT_VECTORS: u16 = MAX_IO_QUEUES + 1;

/// Most entries of a queue over a fabric: CAP.MQES and Identify Controller MAXCMD.
pub const CAPSULE_QUEUE_ENTRIES: u16 = 1024;

/// Most in-capsule data of a command of an I/O queue (Identify Controller IOCCSZ).
pub const CAPSULE_DATA_BYTES: u32 = 16 << 10;

/// Longest payload of Bulk Store in bytes.
pub const BULK_MAX_BYTES: usize = 1 << 20;

/// Longest result of Scan and Retrieve Many in bytes.
pub const RESULT_MAX_BYTES: usize = 1 << 20;

/// Most keys of one Retrieve Many.
pub const RETRIEVE_MANY_MAX: usize = 1024;

/// Abort commands that may be outstanding, zero-based (Identify Controller ACL). Each finishes at once.
pub(crate) const ABORT_LIMIT_Z: u8 = 3;

/// Identify Controller FUSES: Compare and Write.
pub(crate) const FUSES: u16 = Identified::FUSES_COMPARE_AND_WRITE;

/// Most blocks of a fused Compare and Write, zero-based (Identify Controller ACWU). More are not written atomically if
/// the device dies meanwhile.
pub(crate) const ACWU_Z: u16 = 0;

/// Bytes of all memory namespaces together.
pub(crate) const MEMORY_TOTAL_BYTES: u64 = 1 << 30;

/// Steps of a program by the thread that executes its command, before the thread for programs goes on with it: about 3 µs.
pub(crate) const INLINE_STEPS: u64 = 1 << 10;

/// Steps of all programs in one hold of the run lock: about 50 µs of eBPF.
pub(crate) const PROGRAM_HOLD_STEPS: u64 = 1 << 14;

/// How long programs run in one hold of the run lock, in nanoseconds: other commands of the device wait for so long, and for about 2 ms
/// where a program makes a step that cannot be interrupted.
pub(crate) const PROGRAM_HOLD_NS: u64 = 100_000;

/// Most steps of a program where no thread advances programs: about 0.2 ms.
pub(crate) const EXECUTE_STEPS_MAX: u64 = 1 << 16;

/// Run slots of one controller: programs that have begun and go on.
pub(crate) const RUN_SLOTS_PER_CONTROLLER: usize = 32;

/// Run slots that controllers share beside their first ones. So one is left for each of 64 controllers, whatever the others run.
pub(crate) const RUN_SLOTS_SHARED: usize = 64;

/// Run slots of all controllers.
pub(crate) const RUN_SLOTS_TOTAL: usize = 128;

/// Most bytes of programs of one controller that wait for a run slot: 65,536 of them, over a set of ranges.
pub(crate) const WAITING_BYTES_MAX_PER_CONTROLLER: usize = 32 << 20;

/// Bytes of waiting programs that each controller may have, whatever the others have: 128 programs over a set of ranges.
pub(crate) const WAITING_BYTES_RESERVED_PER_CONTROLLER: usize = 64 << 10;

/// Most bytes of waiting programs of all controllers.
pub(crate) const WAITING_BYTES_TOTAL: usize = 256 << 20;

/// Bytes of waiting programs that controllers share beside what is reserved for each.
pub(crate) const WAITING_BYTES_SHARED: usize =
    WAITING_BYTES_TOTAL - MAX_CONTROLLERS as usize * WAITING_BYTES_RESERVED_PER_CONTROLLER;

/// What a program that waits takes at most, with its command and without its ranges.
pub(crate) const WAITING_PROGRAM_BYTES: usize = 512;

/// Longest request and longest output of Exec in bytes.
pub const EXEC_MAX_BYTES: usize = byway_programs::OUTPUT_MAX_BYTES;

/// Bytes of a value that Exec copies at once (a chunk): that holds up other commands as long as a query's slice does.
pub(crate) const EXEC_CHUNK_BYTES: usize = 64 << 10;

/// Bytes of a value that are copied in the time of one step.
pub(crate) const EXEC_BYTES_PER_STEP: usize = 16;

/// Copies of a value that is moved or overwritten meanwhile, before Exec gives up.
pub(crate) const EXEC_COPIES_MAX: u32 = 16;

/// Most bytes of values, inputs and outputs of Exec that are kept between two time slices, of all controllers together.
pub(crate) const EXEC_KEPT_BYTES: usize = 64 << 20;

/// Most steps of a program, if the device's options say nothing else: about 14 s of eBPF.
pub(crate) const PROGRAM_STEPS_MAX: u64 = 1 << 32;

/// Longest time of a program with all that it waits for, if the device's options say nothing else. Linux gives a command up after 30 s.
pub(crate) const PROGRAM_TIME_MAX: Duration = Duration::from_secs(20);

/// Command sets of a controller, all in use at once: the only vector of CNS 1Ch.
pub(crate) const COMMAND_SETS: u64 = 1 << Csi::NVM.0 | 1 << Csi::KV.0 | 1 << Csi::SLM.0 | 1 << Csi::CP.0;

/// Firmware revision, the same in Identify Controller and its slot.
pub(crate) const FIRMWARE: &str = env!("CARGO_PKG_VERSION");
