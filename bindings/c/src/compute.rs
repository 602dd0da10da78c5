//! Computation in a device: local memory and programs.

use std::ffi::{c_int, c_void};

use byway::compute::{CopySource, LocalMemory, MemoryRange, ProgramRanges, Programs};
use byway::spec::programs::ProgramType;
use byway::{Device, Nsid, Result};

use crate::arg::{bytes, bytes_mut, check, handle, invalid, put, shared, want};
use crate::device::byway_device;
use crate::error::{border, border_quiet};

/// A namespace of local memory with a queue of its own. One thread at a time uses it. Positions and lengths are multiples of 4.
pub struct byway_memory {
    memory: LocalMemory,
}

/// A namespace of programs with a queue of its own. One thread at a time uses it.
pub struct byway_programs {
    programs: Programs,
}

/// Bytes of local memory that a program sees.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_memory_range {
    /// First byte.
    pub start: u64,
    /// The namespace of local memory.
    pub nsid: u32,
    /// Bytes.
    pub bytes: u32,
}

/// Where byway_memory_copy() copies from: blocks, or bytes of local memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_copy_source {
    /// First block or byte.
    pub start: u64,
    /// The namespace.
    pub nsid: u32,
    /// Blocks, at most 65,536, or bytes.
    pub count: u32,
}

/// The sources of byway_memory_copy() are blocks.
pub const BYWAY_COPY_BLOCKS: u32 = 0;

/// The sources of byway_memory_copy() are bytes of local memory.
pub const BYWAY_COPY_MEMORY: u32 = 1;

/// A program in eBPF.
pub const BYWAY_PROGRAM_EBPF: u32 = 0xc0;

/// A module of WebAssembly.
pub const BYWAY_PROGRAM_WASM: u32 = 0xc1;

// Written out above: the header has no constants that are computed.
const _: () = assert!(BYWAY_PROGRAM_EBPF == ProgramType::EBPF.0 as u32);
const _: () = assert!(BYWAY_PROGRAM_WASM == ProgramType::WASM.0 as u32);

/// Makes a namespace of local memory, all zeroes, and attaches it to this controller; `nsid` becomes its identifier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_create_memory(
    device: *const byway_device,
    bytes: u64,
    nsid: *mut u32,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { create(device, nsid, |device| device.create_memory(bytes)) }
}

/// Makes a namespace of programs, and attaches it to this controller; `nsid` becomes its identifier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_create_programs(device: *const byway_device, nsid: *mut u32) -> c_int {
    // SAFETY: by the contract.
    unsafe { create(device, nsid, Device::create_programs) }
}

/// Deletes a namespace of any kind with everything in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_device_delete_namespace(device: *const byway_device, nsid: u32) -> c_int {
    // SAFETY: by the contract.
    border(|| unsafe { byway_device::shared(device) }?.delete_namespace(Nsid::new(nsid)?).map(|()| 0))
}

/// Opens a namespace of local memory for synchronous calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_memory_open(
    device: *const byway_device,
    nsid: u32,
    memory: *mut *mut byway_memory,
) -> c_int {
    border(|| {
        want(memory, "memory")?;
        // SAFETY: by the contract.
        let opened = unsafe { byway_device::shared(device) }?.memory(Nsid::new(nsid)?)?;
        // SAFETY: by the contract.
        unsafe { put(memory, Box::into_raw(Box::new(byway_memory { memory: opened })), "memory") }?;
        Ok(0)
    })
}

/// Closes it; NULL is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_memory_close(memory: *mut byway_memory) {
    // SAFETY: `byway_memory_open` made it, and the program does not use it again.
    unsafe { close(memory) }
}

/// Its size in bytes; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_memory_bytes(memory: *const byway_memory) -> u64 {
    // SAFETY: by the contract.
    unsafe { shared(memory, "memory") }.map_or(0, |memory| memory.memory.size_bytes())
}

/// The namespace's identifier; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_memory_nsid(memory: *const byway_memory) -> u32 {
    // SAFETY: by the contract.
    unsafe { shared(memory, "memory") }.map_or(0, |memory| memory.memory.nsid().get())
}

/// Reads `bytes` bytes from byte `start` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_memory_read(
    memory: *mut byway_memory,
    start: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (memory, into) = unsafe { (handle(memory, "memory")?, bytes_mut(into, bytes, "into")?) };
        memory.memory.read(start, into).map(|()| 0)
    })
}

/// Writes `bytes` bytes from byte `start` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_memory_write(
    memory: *mut byway_memory,
    start: u64,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (memory, from) = unsafe { (handle(memory, "memory")?, self::bytes(from, bytes, "from")?) };
        memory.memory.write(start, from).map(|()| 0)
    })
}

/// Sets `bytes` bytes from byte `start` on to zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_memory_fill(memory: *mut byway_memory, start: u64, bytes: u32) -> c_int {
    // SAFETY: by the contract.
    border(|| unsafe { handle(memory, "memory") }?.memory.fill(start, bytes).map(|()| 0))
}

/// Copies `sources`, which are BYWAY_COPY_BLOCKS or BYWAY_COPY_MEMORY, one behind the other to byte `start` on, within the device: `bytes`
/// bytes together.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_memory_copy(
    memory: *mut byway_memory,
    start: u64,
    bytes: u64,
    kind: u32,
    sources: *const byway_copy_source,
    count: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (memory, sources) =
            unsafe { (handle(memory, "memory")?, structures(sources, count, "sources")?) };
        let sources = sources.iter().map(|source| source_of(kind, source)).collect::<Result<Vec<_>>>()?;
        memory.memory.copy(start, bytes, &sources).map(|()| 0)
    })
}

/// Opens a namespace of programs for synchronous calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_programs_open(
    device: *const byway_device,
    nsid: u32,
    programs: *mut *mut byway_programs,
) -> c_int {
    border(|| {
        want(programs, "programs")?;
        // SAFETY: by the contract.
        let opened = unsafe { byway_device::shared(device) }?.programs(Nsid::new(nsid)?)?;
        // SAFETY: by the contract.
        unsafe { put(programs, Box::into_raw(Box::new(byway_programs { programs: opened })), "programs") }?;
        Ok(0)
    })
}

/// Closes it; NULL is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_programs_close(programs: *mut byway_programs) {
    // SAFETY: `byway_programs_open` made it, and the program does not use it again.
    unsafe { close(programs) }
}

/// The namespace's identifier; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_programs_nsid(programs: *const byway_programs) -> u32 {
    // SAFETY: by the contract.
    unsafe { shared(programs, "programs") }.map_or(0, |programs| programs.programs.nsid().get())
}

/// Loads a program of `type`, BYWAY_PROGRAM_EBPF or BYWAY_PROGRAM_WASM, at an index; the device verifies it. `identifier` is a number of
/// the program's own, and may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_programs_load(
    programs: *mut byway_programs,
    index: u16,
    r#type: u32,
    identifier: *const u64,
    program: *const c_void,
    bytes: usize,
) -> c_int {
    border(|| {
        // SAFETY: by the contract.
        let (programs, program) =
            unsafe { (handle(programs, "programs")?, self::bytes(program, bytes, "program")?) };
        // SAFETY: by the contract.
        let identifier = unsafe { identifier.as_ref() }.copied();
        let of_type = u8::try_from(r#type).map(ProgramType);
        let of_type = of_type.map_err(|_| invalid(format!("{} is no type of a program", r#type)))?;
        programs.programs.load(index, of_type, identifier, program).map(|()| 0)
    })
}

/// Removes the program at an index, which is not activated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_programs_unload(programs: *mut byway_programs, index: u16) -> c_int {
    // SAFETY: by the contract.
    border(|| unsafe { handle(programs, "programs") }?.programs.unload(index).map(|()| 0))
}

/// Lets the program at an index be executed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_programs_activate(programs: *mut byway_programs, index: u16) -> c_int {
    // SAFETY: by the contract.
    border(|| unsafe { handle(programs, "programs") }?.programs.activate(index).map(|()| 0))
}

/// Lets the program at an index no longer be executed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_programs_deactivate(programs: *mut byway_programs, index: u16) -> c_int {
    // SAFETY: by the contract.
    border(|| unsafe { handle(programs, "programs") }?.programs.deactivate(index).map(|()| 0))
}

/// Has the device keep `count` ranges; `set` becomes the number that byway_programs_execute() names them by, from 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_programs_create_range_set(
    programs: *mut byway_programs,
    ranges: *const byway_memory_range,
    count: usize,
    set: *mut u16,
) -> c_int {
    border(|| {
        want(set, "set")?;
        // SAFETY: by the contract.
        let (programs, ranges) =
            unsafe { (handle(programs, "programs")?, structures(ranges, count, "ranges")?) };
        let created = programs.programs.create_range_set(&ranges_of(ranges)?)?;
        // SAFETY: by the contract.
        unsafe { put(set, created, "set") }?;
        Ok(0)
    })
}

/// Has the device forget a set of ranges.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_programs_delete_range_set(programs: *mut byway_programs, set: u16) -> c_int {
    // SAFETY: by the contract.
    border(|| unsafe { handle(programs, "programs") }?.programs.delete_range_set(set).map(|()| 0))
}

/// Executes the program at an index over `count` ranges, or over a set where `set` is not 0 (then `count` is 0), with two parameters;
/// `result` becomes what it returns. Linux passes no commands on that bring ranges: there a set is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_programs_execute(
    programs: *mut byway_programs,
    index: u16,
    set: u16,
    ranges: *const byway_memory_range,
    count: usize,
    first: u64,
    second: u64,
    result: *mut u64,
) -> c_int {
    border(|| {
        want(result, "result")?;
        // SAFETY: by the contract.
        let (programs, ranges) =
            unsafe { (handle(programs, "programs")?, structures(ranges, count, "ranges")?) };
        if set != 0 && count != 0 {
            return Err(invalid("a program runs over a set of ranges or over those given, not both"));
        }
        let listed = ranges_of(ranges)?;
        let over = if set == 0 { ProgramRanges::Listed(&listed) } else { ProgramRanges::Set(set) };
        let value = programs.programs.execute(index, over, [first, second])?;
        // SAFETY: by the contract.
        unsafe { put(result, value, "result") }?;
        Ok(0)
    })
}

/// Makes a namespace, and puts its identifier where the program wants it.
///
/// # Safety
/// As the contract says of `device` and `nsid`.
unsafe fn create(
    device: *const byway_device,
    nsid: *mut u32,
    make: impl FnOnce(&Device) -> Result<Nsid>,
) -> c_int {
    border(|| {
        want(nsid, "nsid")?;
        // SAFETY: the caller's word.
        let created = make(unsafe { byway_device::shared(device) }?)?;
        // SAFETY: the caller's word.
        unsafe { put(nsid, created.get(), "nsid") }?;
        Ok(0)
    })
}

/// Drops what a handle owns.
///
/// # Safety
/// `owned` is NULL, or came from `Box::into_raw` and is not used again.
unsafe fn close<T>(owned: *mut T) {
    border_quiet(|| {
        if !owned.is_null() {
            // SAFETY: the caller's word.
            drop(unsafe { Box::from_raw(owned) });
        }
    });
}

/// Structures one behind the other. `first` may be NULL where `count` is 0.
///
/// # Safety
/// `first` is NULL, or points to `count` structures that no thread changes during `'a`.
unsafe fn structures<'a, T>(first: *const T, count: usize, name: &'static str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    let bytes = count.checked_mul(size_of::<T>()).ok_or_else(|| invalid(format!("{name} are too many")))?;
    check(first.cast(), bytes, name)?;
    // SAFETY: not NULL, of a length that can be, and the caller's word.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

fn source_of(kind: u32, source: &byway_copy_source) -> Result<CopySource> {
    let byway_copy_source { start, nsid, count } = *source;
    let nsid = Nsid::new(nsid)?;
    match kind {
        BYWAY_COPY_BLOCKS => Ok(CopySource::Blocks { nsid, slba: start, blocks: count }),
        BYWAY_COPY_MEMORY => Ok(CopySource::Memory { nsid, start, len_bytes: count }),
        other => Err(invalid(format!("{other} is no kind of sources of a copy"))),
    }
}

fn ranges_of(ranges: &[byway_memory_range]) -> Result<Vec<MemoryRange>> {
    let range = |range: &byway_memory_range| {
        Ok(MemoryRange { nsid: Nsid::new(range.nsid)?, start: range.start, len_bytes: range.bytes })
    };
    ranges.iter().map(range).collect()
}
