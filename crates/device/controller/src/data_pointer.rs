//! From a command's data pointer to its payload: PRPs, SGLs, or the bytes that came along.

use byway_dma::{BusAddr, Segment, prp, sgl};
use byway_link::{Class, Work};
use byway_spec::base::command::{DataPointer, Direction};
use byway_spec::base::sgl::SglKind;
use byway_spec::{Command, Status};

use crate::error::CommandError;
use crate::limits::MAX_TRANSFER_BYTES;
use crate::payload::{HostData, Mapped};
use crate::port::Port;

pub use crate::limits::PAGE_BYTES;

/// Byte of a command where the data pointer begins, for the parameter error location.
const DPTR_BYTE: u16 = 24;

/// The payload of a command that moves exactly `len_bytes`.
///
/// Lists are fetched through `port`, which accounts for them; the data itself is not touched. `whole_pages` is the
/// profile's habit for PRPs; SGLs are always byte-exact.
///
/// # Errors
/// Data SGL Length Invalid where the payload carried or described is not of that length, Invalid Field over the
/// largest transfer, and what the walkers of `byway_dma` refuse.
#[inline]
pub fn map<'a>(
    port: &mut Port<'_>,
    mapped: &'a mut Mapped,
    command: &Command,
    len_bytes: usize,
    carried: Option<&'a [u8]>,
    whole_pages: bool,
) -> Result<HostData<'a>, CommandError> {
    match carried {
        Some(bytes) if bytes.len() == len_bytes => Ok(HostData::Carried(bytes)),
        Some(_) => Err(CommandError::data_length("the inline payload is not as long as the command says")),
        None => map_buffer(port, mapped, command, len_bytes, len_bytes, whole_pages),
    }
}

/// The payload of a command that brings a buffer of `buffer_bytes` of which it moves the first `moved_bytes`.
///
/// A PRP list is fetched only as far as that; an SGL must describe the whole buffer.
///
/// # Errors
/// As [`map`].
pub fn map_buffer<'a>(
    port: &mut Port<'_>,
    mapped: &'a mut Mapped,
    command: &Command,
    buffer_bytes: usize,
    moved_bytes: usize,
    whole_pages: bool,
) -> Result<HostData<'a>, CommandError> {
    check_length(buffer_bytes)?;
    if buffer_bytes == 0 {
        return Ok(HostData::None);
    }
    mapped.whole_pages = false;
    if port.capsule.is_some() {
        map_transport(port, mapped, command, buffer_bytes as u32)?;
        mapped.len_bytes = moved_bytes;
        return Ok(HostData::Mapped(mapped));
    }
    match command.cdw0.psdt() {
        DataPointer::Prp => {
            map_prps(port, mapped, command, (buffer_bytes as u32, moved_bytes as u32), whole_pages)?;
        }
        DataPointer::Sgl => map_sgl(port, mapped, command, buffer_bytes as u32)?,
        DataPointer::SglMetadata => {
            return Err(CommandError::invalid_field("metadata SGLs are not supported").at_byte(1));
        }
        DataPointer::Reserved => return Err(CommandError::invalid_field("PSDT is reserved").at_byte(1)),
    }
    mapped.len_bytes = moved_bytes;
    Ok(HostData::Mapped(mapped))
}

/// Checks a command's length in bytes against MDTS.
///
/// # Errors
/// Invalid Field over the largest transfer.
#[inline]
pub fn check_length(bytes: usize) -> Result<(), CommandError> {
    if bytes > MAX_TRANSFER_BYTES {
        return Err(CommandError::invalid_field("more bytes than one command may move"));
    }
    Ok(())
}

/// Size of the host's buffer where `len_bytes` are needed and up to `max_bytes` may be offered. PRPs do not say.
#[inline]
pub fn offered_bytes(command: &Command, len_bytes: usize, max_bytes: usize) -> usize {
    let descriptor = command.sgl1();
    let has_length = command.cdw0.psdt() == DataPointer::Sgl && descriptor.kind == SglKind::DATA_BLOCK;
    if has_length { (descriptor.length_bytes as usize).clamp(len_bytes, max_bytes) } else { len_bytes }
}

fn map_prps(
    port: &mut Port<'_>,
    mapped: &mut Mapped,
    command: &Command,
    (buffer_bytes, moved_bytes): (u32, u32),
    whole_pages: bool,
) -> Result<(), CommandError> {
    mapped.whole_pages = whole_pages;
    let fetch = |at, into: &mut [u8]| port.read(Class::ListFetch, at, into);
    let (prp1, prp2) = (command.prp1(), command.prp2());
    prp::walk_start(prp1, prp2, buffer_bytes, moved_bytes, fetch, &mut mapped.segments)
        .map_err(refused_prp)?;
    // Where whole pages are moved, each is accounted for when it moves.
    if !whole_pages {
        note_work(port, mapped, Work::PrpPage);
    }
    Ok(())
}

fn map_sgl(
    port: &mut Port<'_>,
    mapped: &mut Mapped,
    command: &Command,
    len_bytes: u32,
) -> Result<(), CommandError> {
    let fetch = |at, into: &mut [u8]| port.read(Class::ListFetch, at, into);
    sgl::walk(command.sgl1(), len_bytes, command.direction(), fetch, &mut mapped.segments)
        .map_err(refused_sgl)?;
    note_work(port, mapped, Work::SglDescriptor);
    Ok(())
}

/// The firmware sets up one transfer a segment.
#[inline]
fn note_work(port: &mut Port<'_>, mapped: &Mapped, work: Work) {
    if port.meter.is_timing() {
        mapped.segments.as_slice().iter().for_each(|_| port.meter.work(work));
    }
}

#[cold]
fn refused_prp(error: prp::PrpError) -> CommandError {
    let cause = match error.status() {
        Status::PRP_OFFSET_INVALID => "a PRP with an offset where none may be",
        _ => "a PRP list that the host did not map",
    };
    CommandError::new(error.status(), cause).at_byte(DPTR_BYTE)
}

#[cold]
fn refused_sgl(error: sgl::SglError) -> CommandError {
    let cause = match error.status() {
        Status::SGL_TYPE_INVALID => "an SGL descriptor of a type not supported here",
        Status::INVALID_SGL_SEGMENT => "an SGL segment descriptor that cannot be",
        Status::INVALID_SGL_COUNT => "an SGL with too many descriptors or a segment out of place",
        Status::DATA_SGL_LENGTH_INVALID => "an SGL that is not as long as the command says",
        _ => "an SGL segment that the host did not map",
    };
    CommandError::new(error.status(), cause).at_byte(DPTR_BYTE)
}

/// The reply buffer of a command that came in a capsule, named by a transport SGL data block.
fn map_transport(
    port: &Port<'_>,
    mapped: &mut Mapped,
    command: &Command,
    len_bytes: u32,
) -> Result<(), CommandError> {
    if command.cdw0.psdt() != DataPointer::Sgl {
        return Err(NO_SGL);
    }
    let descriptor = command.sgl1();
    // Of a command with data both ways, that in its capsule may be what the descriptor names.
    let names_sent = command.direction() == Direction::Both && descriptor.kind == SglKind::DATA_BLOCK_OFFSET;
    if descriptor.kind != SglKind::TRANSPORT_DATA_BLOCK && !names_sent {
        return Err(NO_TRANSPORT_BLOCK);
    }
    if command.direction() == Direction::HostToDevice {
        return Err(CommandError::data_length("the command brought no data"));
    }
    let is_short = !names_sent && descriptor.length_bytes < len_bytes;
    if is_short || port.reply_bytes() < len_bytes as usize {
        return Err(CommandError::data_length("the host's buffer is shorter than the command says"));
    }
    mapped.segments.clear();
    mapped.segments.push(Segment::new(BusAddr(0), len_bytes));
    Ok(())
}

const NO_SGL: CommandError = CommandError::invalid_field("data of fabrics is named by an SGL").at_byte(1);
const NO_TRANSPORT_BLOCK: CommandError =
    CommandError::new(Status::SGL_TYPE_INVALID, "data goes by a transport data block").at_byte(24);
