//! Load Program, Program Activation Management and Memory Range Set Management (Computational Programs command set).

use byway_programs::ProgramPart;
use byway_spec::base::command::NSID_ALL;
use byway_spec::programs::{
    LoadProgramCdw10, MemoryRangeDescriptor, ProgramActivationCdw10, ProgramListHeader, ProgramType,
    RangeSetCdw10,
};
use byway_spec::{Command, Status};
use zerocopy::{FromZeros, IntoBytes};

use super::context::Context;
use crate::error::CommandError;
use crate::namespace::{Namespace, ProgramsNamespace, refused};
use crate::outcome::Outcome;

/// The namespace of programs that a command names.
fn programs<'a>(
    cx: &'a mut Context<'_, '_>,
    command: &Command,
) -> Result<&'a mut ProgramsNamespace, CommandError> {
    if command.nsid == NSID_ALL || !cx.is_active(command.nsid) {
        return Err(NO_NAMESPACE);
    }
    match cx.subsystem.namespace_mut(command.nsid) {
        Some((Namespace::Programs(programs), _)) => Ok(programs),
        _ => Err(NOT_PROGRAMS),
    }
}

/// Loads a part of a program, or unloads one.
pub(super) fn load_program(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    let cdw10 = LoadProgramCdw10::from_bits(command.cdw10);
    programs(cx, command)?;
    if cdw10.sel() == LoadProgramCdw10::UNLOAD {
        return programs(cx, command)?.slots().unload(cdw10.pind()).map(|()| Outcome::OK).map_err(refused);
    }
    let identifier = match cdw10.pit() {
        LoadProgramCdw10::NO_IDENTIFIER => None,
        LoadProgramCdw10::UNIQUE_IDENTIFIER => {
            Some(u64::from(command.cdw12) | u64::from(command.cdw13) << 32)
        }
        _ => return Err(CommandError::invalid_field("no such type of identifier").at_byte(43)),
    };
    if u64::from(command.cdw14) > ProgramsNamespace::slot_limits().program_max_bytes {
        return Err(refused(byway_programs::Refusal::ProgramTooBig));
    }
    let mut bytes = vec![0; command.cdw14 as usize];
    if !bytes.is_empty() {
        cx.receive(command, &mut bytes)?;
    }
    let part = ProgramPart {
        index: cdw10.pind(),
        program_type: ProgramType(cdw10.ptype()),
        identifier,
        size_bytes: command.cdw11,
        offset: command.cdw15,
        bytes: &bytes,
    };
    programs(cx, command)?.slots().load(&part).map(|()| Outcome::OK).map_err(refused)
}

/// Activates or deactivates a program.
pub(super) fn activate_program(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    let cdw10 = ProgramActivationCdw10::from_bits(command.cdw10);
    let slots = programs(cx, command)?.slots();
    let done = match cdw10.sel() {
        ProgramActivationCdw10::ACTIVATE => slots.activate(cdw10.pind()),
        ProgramActivationCdw10::DEACTIVATE => slots.deactivate(cdw10.pind()),
        _ => return Err(CommandError::invalid_field("neither activate nor deactivate").at_byte(42)),
    };
    done.map(|()| Outcome::OK).map_err(refused)
}

/// Creates or deletes a set of memory ranges.
pub(super) fn manage_range_set(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    let cdw10 = RangeSetCdw10::from_bits(command.cdw10);
    programs(cx, command)?;
    match cdw10.sel() {
        RangeSetCdw10::CREATE => create_range_set(cx, command),
        RangeSetCdw10::DELETE => {
            programs(cx, command)?.sets().delete(cdw10.rsid()).map(|()| Outcome::OK).map_err(refused)
        }
        _ => Err(CommandError::invalid_field("neither create nor delete").at_byte(40)),
    }
}

fn create_range_set(cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
    let count = command.cdw11 as usize;
    if count == 0 {
        return Err(CommandError::invalid_field("a set has ranges").at_byte(44));
    }
    if count > usize::from(ProgramsNamespace::range_limits().ranges_max) {
        return Err(refused(byway_programs::Refusal::TooManyRanges));
    }
    let mut descriptors = vec![MemoryRangeDescriptor::new_zeroed(); count];
    cx.receive(command, descriptors.as_mut_slice().as_mut_bytes())?;
    let ranges = cx.subsystem.check_ranges(&descriptors, cx.id)?;
    let id = programs(cx, command)?.sets().create(ranges).map_err(refused)?;
    Ok(Outcome::with(id.into()))
}

/// Program List (log page 82h): a descriptor for each index; none of what is no namespace of programs.
pub(super) fn list_page(cx: &Context<'_, '_>, nsid: u32) -> Vec<u8> {
    let descriptors = match cx.subsystem.namespace(nsid) {
        Some(Namespace::Programs(programs)) if cx.is_active(nsid) => programs.descriptors(),
        _ => Vec::new(),
    };
    let head = ProgramListHeader { programs: descriptors.len() as u16, reserved_2: [0; 62] };
    [head.as_bytes(), descriptors.as_slice().as_bytes()].concat()
}

const NO_NAMESPACE: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "no such namespace").at_byte(4);
const NOT_PROGRAMS: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "the namespace holds no programs").at_byte(4);
