//! A key-value namespace against an ordered map: whatever is done to it, it answers as the map does.

use std::collections::BTreeMap;

use crate::io::{DATA, Io, KV};
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::kv::{KvCdw11, KvOpcode};
use byway_spec::{Command, Completion, Status};
use proptest::prelude::*;

/// How a value gets to the device.
#[derive(Debug, Clone, Copy)]
enum By {
    Prp,
    Sgl,
    Inline,
}

#[derive(Debug, Clone)]
enum Step {
    Store { key: Vec<u8>, len: usize, options: KvCdw11, by: By },
    Retrieve { key: Vec<u8>, buffer: usize },
    Delete(Vec<u8>),
    Exist(Vec<u8>),
    List { start: Vec<u8>, buffer: usize },
}

/// Few keys, of every length, so that steps meet.
fn key() -> impl Strategy<Value = Vec<u8>> {
    (1usize..17, 0u8..4).prop_map(|(len, last)| {
        let mut key = vec![b'k'; len];
        key[len - 1] = last;
        key
    })
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0usize..200, 2 => 4000usize..4200, 1 => 0usize..40_000]
}

fn step() -> impl Strategy<Value = Step> {
    let options = prop::sample::select(vec![
        KvCdw11::new(),
        KvCdw11::new(),
        KvCdw11::new().with_must_exist_or_raw(true),
        KvCdw11::new().with_must_not_exist(true),
    ]);
    let by = prop::sample::select(vec![By::Prp, By::Sgl, By::Inline]);
    prop_oneof![
        4 => (key(), length(), options, by).prop_map(|(key, len, options, by)| {
            Step::Store { key, len, options, by }
        }),
        3 => (key(), length()).prop_map(|(key, buffer)| Step::Retrieve { key, buffer }),
        1 => key().prop_map(Step::Delete),
        1 => key().prop_map(Step::Exist),
        1 => (prop_oneof![Just(Vec::new()), key()], 4usize..500)
            .prop_map(|(start, buffer)| Step::List { start, buffer }),
    ]
}

struct Model {
    io: Io,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    stored: u8,
}

impl Model {
    fn new(profile: &str) -> Self {
        let mut io = Io::of_profile(profile);
        io.enable_methods();
        Self { io, pairs: BTreeMap::new(), stored: 0 }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Store { key, len, options, by } => self.store(key, *len, *options, *by),
            Step::Retrieve { key, buffer } => self.retrieve(key, *buffer),
            Step::Delete(key) => {
                self.pairs.remove(key);
                assert_eq!(self.run(KvOpcode::DELETE, key, 0).status().code(), Status::SUCCESS);
            }
            Step::Exist(key) => {
                let there = self.pairs.contains_key(key);
                let expected = if there { Status::SUCCESS } else { Status::KEY_DOES_NOT_EXIST };
                assert_eq!(self.run(KvOpcode::EXIST, key, 0).status().code(), expected);
            }
            Step::List { start, buffer } => self.list(start, *buffer),
        }
    }

    fn command(opcode: KvOpcode, key: &[u8], bytes: usize) -> Command {
        let mut command = Command::new(opcode.0, 0, KV);
        command.set_key(key);
        command.cdw10 = bytes as u32;
        command.cdw11 = KvCdw11::new().with_key_len(key.len() as u8).into_bits();
        command
    }

    fn run(&mut self, opcode: KvOpcode, key: &[u8], bytes: usize) -> Completion {
        let mut command = Self::command(opcode, key, bytes);
        self.io.point_prps(&mut command, DATA, bytes);
        self.io.run(command)
    }

    fn store(&mut self, key: &[u8], len: usize, options: KvCdw11, by: By) {
        self.stored = self.stored.wrapping_add(1);
        let value: Vec<u8> = (0..len).map(|i| (i / 3) as u8 ^ self.stored).collect();
        let status = self.send(key, &value, options, by).status().code();
        let exists = self.pairs.contains_key(key);
        if options.must_exist_or_raw() && !exists {
            assert_eq!(status, Status::KEY_DOES_NOT_EXIST);
        } else if options.must_not_exist() && exists {
            assert_eq!(status, Status::KEY_EXISTS);
        } else {
            assert_eq!(status, Status::SUCCESS);
            self.pairs.insert(key.to_vec(), value);
        }
    }

    fn send(&mut self, key: &[u8], value: &[u8], options: KvCdw11, by: By) -> Completion {
        let mut command = Self::command(KvOpcode::STORE, key, value.len());
        command.cdw11 |= options.into_bits();
        // An odd address for what need not be aligned.
        let at = DATA + 4096 + if matches!(by, By::Sgl) { 77 } else { 0 };
        self.io.put(at, value);
        match by {
            By::Inline if value.len() <= 8192 => return self.io.run_inline(command, value),
            By::Sgl => command.set_sgl1(SglDescriptor::data_block(at, value.len() as u32)),
            _ => self.io.point_prps(&mut command, at, value.len()),
        }
        self.io.run(command)
    }

    fn retrieve(&mut self, key: &[u8], buffer: usize) {
        self.io.put(DATA, &vec![0xee; buffer + 1]);
        let done = self.run(KvOpcode::RETRIEVE, key, buffer);
        let Some(value) = self.pairs.get(key) else {
            assert_eq!(done.status().code(), Status::KEY_DOES_NOT_EXIST);
            return;
        };
        assert_eq!((done.status().code(), done.dw0 as usize), (Status::SUCCESS, value.len()));
        let mut expected = value[..buffer.min(value.len())].to_vec();
        expected.resize(buffer + 1, 0xee);
        assert!(self.io.get(DATA, buffer + 1) == expected);
    }

    fn list(&mut self, start: &[u8], buffer: usize) {
        let done = self.run(KvOpcode::LIST, start, buffer);
        assert_eq!(done.status().code(), Status::SUCCESS);
        let mut expected = vec![0; 4];
        let mut count = 0u32;
        for key in self.pairs.range(start.to_vec()..).map(|(key, _)| key) {
            let end = expected.len() + (2 + key.len()).next_multiple_of(4);
            if end > buffer {
                break;
            }
            expected.extend_from_slice(&(key.len() as u16).to_le_bytes());
            expected.extend_from_slice(key);
            expected.resize(end, 0);
            count += 1;
        }
        expected[..4].copy_from_slice(&count.to_le_bytes());
        assert_eq!(self.io.get(DATA, expected.len()), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_key_value_namespace_answers_as_the_map_it_models(
        whole_pages in any::<bool>(),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut model = Model::new(if whole_pages { "cosmos" } else { "gen4x4" });
        steps.iter().for_each(|step| model.take(step));
        for key in model.pairs.keys().cloned().collect::<Vec<_>>() {
            model.retrieve(&key, 40_000);
        }
        model.list(&[], 5000);
    }
}
