//! What reads cost on the link whose results stand behind their completions, or find no room there: the ledger against the closed form
//! of a get, and against a host's own count of the ring.

use crate::inline_reads::{BUFFER, LIMIT, device, inline_read, put, value};
use crate::io::{DATA, Io, keyed};
use byway_link::cost::{self, ReadMethod};
use byway_link::{Class, Ledger, Profile};
use byway_spec::Command;
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::kv::KvOpcode;
use byway_spec::vendor::{inline_result_bytes, set_inline_result_max_bytes};
use proptest::prelude::*;

/// Payload and wire bytes.
pub(crate) type Bytes = (u64, u64);

fn bytes_of(ledger: &Ledger) -> Bytes {
    (ledger.payload_bytes(), ledger.wire_bytes())
}

/// What the device's side of a get moves by the closed form: all but the host's doorbells.
fn closed_form(method: ReadMethod, len: usize, profile: &str) -> Bytes {
    let profile = Profile::by_name(profile).unwrap();
    let ledger = cost::of_get(method, len as u64, &profile).ledger;
    let (payload, wire) = bytes_of(&ledger);
    let doorbells = ledger.row(Class::Doorbell).cost;
    (payload - doorbells.payload_bytes, wire - doorbells.wire_bytes())
}

/// Lets the device serve a queue, delegated or not.
fn serve(io: &mut Io, qid: u16, is_delegated: bool) {
    io.host.ring(qid);
    if is_delegated {
        io.host.run_delegated(qid);
    }
    io.host.run();
}

/// Takes one completion with what stands behind it. The length that it gives, and whether the result stood there.
fn take(io: &mut Io, qid: u16) -> (usize, bool) {
    let done = io.host.peek(qid).expect("a completion");
    assert!(done.status().is_success(), "{}", done.status());
    let behind = inline_result_bytes(&done, BUFFER as u32);
    if let Some(bytes) = behind {
        io.host.peek_result(qid, bytes);
    }
    (done.dw0 as usize, behind.is_some())
}

/// A completion queue as its host counts it, written from decision 0095.
pub(crate) struct Ring {
    entries: u32,
    /// The slot of the next completion.
    next: u32,
    /// Entries that hold what the host has not reported as taken.
    pub(crate) used: u32,
}

/// How the device answers a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// By the data pointer.
    ByPointer,
    /// Behind the completion: entries before the end of the ring, and from its start.
    Behind(u32, u32),
}

impl Ring {
    pub(crate) fn new(entries: u32) -> Self {
        Self { entries, next: 0, used: 0 }
    }

    /// The answer of `len` bytes to one of `outstanding` commands, of which it is the first that completes.
    pub(crate) fn answer(&mut self, len: usize, max_bytes: usize, outstanding: u32) -> Answer {
        let (free, wanted) = (self.entries - 1 - self.used, len.div_ceil(15) as u32);
        let has_room = outstanding + wanted <= free;
        let is_behind = len > 0 && len <= max_bytes.min(LIMIT) && has_room;
        let taken = if is_behind { 1 + wanted } else { 1 };
        let here = taken.min(self.entries - self.next);
        self.next = (self.next + taken) % self.entries;
        self.used += taken;
        if is_behind { Answer::Behind(here, taken - here) } else { Answer::ByPointer }
    }
}

/// Wire bytes of a write to the host in packets of 256 bytes.
fn write(n: u64) -> u64 {
    24 * n.div_ceil(256) + n.next_multiple_of(4)
}

/// Payload and wire bytes of completion and data of an answer of `len` bytes.
pub(crate) fn cost_of(answer: &Answer, len: usize) -> Bytes {
    match *answer {
        Answer::ByPointer => (16 + len as u64, write(16) + write(len as u64)),
        Answer::Behind(here, rest) => {
            let parts = [here, rest].map(|entries| 16 * u64::from(entries));
            (parts.iter().sum(), parts.into_iter().map(write).sum())
        }
    }
}

/// A read by a method of the value of a key, into a page.
fn get(method: ReadMethod) -> Command {
    let max_bytes = if method == ReadMethod::InlineRead { LIMIT } else { 0 };
    let mut command = inline_read(b"key", max_bytes, BUFFER);
    if method == ReadMethod::Sgl {
        command.set_sgl1(SglDescriptor::data_block(DATA, BUFFER as u32));
    }
    command
}

#[test]
fn ledger_of_a_get_is_its_closed_form_at_every_size() {
    for profile in Profile::names() {
        let mut io = Io::of_profile(profile);
        io.enable_methods();
        io.host.create_pair(2, 256);
        let mut ring = Ring::new(256);
        // The card of the papers has no SGLs.
        let methods =
            ReadMethod::ALL.into_iter().filter(|method| *method != ReadMethod::Sgl || profile == "gen4x4");
        for (len, method) in methods.flat_map(|method| sizes().map(move |len| (len, method))) {
            put(&mut io, b"key", &value(len));
            for is_delegated in [false, true] {
                let before = *io.host.meter.ledger();
                io.host.submit(2, get(method));
                serve(&mut io, 2, is_delegated);
                assert_eq!(take(&mut io, 2).0, len);
                let got = bytes_of(&io.host.meter.ledger().since(&before));
                let max_bytes = if method == ReadMethod::InlineRead { LIMIT } else { 0 };
                // What the closed form leaves out: a write more around the end of the ring.
                let is_split = matches!(ring.answer(len, max_bytes, 1), Answer::Behind(_, 1..));
                let (payload, wire) = closed_form(method, len, profile);
                let expected = (payload, wire + if is_split { 24 } else { 0 });
                assert_eq!(got, expected, "{profile} {method:?} {len} delegated {is_delegated}");
                io.host.ring_head(2);
                ring.used = 0;
            }
        }
    }
}

/// Every length that can stand behind a completion, and some that cannot.
fn sizes() -> impl Iterator<Item = usize> {
    (0..=LIMIT + 5).chain([256, 257, 1000, 4095, 4096])
}

#[test]
fn list_behind_its_completion_costs_its_entries_at_every_length() {
    let mut io = device();
    io.host.create_pair(2, 256);
    let mut ring = Ring::new(256);
    let mut list = keyed(KvOpcode::LIST.0, b"", BUFFER);
    list.set_prps(DATA, 0);
    set_inline_result_max_bytes(&mut list, LIMIT as u16);
    // A count of 4 bytes, and 2 bytes and the key for each, in whole words.
    let mut len = 4;
    for number in 0u8..60 {
        put(&mut io, &[number, 0], b"value");
        len += 4;
        let before = *io.host.meter.ledger();
        io.host.submit(2, list);
        serve(&mut io, 2, number % 2 == 1);
        let is_behind = take(&mut io, 2).1;
        assert_eq!(is_behind, len <= LIMIT, "{len} bytes");
        let spent = io.host.meter.ledger().since(&before);
        let expected = cost_of(&ring.answer(len, LIMIT, 1), len);
        assert_eq!(answered(&spent), expected, "{len} bytes");
        io.host.ring_head(2);
        ring.used = 0;
    }
}

/// What completions and data cost.
pub(crate) fn answered(spent: &Ledger) -> Bytes {
    let rows = [Class::Completion, Class::DataWrite].map(|class| spent.row(class).cost);
    (rows[0].payload_bytes + rows[1].payload_bytes, rows[0].wire_bytes() + rows[1].wire_bytes())
}

/// Commands that are announced together, each with the length of its value and the most bytes that it takes behind its completion, and
/// whether the host reports its head after them.
type Batch = (Vec<(usize, usize)>, bool);

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let read = (0usize..300, prop_oneof![Just(LIMIT), 0usize..260]);
    prop::collection::vec((prop::collection::vec(read, 1..6), prop::bool::weighted(0.4)), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn answers_cost_what_the_room_in_the_ring_says(
        entries in 2u32..40,
        is_delegated in any::<bool>(),
        batches in batches(),
    ) {
        let mut io = device();
        io.host.create_pair(2, entries);
        let mut ring = Ring::new(entries);
        for (mut reads, reports) in batches {
            reads.truncate(entries as usize - 1);
            // A host announces no more than what is free beside what it has not reported.
            if ring.used + reads.len() as u32 > entries - 1 {
                io.host.ring_head(2);
                ring.used = 0;
            }
            for (len, max_bytes) in &reads {
                put(&mut io, &(*len as u16).to_le_bytes(), &value(*len));
                io.host.submit(2, inline_read(&(*len as u16).to_le_bytes(), *max_bytes, BUFFER));
            }
            let before = *io.host.meter.ledger();
            serve(&mut io, 2, is_delegated);
            let mut expected = (0, 0);
            for (outstanding, (len, max_bytes)) in (1..=reads.len() as u32).rev().zip(&reads) {
                let answer = ring.answer(*len, *max_bytes, outstanding);
                let (payload, wire) = cost_of(&answer, *len);
                expected = (expected.0 + payload, expected.1 + wire);
                prop_assert_eq!(take(&mut io, 2), (*len, answer != Answer::ByPointer), "{:?}", answer);
            }
            prop_assert_eq!(answered(&io.host.meter.ledger().since(&before)), expected, "{:?}", reads);
            if reports {
                io.host.ring_head(2);
                ring.used = 0;
            }
        }
    }
}
