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
/// # Errors
/// The status that answers it.
pub fn data_of(command: &Command, in_capsule: Option<usize>) -> Result<Data, Status> {
    if command.cdw0.psdt() != DataPointer::Sgl {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let descriptor = command.sgl1();
    match descriptor.kind {
        SglKind::DATA_BLOCK_OFFSET => {
            in_capsule_data(descriptor.address, descriptor.length_bytes, in_capsule)
        }
        _ if in_capsule.is_some() => Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr()),
        SglKind::TRANSPORT_DATA_BLOCK => transported(command, descriptor.length_bytes as usize),
        _ => Err(Status::SGL_TYPE_INVALID.with_dnr()),
    }
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

fn transported(command: &Command, bytes: usize) -> Result<Data, Status> {
    if bytes > MAX_TRANSFER_BYTES {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    match direction(command) {
        Direction::HostToDevice if bytes > 0 => Ok(Data::AtHost),
        Direction::HostToDevice | Direction::None => Ok(Data::None),
        Direction::DeviceToHost => Ok(Data::ToHost(bytes)),
        Direction::Both => Err(Status::INVALID_OPCODE.with_dnr()),
    }
}

/// Of a fabrics command its type tells the direction.
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
        assert_eq!(data_of(&command(1, block), None), Err(Status::SGL_TYPE_INVALID.with_dnr()));
        assert_eq!(data_of(&command(2, transport(u32::MAX)), None), Err(Status::INVALID_FIELD.with_dnr()));
        assert_eq!(data_of(&Command::new(2, 1, 1), None), Err(Status::INVALID_FIELD.with_dnr()));
    }
}
