//! Bounce buffers: copies in place of memory that a backend cannot use directly: several buffers, or memory that a
//! program brought and that is not mapped for the device.

use crate::admin::{AdminCommand, encode_admin};
use crate::buffer::Buffer;
use crate::command::{Command, KvCommand, NvmCommand, Outcome, RawCommand, RawData};
use crate::encode::{self, Data};
use crate::identity::Nsid;
use crate::payload::Payload;

/// The memory of a command whose data travels in a copy.
#[derive(Debug)]
pub struct Bounced {
    memory: Payload,
    receives: bool,
}

impl Bounced {
    /// The memory as the command had it, for a command that was not sent or failed.
    #[must_use]
    pub fn into_memory(self) -> Payload {
        self.memory
    }

    /// Puts the memory back in place of the copy, with what came from the device.
    pub fn rejoin(mut self, outcome: &mut Outcome) {
        if let Some(copy) = outcome.buffer.take()
            && self.receives
        {
            scatter(copy.as_slice(), self.memory.buffers_mut());
        }
        (outcome.buffer, outcome.vector) = self.memory.into_buffers();
    }
}

/// A command whose data may have to travel in a copy.
pub trait Carried: Sized {
    /// Its data.
    fn data(&self) -> Data<'_>;

    /// The same command with other memory, and the memory that it had.
    #[must_use]
    fn with_memory(self, memory: Payload) -> (Self, Payload);

    /// The same command with its data in `copy`, which has the data's length.
    #[must_use]
    fn bounce(self, mut copy: Buffer) -> (Self, Bounced) {
        let receives = match self.data() {
            Data::Out(payload) => {
                gather(payload.parts(), copy.as_mut_slice());
                false
            }
            Data::In(_) | Data::InVectored(_) => true,
            Data::Both { buffer, sent_bytes } => {
                let sent = buffer.as_slice().get(..sent_bytes);
                gather(sent.into_iter(), copy.as_mut_slice());
                true
            }
            Data::None => false,
        };
        let (command, memory) = self.with_memory(Payload::Buffer(copy));
        (command, Bounced { memory, receives })
    }
}

/// Copies what a command sends into one piece of memory, as much as fits.
pub fn gather<'a>(from: impl Iterator<Item = &'a [u8]>, mut into: &mut [u8]) {
    for part in from {
        let (here, rest) = into.split_at_mut(part.len().min(into.len()));
        here.copy_from_slice(part.get(..here.len()).unwrap_or(part));
        into = rest;
    }
}

/// Spreads bytes over buffers, one behind the other.
pub fn scatter(mut from: &[u8], into: &mut [Buffer]) {
    for part in into {
        let (here, rest) = from.split_at(part.len().min(from.len()));
        if let Some(start) = part.as_mut_slice().get_mut(..here.len()) {
            start.copy_from_slice(here);
        }
        from = rest;
    }
}

impl Carried for Command {
    #[inline]
    fn data(&self) -> Data<'_> {
        encode::data(self)
    }

    fn with_memory(self, memory: Payload) -> (Self, Payload) {
        match self {
            Self::Nvm(command) => swap(command, memory, nvm_with_memory),
            Self::Kv(command) => swap(command, memory, kv_with_memory),
            Self::Raw(RawCommand { entry, data }) => {
                let (data, had) = raw_with_memory(data, memory);
                (Self::Raw(RawCommand { entry, data }), had)
            }
        }
    }
}

fn swap<C: Into<Command>>(
    command: C,
    memory: Payload,
    with: impl FnOnce(C, Payload) -> (C, Payload),
) -> (Command, Payload) {
    let (command, had) = with(command, memory);
    (command.into(), had)
}

fn nvm_with_memory(command: NvmCommand, memory: Payload) -> (NvmCommand, Payload) {
    match command {
        NvmCommand::Read { nsid, slba, blocks, into } => {
            (read(nsid, slba, blocks, memory), Payload::Buffer(into))
        }
        NvmCommand::ReadVectored { nsid, slba, blocks, into } => {
            (read(nsid, slba, blocks, memory), Payload::Vectored(into))
        }
        NvmCommand::Write { nsid, slba, blocks, data } => {
            (NvmCommand::Write { nsid, slba, blocks, data: memory }, data)
        }
        NvmCommand::Compare { nsid, slba, blocks, data } => {
            (NvmCommand::Compare { nsid, slba, blocks, data: memory }, data)
        }
        NvmCommand::CompareAndWrite { nsid, slba, blocks, data } => {
            (NvmCommand::CompareAndWrite { nsid, slba, blocks, data: memory }, data)
        }
        NvmCommand::Deallocate { nsid, mut ranges } => {
            let had = std::mem::replace(&mut ranges.payload, memory);
            (NvmCommand::Deallocate { nsid, ranges }, had)
        }
        NvmCommand::Copy { nsid, to, mut from } => {
            let had = std::mem::replace(&mut from.payload, memory);
            (NvmCommand::Copy { nsid, to, from }, had)
        }
        other @ (NvmCommand::Flush { .. } | NvmCommand::WriteZeroes { .. } | NvmCommand::Verify { .. }) => {
            (other, memory)
        }
    }
}

/// A read into one buffer or several.
fn read(nsid: Nsid, slba: u64, blocks: u32, memory: Payload) -> NvmCommand {
    match memory.into_buffers() {
        (Some(into), _) => NvmCommand::Read { nsid, slba, blocks, into },
        (None, into) => NvmCommand::ReadVectored { nsid, slba, blocks, into },
    }
}

fn kv_with_memory(command: KvCommand, memory: Payload) -> (KvCommand, Payload) {
    match command {
        KvCommand::Store { nsid, key, value, options } => {
            (KvCommand::Store { nsid, key, value: memory, options }, value)
        }
        KvCommand::Retrieve { nsid, key, into } => match memory.into_buffers() {
            (Some(other), _) => (KvCommand::Retrieve { nsid, key, into: other }, Payload::Buffer(into)),
            (None, parts) => (KvCommand::Retrieve { nsid, key, into }, Payload::Vectored(parts)),
        },
        KvCommand::List { nsid, start, into } => match memory.into_buffers() {
            (Some(other), _) => (KvCommand::List { nsid, start, into: other }, Payload::Buffer(into)),
            (None, parts) => (KvCommand::List { nsid, start, into }, Payload::Vectored(parts)),
        },
        KvCommand::BulkStore { nsid, pairs, atomic } => {
            (KvCommand::BulkStore { nsid, pairs: memory, atomic }, pairs)
        }
        KvCommand::Scan { nsid, range, pairs, value_prefix, into } => {
            let scan = |into| KvCommand::Scan { nsid, range, pairs, value_prefix, into };
            match memory.into_buffers() {
                (Some(other), _) => (scan(other), Payload::Buffer(into)),
                (None, parts) => (scan(into), Payload::Vectored(parts)),
            }
        }
        KvCommand::RetrieveMany { nsid, mut many, value_prefix } => {
            let had = match memory.into_buffers() {
                (Some(other), _) => Payload::Buffer(std::mem::replace(&mut many.buffer, other)),
                (None, parts) => Payload::Vectored(parts),
            };
            (KvCommand::RetrieveMany { nsid, many, value_prefix }, had)
        }
        other @ (KvCommand::Delete { .. } | KvCommand::Exist { .. } | KvCommand::DeleteRange { .. }) => {
            (other, memory)
        }
    }
}

fn raw_with_memory(data: RawData, memory: Payload) -> (RawData, Payload) {
    match data {
        RawData::None => (RawData::None, memory),
        RawData::ToDevice(had) => (RawData::ToDevice(memory), had),
        RawData::FromDevice(_) | RawData::FromDeviceVectored(_) => {
            let with = match memory.into_buffers() {
                (Some(into), _) => RawData::FromDevice(into),
                (None, into) => RawData::FromDeviceVectored(into),
            };
            (with, data.into_payload())
        }
        RawData::Both { buffer, sent_bytes } => match memory.into_buffers() {
            (Some(other), _) => (RawData::Both { buffer: other, sent_bytes }, Payload::Buffer(buffer)),
            (None, parts) => (RawData::Both { buffer, sent_bytes }, Payload::Vectored(parts)),
        },
    }
}

impl Carried for AdminCommand {
    fn data(&self) -> Data<'_> {
        encode_admin(self).data
    }

    fn with_memory(mut self, memory: Payload) -> (Self, Payload) {
        match &mut self {
            Self::Identify { into, .. }
            | Self::GetLog { into, .. }
            | Self::GetFeature { into: Some(into), .. } => match memory.into_buffers() {
                (Some(other), _) => {
                    let had = std::mem::replace(into, other);
                    (self, Payload::Buffer(had))
                }
                (None, parts) => (self, Payload::Vectored(parts)),
            },
            Self::SetFeature { data, .. } => {
                let had = std::mem::replace(data, memory);
                (self, had)
            }
            Self::Raw(command) => {
                let (data, had) = raw_with_memory(std::mem::take(&mut command.data), memory);
                command.data = data;
                (self, had)
            }
            Self::GetFeature { into: None, .. } | Self::Format { .. } => (self, memory),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Buffers;

    fn parts(lens: [usize; 2]) -> Buffers {
        lens.into_iter().map(|len| Buffer::zeroed(len).unwrap()).collect()
    }

    #[test]
    fn bounced_read_is_spread_over_its_buffers() {
        let into = parts([3, 5]);
        let command = Command::from(NvmCommand::ReadVectored { nsid: Nsid::FIRST, slba: 0, blocks: 1, into });
        let (command, bounced) = command.bounce(Buffer::zeroed(8).unwrap());
        let Payload::Buffer(mut copy) = command.into_payload() else { panic!("a read into the copy") };
        copy.as_mut_slice().copy_from_slice(b"abcdefgh");
        let mut outcome = Outcome { buffer: Some(copy), ..Outcome::default() };
        bounced.rejoin(&mut outcome);
        let got: Vec<&[u8]> = outcome.vector.iter().map(Buffer::as_slice).collect();
        assert_eq!(got, [&b"abc"[..], b"defgh"]);
        assert!(outcome.buffer.is_none());
    }

    #[test]
    fn bounced_write_is_gathered_and_returns_its_buffers() {
        let data = Payload::from(vec![Buffer::copy_of(b"one").unwrap(), Buffer::copy_of(b"two").unwrap()]);
        let command = Command::from(NvmCommand::Write { nsid: Nsid::FIRST, slba: 0, blocks: 1, data });
        let (command, bounced) = command.bounce(Buffer::zeroed(6).unwrap());
        assert_eq!(command.into_payload().contiguous(), Some(&b"onetwo"[..]));
        assert_eq!(bounced.into_memory().len(), 6);
    }

    #[test]
    fn an_identify_into_a_programs_own_memory_goes_through_pages() {
        let into = Buffer::from_bytes(vec![0; 4096].into());
        let command = AdminCommand::Identify { cns: 1, csi: 0, nsid: None, selector: 0, into };
        let (command, bounced) = command.bounce(Buffer::zeroed(4096).unwrap());
        let mut copy = command.into_buffer().unwrap();
        copy.as_mut_slice().fill(9);
        let mut outcome = Outcome { buffer: Some(copy), ..Outcome::default() };
        bounced.rejoin(&mut outcome);
        assert!(outcome.buffer.unwrap().as_slice().iter().all(|byte| *byte == 9));
    }
}
