//! Commands about queries.
//!
//! Query and Query Wait are completed when their query has an answer, as commands of external engines are
//! ([`Controller::complete_external`]). All others end at once.

use byway_spec::Status;
use byway_spec::vendor::{PlanFields, QueryFormat, ResultsAnswer, VendorOpcode};

use super::Controller;
use super::io::Arrived;
use crate::error::CommandError;
use crate::id::QueryId;
use crate::limits::MAX_TRANSFER_BYTES;
use crate::namespace::timed;
use crate::outcome::{ExternalWork, Outcome};
use crate::port::Port;
use crate::query::command::{Begin, Named, QueryCommand, is_plan};
use crate::query::{QueryObject, QueryRequest, Written};
use crate::reservation::Access;
use crate::subsystem::Subsystem;

impl Controller {
    /// Executes a command about a query.
    #[cold]
    pub(super) fn execute_query(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
    ) -> Result<Outcome, CommandError> {
        subsystem.queries()?;
        let (nsid, command) = (arrived.command.nsid, arrived.command);
        if is_plan(VendorOpcode(command.opcode())) {
            subsystem.check_has_keys(nsid)?;
        }
        match QueryCommand::parse(command)? {
            QueryCommand::Begin(begin) => self.begin_query(subsystem, port, arrived, begin),
            QueryCommand::Results { id, buffer_bytes, result_offset_bytes } => {
                self.give_results(subsystem, port, arrived, (id, result_offset_bytes), buffer_bytes)
            }
            QueryCommand::Wait(id) => {
                subsystem.queries()?.wait(self.id, nsid, id)?;
                Ok(wait_for(id))
            }
            QueryCommand::End(id) => {
                subsystem.queries()?.cancel_of(self.id, nsid, id)?;
                self.plans.forget_query(id);
                Ok(Outcome::OK)
            }
            QueryCommand::WritePlan(fields) => self.write_plan(subsystem, port, arrived, &fields),
            QueryCommand::GetResult(fields) => self.get_result(subsystem, port, arrived, &fields),
        }
    }

    fn begin_query(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
        begin: Begin,
    ) -> Result<Outcome, CommandError> {
        let text = self.receive_text(subsystem, port, arrived, begin.text_bytes)?;
        let request = QueryRequest {
            text: text_of(text)?,
            object: object_of(subsystem, port, arrived.command.nsid, begin.object)?,
            format: begin.format,
            has_header: begin.has_header,
            explains: begin.explains,
            buffers_whole_result: false,
            begun_ps: port.meter.cursor_ps(),
        };
        let id = subsystem.queries()?.begin(self.id, arrived.command.nsid, request)?;
        Ok(outcome(id, subsystem.queries()?.answered_at_once(id)))
    }

    /// The text that a command brings, if its host may read the namespace.
    fn receive_text(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
        text_bytes: u32,
    ) -> Result<Vec<u8>, CommandError> {
        if text_bytes == 0 || text_bytes > subsystem.query_text_max_bytes() {
            return Err(TEXT_LENGTH);
        }
        let mut text = vec![0; text_bytes as usize];
        let target = (arrived.qid, arrived.command.nsid, Access::Read);
        self.with_namespace(subsystem, port, target, arrived.carried, |_, execution| {
            execution.receive(arrived.command, &mut text)
        })?;
        Ok(text)
    }

    /// Gives the host the next bytes of a result. They stay in the device where the host's buffer cannot be written.
    fn give_results(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
        (id, result_offset_bytes): (QueryId, u64),
        buffer_bytes: u32,
    ) -> Result<Outcome, CommandError> {
        let nsid = arrived.command.nsid;
        let max_bytes = (buffer_bytes as usize).min(MAX_TRANSFER_BYTES);
        let part = subsystem.queries()?.part(self.id, nsid, (id, result_offset_bytes), max_bytes)?;
        port.meter.advance_to(part.at_ps);
        let target = (arrived.qid, nsid, Access::Read);
        self.with_namespace(subsystem, port, target, None, |_, execution| {
            execution.send(arrived.command, buffer_bytes.into(), &part.bytes)
        })?;
        subsystem.queries()?.take(id, &part);
        let ready_bytes = part.rest.ready_bytes.min(u64::from(u32::MAX >> 2)) as u32;
        let rest = ResultsAnswer::new().with_ready_bytes(ready_bytes).with_more(!part.is_last());
        Ok(Outcome::Done { dw0: part.bytes.len() as u32, dw1: rest.into_bits() })
    }

    /// Takes a part of a plan. The last part begins its query, and waits for the whole result.
    fn write_plan(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
        fields: &PlanFields,
    ) -> Result<Outcome, CommandError> {
        if fields.total_bytes > subsystem.query_text_max_bytes() {
            return Err(TEXT_LENGTH);
        }
        let nsid = arrived.command.nsid;
        let part = self.receive_text(subsystem, port, arrived, fields.part_bytes)?;
        let (plan, text) = match self.plans.write(nsid, fields, &part)? {
            Written::Part(plan) => return Ok(Outcome::with(plan.into())),
            Written::Whole(plan, text) => (plan, text),
        };
        let begun = self.begin_plan(subsystem, port, nsid, fields, text);
        let id = begun.inspect_err(|_| self.plans.forget(plan))?;
        self.plans.begin(plan, id);
        let answer = subsystem.queries()?.answered_at_once(id);
        Ok(outcome(id, answer.map(|words| self.answer_of_plan(id, words))))
    }

    fn begin_plan(
        &self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        nsid: u32,
        fields: &PlanFields,
        text: Vec<u8>,
    ) -> Result<QueryId, CommandError> {
        let key = byway_kv::Key::new(&fields.key()).map_err(|_| TEXT_LENGTH)?;
        let request = QueryRequest {
            text: text_of(text)?,
            object: object_of(subsystem, port, nsid, Named::Key(key))?,
            format: QueryFormat::CSV,
            has_header: false,
            explains: false,
            buffers_whole_result: true,
            begun_ps: port.meter.cursor_ps(),
        };
        subsystem.queries()?.begin(self.id, nsid, request)
    }

    /// Gives the next bytes of the result of a plan.
    fn get_result(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
        fields: &PlanFields,
    ) -> Result<Outcome, CommandError> {
        let id = self.plans.query_of(fields.plan, arrived.command.nsid)?;
        let position = (id, u64::from(fields.offset));
        let given = self.give_results(subsystem, port, arrived, position, fields.part_bytes)?;
        let Outcome::Done { dw0, dw1 } = given else { return Ok(given) };
        let rest = ResultsAnswer::from_bits(dw1);
        if !rest.more() {
            self.plans.forget(fields.plan);
        }
        let total_bytes = fields.offset.saturating_add(dw0).saturating_add(rest.ready_bytes());
        Ok(Outcome::Done { dw0, dw1: total_bytes })
    }

    /// The answer to the command that began a plan's query names the plan.
    pub(super) fn answer_of_plan(&mut self, id: QueryId, [dw0, dw1]: [u32; 2]) -> [u32; 2] {
        match self.plans.plan_of(id) {
            Some(plan) => [plan.into(), dw1],
            None => [dw0, dw1],
        }
    }
}

/// The object of a query, with the modelled time of what was read of it so far.
fn object_of(
    subsystem: &mut Subsystem,
    port: &mut Port<'_>,
    nsid: u32,
    named: Named,
) -> Result<QueryObject, CommandError> {
    timed(port, |at_ps| subsystem.query_object(nsid, named, at_ps))
}

/// The outcome of a command that began a query, which may have its answer.
fn outcome(id: QueryId, answer: Option<[u32; 2]>) -> Outcome {
    match answer {
        Some([dw0, dw1]) => Outcome::Done { dw0, dw1 },
        None => wait_for(id),
    }
}

/// The outcome of a command that waits for a query's answer.
fn wait_for(id: QueryId) -> Outcome {
    Outcome::External(ExternalWork::Query(id).into())
}

fn text_of(text: Vec<u8>) -> Result<String, CommandError> {
    String::from_utf8(text).map_err(|_| CommandError::new(Status::QUERY_REFUSED, "the text is not UTF-8"))
}

const TEXT_LENGTH: CommandError =
    CommandError::new(Status::QUERY_REFUSED, "the text has no byte, or more than a query may have")
        .at_byte(40);
