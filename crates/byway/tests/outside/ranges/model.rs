//! A device of keys and values in a map, with or without commands on ranges and on many keys, which may lie.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use byway::spec::Status;
use byway::spec::kv::list_entry_bytes;
use byway::spec::vendor::{
    BulkPair, DeleteRangeResult, Found, FoundValue, KeyRange as Span, Methods, ScanHeader, ScanPair,
    VendorArea, WHOLE_VALUE, read_many_keys,
};
use byway::{
    Answer, BackendQueue, Buffer, Capabilities, Command, Error, ErrorKind, Failed, Finished, Key, Kv,
    KvCommand, KvCommands, Limits, Namespace, NamespaceKind, Nsid, Outcome, Payload, Queue, Refused, Result,
};
use zerocopy::{FromZeros, IntoBytes};

/// What is done to the result of each Scan, after it was made.
pub type Lie = fn(&mut [u8]);

/// The state of the device.
#[derive(Default)]
pub struct State {
    pub pairs: BTreeMap<Key, Vec<u8>>,
    /// Deleted keys, of which a Scan passes [`PASSED_MAX`] at most.
    pub deleted: BTreeSet<Key>,
    /// Opcodes by name, in their order.
    pub commands: Vec<&'static str>,
    pub lie: Option<Lie>,
    /// Delete Range goes on for ever.
    pub never_ends: bool,
}

#[derive(Clone, Default)]
pub struct Model(Arc<Mutex<State>>);

pub const RESULT_BYTES: u32 = 8192;

const PASSED_MAX: usize = 3;

/// Longest payload of an atomic Store Many.
pub const STORE_MANY_BYTES: u32 = 4096;

impl Model {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Calls to it, with all commands or with those of the Key Value Command Set, and bounds of so many bytes.
    pub fn kv(&self, has_all: bool, bound_bytes: u32) -> Kv {
        let kind = NamespaceKind::Kv { key_max_bytes: 16, value_max_bytes: 1 << 20, keys_max: 0 };
        let namespace =
            Namespace { nsid: Nsid::FIRST, size_bytes: 1 << 30, used_bytes: 0, nguid: [0; 16], kind };
        let queue = ModelQueue { model: self.clone(), ready: VecDeque::new() };
        let mut area = VendorArea::new_zeroed();
        area.magic = byway::spec::vendor::MAGIC;
        area.version = 1;
        area.methods = Methods::from_bits(if has_all { u32::MAX >> 20 } else { 0 });
        (area.result_max_bytes, area.retrieve_many_max) = (RESULT_BYTES, 50);
        area.store_many_max_bytes = STORE_MANY_BYTES;
        let limits = Limits { bulk_bytes: 1 << 20, ..Limits::default().with_kv(&area, bound_bytes) };
        let can = Capabilities { kv: KvCommands::of(&area), limits, ..Capabilities::default() };
        Kv::new(Queue::other(queue), &namespace).unwrap().with_capabilities(&can)
    }
}

struct ModelQueue {
    model: Model,
    ready: VecDeque<Finished>,
}

type Done = Result<(u32, Option<Buffer>), Failed>;

impl BackendQueue for ModelQueue {
    fn submit_within(&mut self, command: Command, tag: u64, _: Option<Duration>) -> Result<(), Refused> {
        let result = self.execute_it(command);
        self.ready.push_back(Finished { tag, result });
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        Err(Error::host(ErrorKind::Unsupported, "no descriptor"))
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        Ok(self.ready.pop_front())
    }

    fn next_within(&mut self, _: Duration) -> Result<Option<Finished>> {
        self.next_finished()
    }

    fn cancel(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn outstanding(&self) -> u32 {
        self.ready.len() as u32
    }

    fn depth(&self) -> u32 {
        8
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        Ok(self.execute_it(command)?)
    }
}

impl ModelQueue {
    fn execute_it(&mut self, command: Command) -> Result<Outcome, Failed> {
        let Command::Kv(command) = command else { panic!("{command:?}") };
        let (dw0, buffer) = self.model.state().execute(command)?;
        let answer = Answer { dw0, commands: 1, slots: 1, ..Answer::default() };
        Ok(Outcome { answer, buffer, ..Outcome::default() })
    }
}

impl State {
    fn execute(&mut self, command: KvCommand) -> Done {
        match command {
            KvCommand::Store { key, value, .. } => {
                self.commands.push("store");
                self.pairs.insert(key, value.contiguous().unwrap().to_vec());
                Ok((0, value.into_buffer()))
            }
            KvCommand::Retrieve { key, into, .. } => self.retrieve(&key, into),
            KvCommand::Delete { key, .. } => {
                self.commands.push("delete");
                self.pairs.remove(&key);
                Ok((0, None))
            }
            KvCommand::List { start, into, .. } => Ok((0, Some(self.list(start, into)))),
            KvCommand::Scan { range, pairs, value_prefix, into, .. } => {
                Ok((0, Some(self.scan(&range, pairs, value_prefix, into))))
            }
            KvCommand::RetrieveMany { .. } => {
                self.commands.push("retrieve many");
                let command = Command::from(command);
                let entry = byway_core::encode::encode(&command).entry;
                let Payload::Buffer(buffer) = command.into_payload() else { panic!() };
                Ok((0, Some(self.retrieve_many(buffer, entry.cdw12 as usize, entry.cdw13 as usize))))
            }
            KvCommand::DeleteRange { range, .. } => {
                self.commands.push("delete range");
                Ok((self.delete_range(&range), None))
            }
            KvCommand::BulkStore { pairs, atomic, .. } => {
                self.commands.push(if atomic { "atomic" } else { "bulk" });
                self.store_many(pairs.contiguous().unwrap());
                Ok((0, pairs.into_buffer()))
            }
            other => panic!("{other:?}"),
        }
    }

    fn retrieve(&mut self, key: &Key, mut into: Buffer) -> Done {
        self.commands.push("retrieve");
        let Some(value) = self.pairs.get(key) else {
            return Err(Failed::with_memory(Error::status(Status::KEY_DOES_NOT_EXIST), into));
        };
        let moved = value.len().min(into.len());
        into.as_mut_slice()[..moved].copy_from_slice(&value[..moved]);
        Ok((value.len() as u32, Some(into)))
    }

    fn list(&mut self, start: Option<Key>, mut into: Buffer) -> Buffer {
        self.commands.push("list");
        let (mut at, mut count) = (4, 0_u32);
        for key in self.pairs.keys().filter(|key| start.is_none_or(|start| start <= **key)) {
            let bytes = list_entry_bytes(key.len());
            let Some(place) = into.as_mut_slice().get_mut(at..at + bytes) else { break };
            place[..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
            place[2..2 + key.len()].copy_from_slice(key.as_bytes());
            (at, count) = (at + bytes, count + 1);
        }
        into.as_mut_slice()[..4].copy_from_slice(&count.to_le_bytes());
        into
    }

    /// Keys of a range in its order.
    fn keys(&self, span: &Span) -> Vec<Key> {
        let is_inside = |key: &&Key| {
            let begins = span.start.is_none_or(|start| match span.backward {
                false => start <= **key,
                true => start >= **key,
            });
            begins && !(span.exclusive && span.start == Some(**key)) && span.is_within_bound(key)
        };
        let mut keys: Vec<Key> = self.pairs.keys().chain(&self.deleted).filter(is_inside).copied().collect();
        keys.sort_unstable();
        if span.backward {
            keys.reverse();
        }
        keys
    }

    fn scan(&mut self, span: &Span, most: u16, prefix: u16, mut into: Buffer) -> Buffer {
        self.commands.push("scan");
        assert!(into.len() <= RESULT_BYTES as usize);
        let (room, mut body, mut count, mut is_end) = (into.len() - 16, Vec::new(), 0, true);
        let (mut passed, mut resume) = (0, None);
        for key in self.keys(span) {
            let Some(value) = self.pairs.get(&key) else {
                passed += 1;
                if passed == PASSED_MAX {
                    (is_end, resume) = (false, Some(key));
                    break;
                }
                continue;
            };
            let wanted = if prefix == WHOLE_VALUE { value.len() } else { value.len().min(prefix.into()) };
            let fits = body.len() + ScanPair::bytes(key.len(), wanted) <= room;
            if count > 0 && (!fits || count == u32::from(most)) {
                is_end = false;
                break;
            }
            let moved = if fits { wanted } else { (room - 12 - key.len().next_multiple_of(4)) / 4 * 4 };
            let head = ScanPair {
                key_len: key.len() as u8,
                reserved: [0; 3],
                value_len: value.len() as u32,
                value_moved: moved as u32,
            };
            for part in [head.as_bytes(), key.as_bytes(), &value[..moved]] {
                body.extend_from_slice(part);
                body.resize(body.len().next_multiple_of(4), 0);
            }
            count += 1;
        }
        let has_room = |key: &Key| body.len() + key.len().next_multiple_of(4) <= room;
        let resume = resume.filter(has_room);
        body.extend_from_slice(resume.as_ref().map_or(&[], Key::as_bytes));
        body.resize(body.len().next_multiple_of(4), 0);
        let resume_len = resume.map_or(0, |key| key.len() as u32);
        let head = ScanHeader { count, bytes: 16 + body.len() as u32, is_end: is_end.into(), resume_len };
        let bytes = into.as_mut_slice();
        bytes[..16].copy_from_slice(head.as_bytes());
        bytes[16..16 + body.len()].copy_from_slice(&body);
        if let Some(lie) = self.lie {
            lie(bytes);
        }
        into
    }

    fn retrieve_many(&mut self, mut buffer: Buffer, request_bytes: usize, count: usize) -> Buffer {
        let (mut keys, room) = (Vec::new(), buffer.len());
        read_many_keys(&buffer.as_slice()[..request_bytes], count, |key| keys.push(key)).unwrap();
        let mut body = Vec::new();
        for key in &keys {
            let left = room - 16 - body.len();
            let value = self.pairs.get(key);
            let (found, moved) = match value {
                None => (Found::ABSENT, &[][..]),
                Some(value) if value.len() + 12 * keys.len() > left => (Found::NO_ROOM, &[][..]),
                Some(value) => (Found::VALUE, &value[..]),
            };
            let value_len = value.map_or(0, Vec::len) as u32;
            let head = FoundValue { found: found.0, value_len, value_moved: moved.len() as u32 };
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(moved);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        let head =
            ScanHeader { count: keys.len() as u32, bytes: 16 + body.len() as u32, is_end: 1, resume_len: 0 };
        buffer.as_mut_slice()[..16].copy_from_slice(head.as_bytes());
        buffer.as_mut_slice()[16..16 + body.len()].copy_from_slice(&body);
        buffer
    }

    /// Ten keys at a time.
    fn delete_range(&mut self, span: &Span) -> u32 {
        let keys = if self.never_ends { Vec::new() } else { self.keys(span) };
        keys.iter().take(10).for_each(|key| drop(self.pairs.remove(key)));
        let has_more = self.never_ends || keys.len() > 10;
        DeleteRangeResult::new().with_deleted(keys.len().min(10) as u32).with_has_more(has_more).into_bits()
    }

    fn store_many(&mut self, mut payload: &[u8]) {
        payload = &payload[4..];
        while let [key_len, flags, _, _, a, b, c, d, rest @ ..] = payload {
            let (key_len, value_len) = (usize::from(*key_len), u32::from_le_bytes([*a, *b, *c, *d]) as usize);
            let key = Key::new(&rest[..key_len]).unwrap();
            match flags {
                &BulkPair::DELETE => drop(self.pairs.remove(&key)),
                _ => {
                    let at = key_len.next_multiple_of(4);
                    self.pairs.insert(key, rest[at..at + value_len].to_vec());
                }
            }
            payload = &payload[BulkPair::bytes(key_len, value_len)..];
        }
    }
}
