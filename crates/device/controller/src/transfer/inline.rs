//! Inline payloads (ByteExpress): the chunks follow their command in the same submission queue.
//!
//! The encoding is the one fabrics use for in-capsule data: PSDT says SGL, and SGL1 is a data block with the
//! *offset* subtype. A command with its chunks is a capsule: `1 + ceil(n / 64)` slots, one doorbell. The length
//! is in the descriptor alone. An impossible length is fatal (CSTS.CFS), since the start of the next command
//! is then unknown; the chunks of a command that is refused for another reason are consumed.

use byway_dma::DmaFault;
use byway_link::{Class, Work};
use byway_spec::Command;
use byway_spec::base::command::COMMAND_BYTES;
use byway_spec::base::sgl::SglKind;

use crate::port::Port;
use crate::queue::SubmissionQueue;

/// The inline payload that a command's data pointer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capsule {
    /// The command has none, or inline is not enabled and it will be refused for its descriptor.
    None,
    /// A payload of `bytes` in the next `slots` slots.
    Payload {
        /// Payload length.
        bytes: usize,
        /// Slots it takes.
        slots: u32,
    },
    /// A length over the announced limit or the ring: controller-fatal.
    Broken,
}

/// Reads what `command` says of an inline payload, for a ring of `entries` slots.
#[inline]
pub fn capsule(command: &Command, enabled: bool, max_bytes: usize, entries: u32) -> Capsule {
    if !enabled || !command.cdw0.psdt().is_sgl() || command.sgl1().kind != SglKind::DATA_BLOCK_OFFSET {
        return Capsule::None;
    }
    let bytes = command.sgl1().length_bytes as usize;
    let slots = bytes.div_ceil(COMMAND_BYTES) as u32;
    // A full ring holds entries − 1 slots, one of which is the command.
    if bytes > max_bytes || slots + 2 > entries {
        return Capsule::Broken;
    }
    Capsule::Payload { bytes, slots }
}

/// Fetches the `slots` chunks behind the command at the head of `sq` into `into`: in bursts up to the ring's end, or
/// one by one where the profile's controller reads each slot by itself. A burst is one read that the link splits at
/// its request size; the wrap of the ring splits the fetch, not the payload.
#[inline]
pub fn fetch(
    port: &mut Port<'_>,
    sq: &SubmissionQueue,
    into: &mut [u8],
    slots: u32,
    burst: bool,
) -> Result<(), DmaFault> {
    let mut done = 0;
    while done < slots {
        let run = sq.ring.run_from(1 + done, if burst { slots - done } else { 1 });
        let start = done as usize * COMMAND_BYTES;
        let end = start + run.slots as usize * COMMAND_BYTES;
        port.read(Class::ChunkFetch, sq.slot(run.first), &mut into[start..end])?;
        port.meter.work_times(Work::Chunk, run.slots);
        done += run.slots;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_spec::base::sgl::SglDescriptor;

    fn command(bytes: u32) -> Command {
        let mut command = Command::new(1, 1, 1);
        command.set_sgl1(SglDescriptor::inline(bytes));
        command
    }

    #[test]
    fn a_payload_takes_a_slot_for_each_64_bytes_begun() {
        for (bytes, slots) in [(0, 0), (1, 1), (64, 1), (65, 2), (4096, 64)] {
            let wanted = Capsule::Payload { bytes: bytes as usize, slots };
            assert_eq!(capsule(&command(bytes), true, 8192, 1024), wanted);
        }
    }

    #[test]
    fn a_length_over_the_limit_or_the_ring_breaks_the_queue() {
        assert_eq!(capsule(&command(8193), true, 8192, 1024), Capsule::Broken);
        assert_eq!(capsule(&command(u32::MAX), true, 8192, 1024), Capsule::Broken);
        assert_eq!(
            capsule(&command(14 * 64), true, 8192, 16),
            Capsule::Payload { bytes: 14 * 64, slots: 14 }
        );
        assert_eq!(capsule(&command(14 * 64 + 1), true, 8192, 16), Capsule::Broken);
    }

    #[test]
    fn without_the_feature_or_with_another_pointer_there_is_no_capsule() {
        assert_eq!(capsule(&command(64), false, 8192, 1024), Capsule::None);
        assert_eq!(capsule(&Command::new(1, 1, 1), true, 8192, 1024), Capsule::None);
        let mut data_block = Command::new(1, 1, 1);
        data_block.set_sgl1(SglDescriptor::data_block(4096, 64));
        assert_eq!(capsule(&data_block, true, 8192, 1024), Capsule::None);
    }
}
