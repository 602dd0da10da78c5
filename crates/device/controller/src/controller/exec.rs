//! Exec: the request comes from the host's buffer, and the output goes there.

use byway_spec::vendor::{ExecFields, read_exec_request};
use byway_spec::{Command, Key, KeyError, Status};

use super::Controller;
use super::io::Arrived;
use crate::data_pointer;
use crate::error::CommandError;
use crate::exec::{self, ExecRequest, Output};
use crate::namespace::{Execution, timed};
use crate::outcome::Outcome;
use crate::payload::HostData;
use crate::port::Port;
use crate::reservation::Access;
use crate::subsystem::{Begun, Subsystem};

impl Controller {
    /// Executes an Exec. One whose program goes on beside other commands is completed as commands of external engines are
    /// ([`Controller::complete_external`]).
    #[cold]
    pub(super) fn execute_exec(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
    ) -> Result<Outcome, CommandError> {
        let Arrived { qid, command, carried } = *arrived;
        let nsid = command.nsid;
        subsystem.admit(nsid, self.id, Access::Read)?.0.kv()?;
        let fields = ExecFields::read_from(command);
        let program = subsystem.allowed_program(nsid, self.id, fields.operation)?;
        exec::check(&fields)?;
        let target = (qid, nsid, Access::Read);
        let mut request = self.with_namespace(subsystem, port, target, carried, |_, execution| {
            receive(execution, command, &fields)
        })?;
        request.inline_max_bytes = self.inline_max_bytes(command);
        let id = self.id;
        match timed(port, |at_ps| subsystem.exec(id, nsid, program, request, at_ps))? {
            Begun::Pending(external) => Ok(Outcome::External(external)),
            Begun::Ended(output) => self.with_namespace(subsystem, port, target, None, |_, execution| {
                send(execution, &output).map(|()| Outcome::with(output.len_bytes))
            }),
        }
    }
}

/// Maps the host's buffer, which stays mapped for the output, and reads the request from it. Over a fabric the request came with the
/// command, and the buffer is that of the output.
fn receive(
    execution: &mut Execution<'_, '_>,
    command: &Command,
    fields: &ExecFields,
) -> Result<ExecRequest, CommandError> {
    let Execution { port, room, carried, whole_pages, .. } = execution;
    let is_capsule = port.capsule.is_some();
    let buffer_bytes = if is_capsule { fields.output_max_bytes } else { fields.buffer_bytes() } as usize;
    let mapped = &mut room.mapped;
    let data = data_pointer::map_buffer(port, mapped, command, buffer_bytes, buffer_bytes, *whole_pages)?;
    let request_bytes = fields.request_bytes as usize;
    match *carried {
        Some(request) if request.len() == request_bytes => parse(request, fields),
        Some(_) => Err(OTHER_LENGTH),
        None if is_capsule => Err(OTHER_LENGTH),
        None => {
            let mut request = vec![0; request_bytes];
            data.source_of_first(request_bytes, &mut room.stage).fill(port, &mut request)?;
            parse(&request, fields)
        }
    }
}

fn parse(request: &[u8], fields: &ExecFields) -> Result<ExecRequest, CommandError> {
    let (key, input) = read_exec_request(request).ok_or(SHORT_REQUEST)?;
    let key = Key::new(key).map_err(|error| match error {
        KeyError::Empty => EMPTY_KEY,
        KeyError::TooLong(_) => LONG_KEY,
    })?;
    let taken_bytes = fields.output_max_bytes;
    Ok(ExecRequest { key, input: input.to_vec(), taken_bytes, inline_max_bytes: 0 })
}

/// Gives the host an output, as far as it takes it: behind the completion, or in its buffer.
fn send(execution: &mut Execution<'_, '_>, output: &Output) -> Result<(), CommandError> {
    let Execution { port, room, .. } = execution;
    if let Some(result) = room.result.take(output.bytes.len()) {
        result.extend_from_slice(&output.bytes);
        room.mapped.len_bytes = 0;
        return Ok(());
    }
    room.mapped.len_bytes = output.bytes.len();
    if output.bytes.is_empty() {
        return Ok(());
    }
    let mut sink = HostData::Mapped(&room.mapped).sink(&mut room.stage)?;
    sink.put(port, &output.bytes)?;
    sink.finish(port)
}

const OTHER_LENGTH: CommandError =
    CommandError::data_length("the request came not at all, or not in the length that the command says");
const SHORT_REQUEST: CommandError =
    CommandError::invalid_field("the request ends before the key that it announces").at_byte(40);
const EMPTY_KEY: CommandError =
    CommandError::new(Status::INVALID_KEY_SIZE, "the key is empty; keys are 1 to 16 bytes");
const LONG_KEY: CommandError = CommandError::invalid_field("the key is too long; keys are 1 to 16 bytes");
