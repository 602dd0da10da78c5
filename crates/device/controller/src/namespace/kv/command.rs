//! Key-value commands, parsed: what follows here never sees a command dword (Key Value Command Set 1.0).

use byway_spec::kv::{KEY_MAX_BYTES, KvCdw11, KvOpcode};
use byway_spec::{Command, Key, KeyError, Status};

use crate::error::CommandError;

/// Byte of a command where CDW11, and so the key length, begins.
const CDW11_BYTE: u16 = 44;

/// When a store may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreIf {
    /// Always.
    #[default]
    Any,
    /// Only if the key exists (SIKE).
    Exists,
    /// Only if the key does not exist (SINKE).
    Absent,
}

/// A command of the Key Value command set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvCommand {
    /// Make what was stored durable on the media.
    Flush,
    /// Store a value. Values are never compressed here, so asking for none is what happens anyway.
    Store {
        /// The key.
        key: Key,
        /// Length of the value in bytes.
        value_bytes: usize,
        /// Condition.
        when: StoreIf,
    },
    /// Bring a value, or as much of it as the buffer takes. Values are stored raw, so the raw bit changes nothing.
    Retrieve {
        /// The key.
        key: Key,
        /// Length of the host's buffer in bytes.
        buffer_bytes: usize,
    },
    /// List keys from one on.
    List {
        /// First key, 0 to 16 bytes; none starts at the first.
        start: StartKey,
        /// Length of the host's buffer in bytes.
        buffer_bytes: usize,
    },
    /// Remove a key.
    Delete(Key),
    /// Ask whether a key is there.
    Exist(Key),
}

/// Where a List starts: a key, or nothing for the first of all.
pub type StartKey = Option<Key>;

impl KvCommand {
    /// Reads a submission queue entry.
    #[inline]
    pub fn parse(command: &Command) -> Result<Self, CommandError> {
        match KvOpcode(command.opcode()) {
            KvOpcode::STORE => store(command),
            KvOpcode::RETRIEVE => {
                Ok(Self::Retrieve { key: key(command)?, buffer_bytes: command.cdw10 as usize })
            }
            KvOpcode::LIST => {
                Ok(Self::List { start: start_key(command)?, buffer_bytes: command.cdw10 as usize })
            }
            KvOpcode::DELETE => Ok(Self::Delete(key(command)?)),
            KvOpcode::EXIST => Ok(Self::Exist(key(command)?)),
            KvOpcode::FLUSH => Ok(Self::Flush),
            _ => Err(CommandError::new(Status::INVALID_OPCODE, "not a command of a key-value namespace")),
        }
    }
}

fn store(command: &Command) -> Result<KvCommand, CommandError> {
    let options = KvCdw11::from_bits(command.cdw11);
    let when = match (options.must_exist_or_raw(), options.must_not_exist()) {
        (false, false) => StoreIf::Any,
        (true, false) => StoreIf::Exists,
        (false, true) => StoreIf::Absent,
        (true, true) => return Err(CONTRADICTION),
    };
    Ok(KvCommand::Store { key: key(command)?, value_bytes: command.cdw10 as usize, when })
}

/// The key of a command that must have one.
#[inline]
pub fn key(command: &Command) -> Result<Key, CommandError> {
    start_key(command)?.ok_or(EMPTY_KEY)
}

#[inline]
fn start_key(command: &Command) -> Result<StartKey, CommandError> {
    let len = usize::from(KvCdw11::from_bits(command.cdw11).key_len());
    match Key::from_field(command.key(), len) {
        Ok(key) => Ok(Some(key)),
        Err(KeyError::Empty) => Ok(None),
        Err(KeyError::TooLong(_)) => Err(LONG_KEY),
    }
}

const CONTRADICTION: CommandError =
    CommandError::invalid_field("store if the key exists and if it does not").at_byte(CDW11_BYTE + 1);
const EMPTY_KEY: CommandError =
    CommandError::new(Status::INVALID_KEY_SIZE, "the key is empty; keys are 1 to 16 bytes")
        .at_byte(CDW11_BYTE);
const LONG_KEY: CommandError =
    CommandError::invalid_field("the key is too long; keys are 1 to 16 bytes").at_byte(CDW11_BYTE);

const _: () = assert!(KEY_MAX_BYTES == 16);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn command(opcode: KvOpcode, key: &[u8], options: KvCdw11) -> Command {
        let mut command = Command::new(opcode.0, 1, 1);
        command.set_key(key);
        command.cdw10 = 77;
        command.cdw11 = options.with_key_len(key.len() as u8).into_bits();
        command
    }

    fn key_of(bytes: &[u8]) -> Key {
        Key::new(bytes).unwrap()
    }

    #[test]
    fn a_store_names_key_length_and_condition() {
        let options = KvCdw11::new().with_must_not_exist(true).with_no_compression(true);
        let parsed = KvCommand::parse(&command(KvOpcode::STORE, b"0123456789abcdef", options)).unwrap();
        let expected =
            KvCommand::Store { key: key_of(b"0123456789abcdef"), value_bytes: 77, when: StoreIf::Absent };
        assert_eq!(parsed, expected);
    }

    #[test]
    fn both_conditions_at_once_are_an_invalid_field() {
        let options = KvCdw11::new().with_must_not_exist(true).with_must_exist_or_raw(true);
        let error = KvCommand::parse(&command(KvOpcode::STORE, b"k", options)).unwrap_err();
        assert_eq!(error.status, Status::INVALID_FIELD);
    }

    #[test]
    fn only_list_takes_an_empty_key() {
        for opcode in [KvOpcode::STORE, KvOpcode::RETRIEVE, KvOpcode::DELETE, KvOpcode::EXIST] {
            let error = KvCommand::parse(&command(opcode, b"", KvCdw11::new())).unwrap_err();
            assert_eq!(error.status, Status::INVALID_KEY_SIZE);
        }
        let list = KvCommand::parse(&command(KvOpcode::LIST, b"", KvCdw11::new())).unwrap();
        assert_eq!(list, KvCommand::List { start: None, buffer_bytes: 77 });
    }

    #[test]
    fn a_key_length_over_16_is_an_invalid_field() {
        for opcode in [KvOpcode::STORE, KvOpcode::LIST, KvOpcode::EXIST] {
            let mut command = command(opcode, b"k", KvCdw11::new());
            command.cdw11 = 17;
            assert_eq!(KvCommand::parse(&command).unwrap_err().status, Status::INVALID_FIELD);
        }
    }

    #[test]
    fn opcodes_of_other_sets_are_invalid() {
        for opcode in [KvOpcode::RESERVATION_REGISTER, KvOpcode(0x0c), KvOpcode(0x19)] {
            let error = KvCommand::parse(&command(opcode, b"k", KvCdw11::new())).unwrap_err();
            assert_eq!(error.status, Status::INVALID_OPCODE);
        }
    }
}
