//! Which data a command has, as its descriptor and its opcode say.

use byway_controller::{EXEC_MAX_BYTES, MAX_TRANSFER_BYTES};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::command::Direction;
use byway_spec::base::sgl::SglKind;
use byway_spec::fabrics::FabricsType;
use byway_spec::vendor::{ExecFields, ManyCdw10, VendorOpcode};
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
    /// Data to the host, in bytes.
    ToHost(usize),
}

/// Bytes that a host whose data is [at the host](Data::AtHost) is asked for: all that its descriptor names, or the request of a command with
/// data both ways.
#[inline]
pub fn solicited_bytes(command: &Command) -> u32 {
    both_ways(command).map_or_else(|| command.sgl1().length_bytes, |data| data.request_bytes)
}

/// Bytes of data to the host of a command whose own data has come: those of a command with data both ways.
#[inline]
pub fn reply_bytes(command: &Command) -> usize {
    both_ways(command).map_or(0, |data| data.reply_bytes as usize)
}

/// Data of a command in both directions.
struct BothWays {
    request_bytes: u32,
    reply_bytes: u32,
}

/// The data of a Retrieve Many or an Exec.
#[inline]
fn both_ways(command: &Command) -> Option<BothWays> {
    match VendorOpcode(command.opcode()) {
        VendorOpcode::KV_RETRIEVE_MANY => Some(BothWays {
            request_bytes: command.cdw12,
            reply_bytes: ManyCdw10::from_bits(command.cdw10).buffer_bytes(),
        }),
        VendorOpcode::KV_EXEC => {
            let fields = ExecFields::read_from(command);
            // The device refuses an Exec of more before it looks at the data.
            let reply_bytes = fields.output_max_bytes.min(EXEC_MAX_BYTES as u32);
            Some(BothWays { request_bytes: fields.request_bytes, reply_bytes })
        }
        _ => None,
    }
}

/// Reads what a command says of its data, `in_capsule` of which came with it.
///
/// Bytes 39:24 and PSDT of a command that moves no data are ignored: hosts send zeroes there, or a transport data block of any
/// length. Commands whose opcode has a direction may move none all the same (Get Features, a Store of 0 bytes); of those,
/// `moves_data` is false. A descriptor that names no data is left to the device, which refuses it where it needs the data.
///
/// # Errors
/// The status that answers it.
pub fn data_of(command: &Command, moves_data: bool, in_capsule: Option<usize>) -> Result<Data, Status> {
    let direction = direction(command);
    if direction == Direction::Both && both_ways(command).is_none() {
        return Err(Status::INVALID_OPCODE.with_dnr());
    }
    if direction == Direction::None || !moves_data {
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
            transported(command, direction, descriptor.length_bytes as usize)
        }
        _ => no_data(in_capsule),
    }
}

/// Data in the capsule of a command that moves none is an SGL longer than the command's data, which SGLS does not allow
/// (Base 2.1, Identify Controller, SGLS bit 18).
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

fn transported(command: &Command, direction: Direction, bytes: usize) -> Result<Data, Status> {
    if bytes > MAX_TRANSFER_BYTES {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    match direction {
        Direction::Both if solicited_bytes(command) as usize > bytes => {
            Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr())
        }
        Direction::Both if solicited_bytes(command) > 0 => Ok(Data::AtHost),
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
        assert_eq!(data_of(&command(1, SglDescriptor::inline(512)), true, Some(512)), Ok(Data::InCapsule));
        assert_eq!(data_of(&command(1, transport(512)), true, None), Ok(Data::AtHost));
        assert_eq!(data_of(&command(2, transport(512)), true, None), Ok(Data::ToHost(512)));
        assert_eq!(data_of(&command(0, transport(0)), true, None), Ok(Data::None));
    }

    #[test]
    fn data_that_is_not_as_the_descriptor_says_is_refused() {
        let length = Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        assert_eq!(data_of(&command(1, SglDescriptor::inline(512)), true, Some(500)), length);
        assert_eq!(data_of(&command(1, SglDescriptor::inline(512)), true, None), length);
        assert_eq!(data_of(&command(1, transport(512)), true, Some(512)), length);
        let mut shifted = SglDescriptor::inline(512);
        shifted.address = 8;
        assert_eq!(
            data_of(&command(1, shifted), true, Some(512)),
            Err(Status::SGL_OFFSET_INVALID.with_dnr())
        );
        let block = SglDescriptor::data_block(0, 512);
        assert_eq!(data_of(&command(1, block), true, Some(512)), length);
        assert_eq!(
            data_of(&command(2, transport(u32::MAX)), true, None),
            Err(Status::INVALID_FIELD.with_dnr())
        );
        assert_eq!(data_of(&Command::new(1, 1, 1), true, Some(512)), Err(Status::INVALID_FIELD.with_dnr()));
        assert_eq!(data_of(&command(0, transport(0)), true, Some(512)), length);
        assert_eq!(data_of(&command(3, transport(0)), true, None), Err(Status::INVALID_OPCODE.with_dnr()));
    }

    #[test]
    fn the_request_of_a_retrieve_many_comes_in_its_capsule_or_is_asked_for() {
        let many = |descriptor, request_bytes| {
            let mut command = command(VendorOpcode::KV_RETRIEVE_MANY.0, descriptor);
            command.cdw10 = ManyCdw10::new().with_buffer_bytes(4096).into_bits();
            command.cdw12 = request_bytes;
            command
        };
        let in_capsule = many(SglDescriptor::inline(60), 60);
        assert_eq!(data_of(&in_capsule, true, Some(60)), Ok(Data::InCapsule));
        assert_eq!(reply_bytes(&in_capsule), 4096);
        let at_host = many(transport(4096), 60);
        assert_eq!(data_of(&at_host, true, None), Ok(Data::AtHost));
        assert_eq!((solicited_bytes(&at_host), reply_bytes(&at_host)), (60, 4096));
        assert_eq!(data_of(&many(transport(4096), 0), true, None), Ok(Data::None));
        let length = Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        assert_eq!(data_of(&in_capsule, true, Some(61)), length);
        assert_eq!(data_of(&in_capsule, true, None), length);
        for request_bytes in [4097, u32::MAX] {
            assert_eq!(data_of(&many(transport(4096), request_bytes), true, None), length);
        }
        let long = many(transport(u32::MAX), 60);
        assert_eq!(data_of(&long, true, None), Err(Status::INVALID_FIELD.with_dnr()));
        assert_eq!(
            (solicited_bytes(&command(1, transport(9))), reply_bytes(&command(1, transport(9)))),
            (9, 0)
        );
    }

    #[test]
    fn the_request_of_an_exec_comes_in_its_capsule_or_is_asked_for() {
        let exec = |descriptor, request_bytes, output_max_bytes| {
            let mut command = command(VendorOpcode::KV_EXEC.0, descriptor);
            (command.cdw10, command.cdw12) = (request_bytes, output_max_bytes);
            command
        };
        let in_capsule = exec(SglDescriptor::inline(60), 60, 16);
        assert_eq!(data_of(&in_capsule, true, Some(60)), Ok(Data::InCapsule));
        assert_eq!(reply_bytes(&in_capsule), 16);
        let at_host = exec(transport(4096), 60, 4096);
        assert_eq!(data_of(&at_host, true, None), Ok(Data::AtHost));
        assert_eq!((solicited_bytes(&at_host), reply_bytes(&at_host)), (60, 4096));
        let length = Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        assert_eq!(data_of(&exec(transport(50), 60, 4096), true, None), length);
        assert_eq!(reply_bytes(&exec(transport(4096), 60, u32::MAX)), EXEC_MAX_BYTES);
    }

    #[test]
    fn no_descriptor_of_a_command_without_data_is_looked_at() {
        let no_pointer = Command::new(0, 1, 1);
        let garbage = SglDescriptor::new(SglKind(0xff), u64::MAX, u32::MAX);
        for command in [no_pointer, command(0, SglDescriptor::default()), command(0, garbage)] {
            assert_eq!(data_of(&command, true, None), Ok(Data::None));
        }
        // Property Get: type 04h.
        let mut property_get = Command::new(0x7f, 1, 4);
        property_get.set_sgl1(garbage);
        assert_eq!(data_of(&property_get, true, None), Ok(Data::None));
    }

    #[test]
    fn a_descriptor_that_names_no_data_is_left_to_the_device() {
        for opcode in [1, 2] {
            assert_eq!(data_of(&command(opcode, SglDescriptor::default()), true, None), Ok(Data::None));
            assert_eq!(
                data_of(&command(opcode, SglDescriptor::data_block(0, 512)), true, None),
                Ok(Data::None)
            );
        }
    }

    #[test]
    fn a_command_that_moves_no_data_has_none_whatever_its_descriptor_claims() {
        let length = Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        for opcode in [1, 2] {
            for descriptor in [transport(4096), transport(u32::MAX), SglDescriptor::inline(512)] {
                assert_eq!(data_of(&command(opcode, descriptor), false, None), Ok(Data::None));
                assert_eq!(data_of(&command(opcode, descriptor), false, Some(512)), length);
            }
        }
    }
}
