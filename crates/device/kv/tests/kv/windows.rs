//! Values that a host stores itself, into a window of device memory.

use crate::common::{Rig, key, numbered, pieces_of, small, value};
use byway_kv::{Key, KvError, Packing, Placement, StoreHow, WindowId, record_header_bytes};
use byway_queue::WindowCursor;

const WINDOW: WindowId = WindowId(1);

/// A host with a cursor of its own.
struct Host {
    rig: Rig,
    cursor: WindowCursor,
}

impl Host {
    fn new(packing: Packing) -> Self {
        let mut rig = Rig::new(4 << 20, small(packing));
        rig.engine.open_window(&mut rig.store, WINDOW, &mut 0).unwrap();
        let cursor = WindowCursor::new(rig.engine.window_segment_bytes());
        Self { rig, cursor }
    }

    /// Stores all but the first `head_len` bytes of a value where the cursor says.
    fn store(&mut self, key: &Key, value: &[u8], head_len: usize) {
        let header_bytes = record_header_bytes(key.len());
        let position = self.cursor.place((header_bytes + value.len()) as u64).unwrap();
        let range = self.rig.engine.window_range(WINDOW);
        let at = range.start + (position % range.len() as u64) as usize + header_bytes + head_len;
        let rest = &value[head_len..];
        self.rig.store.image.windows.get_mut()[at..at + rest.len()].copy_from_slice(rest);
    }

    fn command(&mut self, key: &Key, head: &[u8], len: usize, how: StoreHow) -> Result<(), KvError> {
        let Rig { store, engine, .. } = &mut self.rig;
        engine.put_in_place(store, WINDOW, key, head, len as u64, how, &mut 0)
    }

    fn put(&mut self, key: &Key, value: &[u8], head_len: usize) {
        self.store(key, value, head_len);
        self.command(key, &value[..head_len], value.len(), StoreHow::default()).unwrap();
    }

    fn put_by_dma(&mut self, key: &Key, value: &[u8]) -> bool {
        let fill = pieces_of(value);
        let how = StoreHow { placement: Placement::Dma, ..StoreHow::default() };
        let Rig { store, engine, .. } = &mut self.rig;
        let row = engine
            .put_in_window_by_dma(store, WINDOW, key, value.len() as u64, how, fill, |_, _, _| false, &mut 0)
            .unwrap();
        if let Some(row) = row {
            self.cursor.note_dma(row.position, row.len).unwrap();
        }
        row.is_some()
    }
}

#[test]
fn values_stored_in_place_are_read_back_before_and_after_a_crash() {
    let mut host = Host::new(Packing::SelectiveBackfill);
    for n in 0..600u64 {
        let value = value(n, n as usize * 7 % 900);
        host.put(&numbered(n), &value, if n % 3 == 0 { value.len().min(35) } else { 0 });
    }
    for _ in 0..2 {
        for n in 0..600 {
            assert_eq!(host.rig.get(&numbered(n)).unwrap(), value(n, n as usize * 7 % 900), "{n}");
        }
        assert_eq!(host.rig.reopen().damage, []);
    }
}

#[test]
fn a_host_may_store_ahead_of_its_commands() {
    let mut host = Host::new(Packing::All);
    let window_bytes = host.rig.engine.window_range(WINDOW).len();
    let mut sent = 0;
    for n in 0..500u64 {
        host.store(&numbered(n), &value(n, 300), 0);
        // Commands come in batches, as late as the rule for windows allows.
        if (n - sent) * 340 > window_bytes as u64 - 4096 - 2 * 340 {
            for m in sent..=n {
                host.command(&numbered(m), &[], 300, StoreHow::default()).unwrap();
            }
            sent = n + 1;
        }
    }
    assert!((0..sent).all(|n| host.rig.get(&numbered(n)).unwrap() == value(n, 300)));
    host.rig.reopen();
    assert!((0..sent).all(|n| host.rig.get(&numbered(n)).unwrap() == value(n, 300)));
}

#[test]
fn values_moved_by_dma_share_the_window_and_the_host_fills_the_gaps() {
    let mut host = Host::new(Packing::SelectiveBackfill);
    let mut in_window = 0;
    for n in 0..400u64 {
        if n % 4 == 0 {
            in_window += u32::from(host.put_by_dma(&numbered(n), &value(n, 2500)));
        } else {
            host.put(&numbered(n), &value(n, 200), 0);
        }
    }
    assert!(in_window > 20, "{in_window} of 100 found place in the window");
    for _ in 0..2 {
        for n in 0..400 {
            assert_eq!(
                host.rig.get(&numbered(n)).unwrap(),
                value(n, if n % 4 == 0 { 2500 } else { 200 }),
                "{n}"
            );
        }
        assert_eq!(host.rig.reopen().damage, []);
    }
}

#[test]
fn a_refused_store_keeps_its_place_so_that_later_ones_find_theirs() {
    let mut host = Host::new(Packing::All);
    host.put(&key(b"a"), b"first", 0);
    host.store(&key(b"a"), b"second", 0);
    host.store(&key(b"b"), b"third", 0);
    let new = StoreHow { must_not_exist: true, ..StoreHow::default() };
    assert!(matches!(host.command(&key(b"a"), &[], 6, new), Err(KvError::Exists)));
    host.command(&key(b"b"), &[], 5, new).unwrap();
    for _ in 0..2 {
        assert_eq!(host.rig.get(&key(b"a")).unwrap(), b"first");
        assert_eq!(host.rig.get(&key(b"b")).unwrap(), b"third");
        assert_eq!(host.rig.reopen().damage, []);
    }
}

#[test]
fn a_window_must_be_open_and_a_record_must_fit() {
    let mut host = Host::new(Packing::All);
    let how = StoreHow::default();
    let Rig { store, engine, .. } = &mut host.rig;
    let closed = engine.put_in_place(store, WindowId(0), &key(b"k"), &[], 1, how, &mut 0);
    assert!(matches!(closed, Err(KvError::NoWindow(0))));
    assert!(matches!(engine.open_window(store, WindowId(2), &mut 0), Err(KvError::NoWindow(2))));
    let long = engine.put_in_place(store, WINDOW, &key(b"k"), &[], 9000, how, &mut 0);
    assert!(matches!(long, Err(KvError::ValueTooLong { limit_bytes: 8192, .. })));
    host.put(&key(b"k"), b"after", 0);
    assert_eq!(host.rig.get(&key(b"k")).unwrap(), b"after");
}

#[test]
fn a_value_that_comes_by_dma_to_a_closed_window_goes_to_the_shared_log() {
    let mut host = Host::new(Packing::All);
    host.rig.engine.close_window(WINDOW);
    assert!(!host.put_by_dma(&numbered(1), &value(1, 5000)));
    assert_eq!(host.rig.get(&numbered(1)).unwrap(), value(1, 5000));
    assert_eq!(host.rig.reopen().damage, []);
    assert_eq!(host.rig.get(&numbered(1)).unwrap(), value(1, 5000));
}

#[test]
fn a_window_opened_anew_begins_at_zero_and_loses_nothing() {
    let mut host = Host::new(Packing::All);
    for round in 0..5u64 {
        for n in 0..20 {
            host.put(&numbered(round * 100 + n), &value(n, 333), 0);
        }
        if round % 2 == 1 {
            host.rig.reopen();
        }
        let Rig { store, engine, .. } = &mut host.rig;
        engine.open_window(store, WINDOW, &mut 0).unwrap();
        host.cursor = WindowCursor::new(engine.window_segment_bytes());
    }
    for round in 0..5 {
        assert!((0..20).all(|n| host.rig.get(&numbered(round * 100 + n)).unwrap() == value(n, 333)));
    }
}

#[test]
fn a_host_that_goes_on_after_refused_stores_overwrites_nothing_that_counts() {
    let mut host = Host::new(Packing::All);
    let kept = value(1, 100);
    host.put(&key(b"kept"), &kept, 0);
    let must_exist = StoreHow { must_exist: true, ..StoreHow::default() };
    for len in [5000, 8000] {
        host.store(&key(b"gone"), &value(2, len), 0);
        assert!(matches!(host.command(&key(b"gone"), &[], len, must_exist), Err(KvError::NotFound)));
    }
    // The pointer is in the window's last page: the host may reuse the first.
    host.store(&key(b"next"), &value(3, 5000), 0);
    assert_eq!(host.rig.get(&key(b"kept")).unwrap(), kept);
    host.command(&key(b"next"), &[], 5000, StoreHow::default()).unwrap();
    assert_eq!(host.rig.reopen().damage, []);
    assert_eq!(host.rig.get(&key(b"kept")).unwrap(), kept);
}
