//! Which data a command has, as its descriptor and its opcode say.

use byway_controller::MAX_TRANSFER_BYTES;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::command::Direction;
use byway_spec::base::sgl::SglKind;
use byway_spec::fabrics::FabricsType;
use byway_spec::{Command, DataPointer, Status};

/// The data of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// None.
    None,
    /// It came in the capsule.
    InCapsule,
    /// The host has it, and sends it when it is asked for.
    AtHost,
    /// The host takes so many bytes.
    ToHost(usize),
}

/// Reads what a command says of its data, `in_capsule` of which came with it.
///
/// A command without data has no descriptor: bytes 39:24 and PSDT are reserved then, and hosts send zeroes there as well as a
/// transport data block of no bytes. A command whose opcode has a direction may move nothing all the same (Get Features,
/// Namespace Management): a descriptor that names no data is left to the device, which refuses it where it needs the data.
///
/// # Errors
/// The status that answers it.
pub fn data_of(command: &Command, in_capsule: Option<usize>) -> Result<Data, Status> {
    let direction = direction(command);
    if direction == Direction::Both {
        return Err(Status::INVALID_OPCODE.with_dnr());
    }
    if direction == Direction::None {
        return no_data(in_capsule);
    }
    if command.cdw0.psdt() != DataPointer::Sgl {
        return no_data(in_capsule).map_err(|_| Status::INVALID_FIELD.with_dnr());
    }
    let descriptor = command.sgl1();
    match descriptor.kind {
        SglKind::DATA_BLOCK_OFFSET => {
            in_capsule_data(descriptor.address, descriptor.length_bytes, in_capsule)
        }
        SglKind::TRANSPORT_DATA_BLOCK if in_capsule.is_none() => {
            transported(direction, descriptor.length_bytes as usize)
        }
        _ => no_data(in_capsule),
    }
}

/// A command without data must carry none in its capsule.
fn no_data(in_capsule: Option<usize>) -> Result<Data, Status> {
    if in_capsule.is_some() { Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr()) } else { Ok(Data::None) }
}

fn in_capsule_data(offset: u64, bytes: u32, in_capsule: Option<usize>) -> Result<Data, Status> {
    if offset != 0 {
        return Err(Status::SGL_OFFSET_INVALID.with_dnr());
    }
    if in_capsule.unwrap_or(0) != bytes as usize {
        return Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
    }
    Ok(Data::InCapsule)
}

fn transported(direction: Direction, bytes: usize) -> Result<Data, Status> {
    if bytes > MAX_TRANSFER_BYTES {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    match direction {
        Direction::HostToDevice if bytes > 0 => Ok(Data::AtHost),
        Direction::DeviceToHost => Ok(Data::ToHost(bytes)),
        _ => Ok(Data::None),
    }
}

/// The direction of a command; for fabrics commands, of its type (FCTYPE).
fn direction(command: &Command) -> Direction {
    match command.opcode() == AdminOpcode::FABRICS.0 {
        true => Direction::of(FabricsType::of(command).0),
        false => command.direction(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_spec::base::sgl::SglDescriptor;

    fn command(opcode: u8, descriptor: SglDescriptor) -> Command {
        let mut command = Command::new(opcode, 1, 1);
        command.set_sgl1(descriptor);
        command
    }

    fn transport(bytes: u32) -> SglDescriptor {
        SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, bytes)
    }

    #[test]
    fn the_opcode_says_which_way_data_goes_and_the_descriptor_how() {
        assert_eq!(data_of(&command(1, SglDescriptor::inline(512)), Some(512)), Ok(Data::InCapsule));
        assert_eq!(data_of(&command(1, transport(512)), None), Ok(Data::AtHost));
        assert_eq!(data_of(&command(2, transport(512)), None), Ok(Data::ToHost(512)));
        assert_eq!(data_of(&command(0, transport(0)), None), Ok(Data::None));
    }

    #[test]
    fn data_that_is_not_as_the_descriptor_says_is_refused() {
        let length = Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        assert_eq!(data_of(&command(1, SglDescriptor::inline(512)), Some(500)), length);
        assert_eq!(data_of(&command(1, SglDescriptor::inline(512)), None), length);
        assert_eq!(data_of(&command(1, transport(512)), Some(512)), length);
        let mut shifted = SglDescriptor::inline(512);
        shifted.address = 8;
        assert_eq!(data_of(&command(1, shifted), Some(512)), Err(Status::SGL_OFFSET_INVALID.with_dnr()));
        let block = SglDescriptor::data_block(0, 512);
        assert_eq!(data_of(&command(1, block), Some(512)), length);
        assert_eq!(data_of(&command(2, transport(u32::MAX)), None), Err(Status::INVALID_FIELD.with_dnr()));
        assert_eq!(data_of(&Command::new(1, 1, 1), Some(512)), Err(Status::INVALID_FIELD.with_dnr()));
        assert_eq!(data_of(&command(0, transport(0)), Some(512)), length);
        assert_eq!(data_of(&command(3, transport(0)), None), Err(Status::INVALID_OPCODE.with_dnr()));
    }

    #[test]
    fn no_descriptor_of_a_command_without_data_is_looked_at() {
        let no_pointer = Command::new(0, 1, 1);
        let garbage = SglDescriptor::new(SglKind(0xff), u64::MAX, u32::MAX);
        for command in [no_pointer, command(0, SglDescriptor::default()), command(0, garbage)] {
            assert_eq!(data_of(&command, None), Ok(Data::None));
        }
        // Property Get: type 04h.
        let mut property_get = Command::new(0x7f, 1, 4);
        property_get.set_sgl1(garbage);
        assert_eq!(data_of(&property_get, None), Ok(Data::None));
    }

    #[test]
    fn a_descriptor_that_names_no_data_is_left_to_the_device() {
        for opcode in [1, 2] {
            assert_eq!(data_of(&command(opcode, SglDescriptor::default()), None), Ok(Data::None));
            assert_eq!(data_of(&command(opcode, SglDescriptor::data_block(0, 512)), None), Ok(Data::None));
        }
    }
}
