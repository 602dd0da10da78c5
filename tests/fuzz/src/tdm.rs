//! Device memory that holds anything, and messages that say anything.

use byway_sys::Mapping;
use byway_tdm_daemon::{Found, SlotNumber, Table};
use byway_tdm_engine::control::{MESSAGE_BYTES, Reply, Request};
use byway_tdm_engine::log::{
    Absorber, CURSOR_WORDS, Cursor, Entry, Position, Ring, RingError, RingPlace, SyncStep,
};
use byway_tdm_engine::table::FileKey;
use byway_tdm_region::{Domain, Memory, Window};

use crate::input::Input;

const RING_BYTES: usize = 4096;
const PLACE: RingPlace = RingPlace { at: 0, len_bytes: RING_BYTES as u64, identity: 7 };

/// A ring of anything, or one that was written and then spoiled: replaying it shows what fits into it, and ends.
pub fn log(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let Some(memory) = memory(RING_BYTES) else { return };
    let Ok(ring) = Ring::new(&memory, PLACE) else { return };
    let head = Position(u64::from(input.word()) * 32);
    let _ = ring.format(head);
    let written = fill(ring, head, &mut input);
    let spoiled = !input.is_empty();
    while !input.is_empty() {
        let at = u64::from(input.word()) % RING_BYTES as u64;
        let _ = memory.write(
            at,
            &input.bytes(8)[..].iter().copied().take(RING_BYTES - at as usize).collect::<Vec<_>>(),
        );
    }
    let mut shown: u64 = 0;
    let replayed = ring.replay::<RingError>(|entry| {
        shown += 1;
        if let Entry::Write { at, data } = entry {
            assert!(!data.is_empty() && data.len() as u64 <= ring.room_bytes());
            assert!(at.checked_add(data.len() as u64).is_some());
        }
        Ok(())
    });
    if let Ok(found) = replayed {
        assert_eq!(found.records, shown);
        assert!(spoiled || shown == written, "{shown} of {written}");
    }
}

/// Writes records until the ring is full or a sync is due; returns how many.
fn fill(ring: Ring<'_, Window>, head: Position, input: &mut Input<'_>) -> u64 {
    let words: [std::sync::atomic::AtomicU64; CURSOR_WORDS] = Default::default();
    let cursor = Cursor::new(&words);
    let absorber = Absorber::new(ring, cursor);
    cursor.begin(head);
    let begun = absorber.begin_below();
    let _ = absorber.synced_below(begun, Ok(()));
    let mut written = 0;
    for _ in 0..input.byte() % 32 {
        let before = cursor.kept_bytes();
        let data = input.bytes(usize::from(input.clone().byte()));
        absorber.wrote(u64::from(input.dword()), data.len() as u64, &mut &data[..]);
        written += u64::from(cursor.kept_bytes() > before);
        let step = absorber.sync();
        assert!(!matches!(step, SyncStep::Failed(_)));
    }
    written
}

/// An arbitrary table: each slot is free, damaged, or encodes to the same bytes.
pub fn table(bytes: &[u8]) {
    let Some(memory) = memory(byway_tdm_daemon::TABLE_BYTES as usize) else { return };
    let table = Table::new(&memory);
    let slot = SlotNumber(1);
    let mut input = Input::new(bytes);
    if input.byte() & 1 == 1 {
        let was = byway_tdm_daemon::Assignment {
            key: FileKey { device: input.qword(), inode: input.qword(), born_ns: input.qword() },
            ring: RingPlace { at: input.qword(), len_bytes: input.qword(), identity: input.qword() },
            uid: input.dword(),
            path: String::from_utf8_lossy(input.bytes(64)).into_owned().into(),
            boot: input.array(),
            kind: if input.byte() & 1 == 1 {
                byway_tdm_daemon::Kind::Resident
            } else {
                byway_tdm_daemon::Kind::Ring
            },
        };
        let _ = table.put(slot, &was);
        assert_eq!(table.get(slot).ok(), Some(Found::Used(was)));
    }
    while !input.is_empty() {
        let at = 8192 + u64::from(input.word()) % 8184;
        let _ = memory.write(at, &input.array::<8>());
    }
    if let Ok(Found::Used(found)) = table.get(slot) {
        let _ = table.put(slot, &found);
        assert_eq!(table.get(slot).ok(), Some(Found::Used(found)));
    }
}

/// An arbitrary message: what parses encodes to an equal message.
pub fn messages(bytes: &[u8]) {
    let mut message = [0; MESSAGE_BYTES];
    let len = bytes.len().min(MESSAGE_BYTES);
    message[..len].copy_from_slice(&bytes[..len]);
    if let Ok(request) = Request::decode(&message) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    if let Ok(reply) = Reply::decode(&message) {
        assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }
}

fn memory(len_bytes: usize) -> Option<Window> {
    Mapping::anonymous(len_bytes).ok().map(|map| Window::new(map, Domain::CpuCache))
}
