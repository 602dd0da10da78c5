//! A key-value namespace with changed bytes: some by accident, some with matching checksums.
//!
//! Opening it fails, or it can be read, listed, written and reopened: with errors, but never a panic. After a single
//! flipped bit, every read returns the stored value or an error.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use byway_flash::{ACCESS_STATE_BYTES, ExtentId, NamespaceKind, NamespaceRecord, OWNER_STATE_BYTES};
use byway_kv::{Key, KvEngine, KvError, KvFormat, KvOptions, Packing, Placement, StoreHow, WindowId, fuzz};

use crate::input::Input;
use crate::page_store::{Image, MemoryStore};

const PAGE_BYTES: usize = 4096;
const SIZE_BYTES: u64 = 2 << 20;
/// Keys that are put.
const KEYS: u16 = 160;

type Pairs = BTreeMap<Key, Vec<u8>>;

/// Images written by an engine, and their keys and values.
struct Base {
    image: Image,
    pairs: Pairs,
    /// Offsets of words of the state that are not zero.
    words: Vec<usize>,
    /// Name and range of each structure in the state.
    parts: Vec<(&'static str, Range<usize>)>,
}

/// Changes one structure of a namespace by `bytes` and opens it, checksums made to fit.
pub fn kv_part(name: &str, bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let how = input.byte();
    let base = &bases()[usize::from(how) % bases().len()];
    let mut image = base.image.clone();
    let within = |at: &usize| base.parts.iter().any(|(part, range)| *part == name && range.contains(at));
    let words: Vec<usize> = base.words.iter().copied().filter(within).collect();
    for _ in 0..12 {
        if input.is_empty() {
            break;
        }
        let kind = input.byte();
        let at = usize::from(input.word());
        if let Some(word) = words.get(at % words.len().max(1)) {
            change_bytes(&mut image.state, word + usize::from(kind >> 5), &mut input);
        } else {
            change_page(&mut image, usize::from(kind), at % PAGE_BYTES, &mut input);
        }
    }
    if how & 0x80 == 0 {
        reseal(&mut image);
    }
    use_image(image);
}

fn reseal(image: &mut Image) {
    fuzz::reseal_state(&mut image.state);
    for page in image.pages.values_mut() {
        let mut sealed = page.to_vec();
        fuzz::reseal_page(&mut sealed);
        *page = sealed.into();
    }
}

fn change_page(image: &mut Image, nth: usize, at: usize, input: &mut Input<'_>) {
    let nth = nth % image.pages.len().max(1);
    if let Some(page) = image.pages.values_mut().nth(nth) {
        let mut changed = page.to_vec();
        change_bytes(&mut changed, at, input);
        *page = changed.into();
    }
}

/// Changes an image by `bytes` and opens it.
pub fn kv_image(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let how = input.byte();
    let base = &bases()[usize::from(how) % bases().len()];
    let mut image = base.image.clone();
    if how & 0x80 != 0 {
        flip_one_bit(base, &mut image, &mut input);
        return check_flipped(base, image);
    }
    for _ in 0..16 {
        if input.is_empty() {
            break;
        }
        change(base, &mut image, &mut input);
    }
    if how & 0x40 == 0 {
        reseal(&mut image);
    }
    use_image(image);
}

fn options() -> KvOptions {
    KvOptions::default().memtable_bytes(44 * 32).cache_bytes(64 << 10).packing(Packing::ALL[2])
}

fn namespace() -> NamespaceRecord {
    NamespaceRecord {
        nsid: 1,
        kind: NamespaceKind::Kv,
        size_bytes: SIZE_BYTES,
        extent: ExtentId(0),
        nguid: [0; 16],
        uuid: [0; 16],
        owner_state: [0; OWNER_STATE_BYTES],
        access_state: [0; ACCESS_STATE_BYTES],
    }
}

fn key(n: u16) -> Key {
    Key::new(&n.to_be_bytes()).expect("two bytes are a key")
}

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| [0, 20, KEYS * 3].map(base).into())
}

/// An image after `puts` puts and some deletions.
fn base(puts: u16) -> Base {
    let format = KvFormat { ring_pages: 4, windows: 2, window_bytes: 16 << 10 };
    let mut store = MemoryStore::new(Image::default(), PAGE_BYTES, SIZE_BYTES);
    let mut engine = KvEngine::create(&mut store, &namespace(), &format, options()).expect("a new namespace");
    let mut pairs = Pairs::new();
    for n in 0..puts {
        let key = key(n * 37 % KEYS);
        if n % 7 == 6 {
            engine.delete(&mut store, &key, &mut 0).expect("room for a deletion");
            pairs.remove(&key);
            continue;
        }
        let len = usize::from(if n % 11 == 10 { n * 53 % 9000 } else { n % 90 });
        let value: Vec<u8> = (0..len).map(|i| (usize::from(n) * 31 + i * 7) as u8).collect();
        let placement = if n % 5 == 4 { Placement::Dma } else { Placement::Packed };
        let how = StoreHow { placement, ..StoreHow::default() };
        engine.put(&mut store, &key, &value, how, &mut 0).expect("room for a put");
        pairs.insert(key, value);
    }
    let state = &store.image.state;
    let words = (0..state.len()).step_by(8).filter(|at| state[*at..at + 8] != [0; 8]).collect();
    Base { image: store.into_image(), pairs, words, parts: engine.state_parts() }
}

/// Changes some bytes: of the state, of its words most often, of a page, or of a window.
fn change(base: &Base, image: &mut Image, input: &mut Input<'_>) {
    let kind = input.byte();
    match kind % 8 {
        0..=4 => {
            let word = base.words[usize::from(input.word()) % base.words.len()];
            change_bytes(&mut image.state, word + usize::from(kind >> 5), input);
        }
        5 => {
            let at = input.dword() as usize % image.state.len();
            change_bytes(&mut image.state, at, input);
        }
        6 => {
            let at = usize::from(input.word()) % image.windows.len();
            change_bytes(&mut image.windows, at, input);
        }
        _ => {
            let nth = usize::from(input.byte());
            let at = usize::from(input.word()) % PAGE_BYTES;
            change_page(image, nth, at, input);
        }
    }
}

fn change_bytes(into: &mut [u8], at: usize, input: &mut Input<'_>) {
    let how = input.byte();
    let into = &mut into[at..];
    let numbers = [0, 1, u64::MAX, 1 << 55, 1 << 63, 0xffff_ffff, SIZE_BYTES, PAGE_BYTES as u64];
    match how % 4 {
        0 => into[0] ^= 1 << (how >> 5),
        1 => {
            let number = numbers[usize::from(how >> 2) % numbers.len()].to_le_bytes();
            into.iter_mut().zip(number).for_each(|(place, byte)| *place = byte);
        }
        2 => {
            let bytes = input.bytes(1 + usize::from(how >> 4));
            into.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        }
        _ => into[0] = into[0].wrapping_add(input.byte()),
    }
}

fn open(image: Image) -> Result<(MemoryStore, KvEngine), KvError> {
    let mut store = MemoryStore::new(image, PAGE_BYTES, SIZE_BYTES);
    let (engine, _) = KvEngine::open(&mut store, &namespace(), options())?;
    Ok((store, engine))
}

fn get(store: &mut MemoryStore, engine: &mut KvEngine, key: &Key) -> Result<Vec<u8>, KvError> {
    let mut found = Vec::new();
    let into = |piece: &[u8], _: &mut u64| {
        found.extend_from_slice(piece);
        Ok::<(), KvError>(())
    };
    engine.get(store, key, 0, u64::MAX, into, &mut 0)?;
    Ok(found)
}

/// Uses everything an engine offers. Errors are allowed.
fn use_image(image: Image) {
    check_image(image.clone());
    let Ok((mut store, mut engine)) = open(image) else { return };
    for round in 0..2 {
        for n in (round..KEYS).step_by(2) {
            let _ = get(&mut store, &mut engine, &key(n));
        }
        let mut listed = 0;
        let visit = |_: &Key, _: u32| {
            listed += 1;
            listed < 10_000
        };
        let _ = engine.list(&mut store, b"", visit, &mut 0);
        for n in 0..60 {
            let value = vec![n as u8; usize::from(n) * 9];
            let placement = if n % 9 == 8 { Placement::Dma } else { Placement::Packed };
            let how = StoreHow { placement, ..StoreHow::default() };
            let _ = engine.put(&mut store, &key(n * 3), &value, how, &mut 0);
            let _ = engine.delete(&mut store, &key(n * 5), &mut 0);
        }
        for window in 0..2 {
            let _ = engine.open_window(&mut store, WindowId(window), &mut 0);
        }
        let _ = engine.flush(&mut store, &mut 0);
        let _ = (engine.reclaim(&mut store, &mut 0), engine.stats(), engine.used_bytes(), engine.keys());
        if round == 0 {
            // Everything found and written is found after reopening, or opening fails again.
            let Ok(again) = open(store.into_image()) else { return };
            (store, engine) = again;
        }
    }
    let _ = engine.format(&mut store, &mut 0);
}

/// Checks and repairs the image.
fn check_image(image: Image) {
    let mut store = MemoryStore::new(image, PAGE_BYTES, SIZE_BYTES);
    let _ = byway_kv::repair_state(&mut store, &namespace());
    let Ok((mut engine, recovery)) = KvEngine::open(&mut store, &namespace(), options()) else { return };
    let watch = &mut |_: &'static str, _, _| {};
    let found = engine.check(&mut store, 1, &recovery, watch);
    let _ = engine.repair(&mut store, &found, watch);
}

fn flip_one_bit(base: &Base, image: &mut Image, input: &mut Input<'_>) {
    let (what, bit) = (input.byte(), input.byte() % 64);
    if what % 2 == 0 || image.pages.is_empty() {
        let word = base.words[usize::from(input.word()) % base.words.len()];
        image.state[word + usize::from(bit / 8)] ^= 1 << (bit % 8);
        return;
    }
    let nth = usize::from(input.byte()) % image.pages.len();
    let at = usize::from(input.word()) % PAGE_BYTES;
    if let Some(page) = image.pages.values_mut().nth(nth) {
        let mut changed = page.to_vec();
        changed[at] ^= 1 << (bit % 8);
        *page = changed.into();
    }
}

/// Each key has its own value, or is not readable, or its newest stores are named as lost.
fn check_flipped(base: &Base, image: Image) {
    let mut store = MemoryStore::new(image, PAGE_BYTES, SIZE_BYTES);
    let Ok((mut engine, recovery)) = KvEngine::open(&mut store, &namespace(), options()) else { return };
    if !recovery.damage.is_empty() {
        return;
    }
    for n in 0..KEYS {
        match get(&mut store, &mut engine, &key(n)) {
            Ok(found) => assert!(base.pairs.get(&key(n)) == Some(&found), "key {n} has another value"),
            Err(KvError::NotFound) => assert!(!base.pairs.contains_key(&key(n)), "key {n} is gone unnoticed"),
            Err(_) => {}
        }
    }
}
