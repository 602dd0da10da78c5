//! Commands about queries, parsed.

use byway_kv::Key;
use byway_spec::Command;
use byway_spec::vendor::{BlockObject, PlanFields, QueryCdw11, QueryFormat, VendorOpcode};

use crate::error::CommandError;
use crate::id::QueryId;
use crate::namespace::kv::key;

/// A command about a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryCommand {
    /// Begins a query.
    Begin(Begin),
    /// Gives the bytes of its result from `result_offset_bytes` on, at most `buffer_bytes`.
    Results { id: QueryId, buffer_bytes: u32, result_offset_bytes: u64 },
    /// Waits for more of its result.
    Wait(QueryId),
    /// Ends it.
    End(QueryId),
    /// A part of a text.
    WritePlan(PlanFields),
    /// A part of a result, by the plan that the query came by.
    GetResult(PlanFields),
}

/// A query to begin, with what stands in its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begin {
    pub text_bytes: u32,
    pub object: Named,
    pub format: QueryFormat,
    pub has_header: bool,
    pub explains: bool,
}

/// An object, as a command names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// By a key.
    Key(Key),
    /// By blocks.
    Blocks(BlockObject),
}

/// Whether an opcode is one of a command about queries.
#[inline]
pub(crate) const fn is_query(opcode: VendorOpcode) -> bool {
    matches!(
        opcode,
        VendorOpcode::QUERY
            | VendorOpcode::QUERY_RESULTS
            | VendorOpcode::QUERY_WAIT
            | VendorOpcode::QUERY_END
            | VendorOpcode::WRITE_EXECUTION_PLAN
            | VendorOpcode::GET_RESULT
    )
}

/// Whether an opcode is one of those that name an object of a key-value namespace by two numbers.
pub(crate) const fn is_plan(opcode: VendorOpcode) -> bool {
    matches!(opcode, VendorOpcode::WRITE_EXECUTION_PLAN | VendorOpcode::GET_RESULT)
}

impl QueryCommand {
    /// Parses a command for which [`is_query`] holds.
    pub fn parse(command: &Command) -> Result<Self, CommandError> {
        let id = QueryId(command.cdw11 as u16);
        match VendorOpcode(command.opcode()) {
            VendorOpcode::QUERY => Begin::parse(command).map(Self::Begin),
            VendorOpcode::QUERY_RESULTS => Ok(Self::Results {
                id,
                buffer_bytes: command.cdw10,
                result_offset_bytes: u64::from(command.cdw12) | u64::from(command.cdw13) << 32,
            }),
            VendorOpcode::QUERY_WAIT => Ok(Self::Wait(id)),
            VendorOpcode::QUERY_END => Ok(Self::End(id)),
            VendorOpcode::WRITE_EXECUTION_PLAN => write_plan(command),
            _ => get_result(command),
        }
    }
}

impl Begin {
    fn parse(command: &Command) -> Result<Self, CommandError> {
        let fields = QueryCdw11::from_bits(command.cdw11);
        let format = QueryFormat(fields.format());
        if format.name().is_none() {
            return Err(CommandError::invalid_field("no such format of a result").at_byte(45));
        }
        let object = match fields.key_len() {
            0 => Named::Blocks(BlockObject::read_from(command)),
            _ => Named::Key(key(command)?),
        };
        Ok(Self {
            text_bytes: command.cdw10,
            object,
            format,
            has_header: fields.header(),
            explains: fields.explain(),
        })
    }
}

fn get_result(command: &Command) -> Result<QueryCommand, CommandError> {
    let fields = PlanFields::of_result(command);
    if fields.flags != PlanFields::RESULT_FLAGS {
        return Err(CommandError::invalid_field(
            "results are CSV without a header, released as they are taken",
        )
        .at_byte(12));
    }
    Ok(QueryCommand::GetResult(fields))
}

fn write_plan(command: &Command) -> Result<QueryCommand, CommandError> {
    let fields = PlanFields::of_write(command);
    if fields.flags != PlanFields::WRITE_FLAGS {
        return Err(CommandError::invalid_field("plans are S3 selects with CSV as their result").at_byte(12));
    }
    Ok(QueryCommand::WritePlan(fields))
}
