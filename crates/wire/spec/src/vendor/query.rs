//! Queries: SQL over an object of the device, and its result as a stream.
//!
//! | command | CDW2–3, CDW14–15 | CDW10 | CDW11 | CDW12–13 | data |
//! |---|---|---|---|---|---|
//! | Query, keys and values | key | text bytes | [`QueryCdw11`] | 0 | text to the device |
//! | Query, blocks | first block; bytes of the object | text bytes | [`QueryCdw11`] | 0 | text to the device |
//! | Query Results | 0 | buffer bytes | [`ResultsCdw11`](super::ResultsCdw11) | bytes taken so far | result from the device |
//! | Query Wait | 0 | 0 | query | 0 | none |
//! | Query End | 0 | 0 | query | 0 | none |
//!
//! Query and Query Wait complete once a part of the result is there, or the query has ended: [`QueryAnswer`]. Query Results gives what
//! is there and never waits: [`ResultsAnswer`]. A query that failed, whose result was taken to its end, or that Query End names, is
//! forgotten. The queries of a controller end with its reset or its connection.
//!
//! Write Execution Plan and Get Result are the commands of Los Alamos National Laboratory's object-based computational storage, as its
//! public host (`lanl-ocs/ocs-runner`) sends them: [`PlanFields`].

use bitfield_struct::bitfield;

use crate::Command;

open_enum! {
    /// How a result is written.
    pub struct QueryFormat(u8) {
        /// A line per row (RFC 4180, without carriage returns).
        CSV = 0 "CSV",
        /// A JSON object per row.
        JSON_LINES = 1 "JSON lines",
        /// A stream of Arrow IPC.
        ARROW_STREAM = 2 "Arrow IPC stream",
    }
}

/// CDW11 of Query.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct QueryCdw11 {
    /// Length of the object's key in bytes; 0 for blocks.
    pub key_len: u8,
    /// A [`QueryFormat`].
    #[bits(4)]
    pub format: u8,
    /// CSV: the first line names the columns.
    pub header: bool,
    /// The result says what the query would read and move, instead of its rows.
    pub explain: bool,
    #[bits(18)]
    __: u32,
}

/// An object of a Query in a namespace of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockObject {
    /// Its first block (CDW2–3).
    pub slba: u64,
    /// Its length in bytes (CDW14–15).
    pub len_bytes: u64,
}

impl BlockObject {
    /// Writes the object into a command.
    pub fn write_to(self, command: &mut Command) {
        (command.cdw2, command.cdw3) = (self.slba as u32, (self.slba >> 32) as u32);
        (command.cdw14, command.cdw15) = (self.len_bytes as u32, (self.len_bytes >> 32) as u32);
    }

    /// The object of a command.
    #[must_use]
    pub fn read_from(command: &Command) -> Self {
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Self { slba: word(command.cdw2, command.cdw3), len_bytes: word(command.cdw14, command.cdw15) }
    }
}

/// DW0 of Query and Query Wait. DW1 has the bytes of the result that are there.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct QueryAnswer {
    /// The query, for the commands that follow.
    pub id: u16,
    #[bits(15)]
    __: u16,
    /// The query has ended: no more bytes come.
    pub ended: bool,
}

/// DW1 of Query Results. DW0 has the bytes given.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ResultsAnswer {
    /// Bytes that are there behind those given.
    #[bits(30)]
    pub ready_bytes: u32,
    /// The bytes given stand behind this completion: [`INLINE_RESULT`](super::INLINE_RESULT).
    pub is_inline: bool,
    /// The result goes on. Otherwise the query is forgotten.
    pub more: bool,
}

/// A part of a plan for Write Execution Plan, or a part of a result for Get Result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlanFields {
    /// Object space (CDW2).
    pub space: u32,
    /// Type, format and what is to be done (CDW3): [`Self::WRITE_FLAGS`], [`Self::RESULT_FLAGS`].
    pub flags: u32,
    /// Bytes of this command's data (CDW10).
    pub part_bytes: u32,
    /// Object (CDW11). Get Result: the plan, in the upper half.
    pub object: u32,
    /// The plan, in the upper half (CDW12); [`Self::NEW_PLAN`] for a new one.
    pub plan: u16,
    /// Place of this part (CDW13).
    pub offset: u32,
    /// Bytes of the whole plan (CDW14).
    pub total_bytes: u32,
}

impl PlanFields {
    /// CDW3 of Write Execution Plan: S3 select, CSV, run once whole, wait for the result.
    pub const WRITE_FLAGS: u32 = 0x02_0203;
    /// CDW3 of Get Result: S3 select, CSV without a line of names, forget the result once it is taken.
    pub const RESULT_FLAGS: u32 = 0x02_0202;
    /// Names no plan so far.
    pub const NEW_PLAN: u16 = 0xffff;
    /// Bytes of the key by which an object of a key-value namespace is named: space, then object, most significant byte first.
    pub const KEY_BYTES: usize = 8;

    /// The fields of a Write Execution Plan.
    #[must_use]
    pub fn of_write(command: &Command) -> Self {
        Self {
            space: command.cdw2,
            flags: command.cdw3,
            part_bytes: command.cdw10,
            object: command.cdw11,
            plan: (command.cdw12 >> 16) as u16,
            offset: command.cdw13,
            total_bytes: command.cdw14,
        }
    }

    /// The fields of a Get Result.
    #[must_use]
    pub fn of_result(command: &Command) -> Self {
        Self {
            space: command.cdw2,
            flags: command.cdw3,
            part_bytes: command.cdw10,
            plan: (command.cdw11 >> 16) as u16,
            offset: command.cdw13,
            ..Self::default()
        }
    }

    /// The key of its object.
    #[must_use]
    pub fn key(&self) -> [u8; Self::KEY_BYTES] {
        (u64::from(self.space) << 32 | u64::from(self.object)).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_an_object_survive_the_trip_through_a_command() {
        let object = BlockObject { slba: 0x1_0000_0007, len_bytes: 0x2_0000_0003 };
        let mut command = Command::default();
        object.write_to(&mut command);
        assert_eq!(BlockObject::read_from(&command), object);
    }

    #[test]
    fn plan_of_the_public_host_is_read_field_by_field() {
        let command = Command {
            cdw2: 3,
            cdw3: PlanFields::WRITE_FLAGS,
            cdw10: 198,
            cdw11: 7,
            cdw12: 0xffff_0000,
            cdw14: 198,
            ..Command::default()
        };
        let fields = PlanFields::of_write(&command);
        assert_eq!((fields.plan, fields.part_bytes, fields.total_bytes), (PlanFields::NEW_PLAN, 198, 198));
        assert_eq!(fields.key(), [0, 0, 0, 3, 0, 0, 0, 7]);
    }
}
