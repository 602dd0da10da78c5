//! A store in memory that can be copied before any of its stores, and made to fail.

#![allow(dead_code, clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use byway_flash::{
    AreaRef, Cause, ExtentId, Flash, FlashError, FlashOptions, FlashReads, MediaKind, NamespaceKind,
    NamespaceRecord, NamespaceSpec,
};
pub use byway_kit::pattern as value;
use byway_kv::{
    Home, Key, KvEngine, KvError, KvFormat, KvOptions, LeaseId, Packing, PageStore, Recovery, ScanPart,
    Selection, StoreHow,
};
use byway_spec::vendor::KeyRange;

/// What would be there if the process died now.
#[derive(Clone)]
pub struct Image {
    pub state: Vec<u8>,
    pub windows: RefCell<Vec<u8>>,
    pub pages: HashMap<u64, Arc<[u8]>>,
}

pub struct MemStore {
    pub image: Image,
    pub page_bytes: usize,
    /// How much longer the extent of a namespace is than the namespace.
    pub spare_percent: u64,
    home: Home,
    /// Copies of the image before each commit, page write and trim, while wanted.
    pub cuts: Option<Vec<Image>>,
    /// Page operations until they fail; `None` for never.
    pub fail_after: Option<u64>,
    /// Reads fail from now on; writes do not.
    pub fails_reads: bool,
    pub programs: u64,
    pub reads: u64,
    pub trims: u64,
}

/// A reference to an area: of a real flash, since only one can make it.
fn any_area() -> AreaRef {
    let profile = byway_link::Profile::by_name("cosmos").unwrap().flash;
    let options = FlashOptions::new(64 << 20, profile, MediaKind::Ram);
    let mut flash = Flash::create(options, &[spec(8 << 20)]).unwrap();
    flash.add_area(1, byway_kv::STATE_AREA, 4096).unwrap()
}

pub fn spec(size_bytes: u64) -> NamespaceSpec {
    NamespaceSpec { nsid: Some(1), kind: NamespaceKind::Kv, size_bytes }
}

pub fn namespace(size_bytes: u64) -> NamespaceRecord {
    NamespaceRecord {
        nsid: 1,
        kind: NamespaceKind::Kv,
        size_bytes,
        extent: ExtentId(0),
        nguid: [0; 16],
        uuid: [0; 16],
        owner_state: [0; byway_flash::OWNER_STATE_BYTES],
        access_state: [0; byway_flash::ACCESS_STATE_BYTES],
    }
}

impl MemStore {
    pub fn new(page_bytes: usize) -> Self {
        let image = Image { state: Vec::new(), windows: RefCell::default(), pages: HashMap::new() };
        let home = Home { extent: ExtentId(0), state: any_area(), windows: None };
        Self {
            image,
            page_bytes,
            spare_percent: 25,
            home,
            cuts: None,
            fail_after: None,
            fails_reads: false,
            programs: 0,
            reads: 0,
            trims: 0,
        }
    }

    /// A store that finds an image.
    pub fn with(&self, image: Image) -> Self {
        let home = self.home.clone();
        Self {
            image,
            page_bytes: self.page_bytes,
            spare_percent: self.spare_percent,
            home,
            cuts: None,
            fail_after: None,
            fails_reads: false,
            programs: 0,
            reads: 0,
            trims: 0,
        }
    }

    fn cut(&mut self) {
        if let Some(cuts) = &mut self.cuts {
            cuts.push(self.image.clone());
        }
    }

    fn operate(&mut self) -> Result<(), FlashError> {
        match &mut self.fail_after {
            Some(0) => Err(FlashError::Media { block: 7, page: 7, why: "made to fail" }),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl PageStore for MemStore {
    fn settle_in(
        &mut self,
        _: &NamespaceRecord,
        state_bytes: usize,
        windows_bytes: usize,
    ) -> Result<Home, FlashError> {
        self.image.state.resize(state_bytes, 0);
        self.image.windows.get_mut().resize(windows_bytes, 0);
        Ok(self.home.clone())
    }

    fn find_home(&mut self, _: &NamespaceRecord) -> Option<Home> {
        (!self.image.state.is_empty()).then(|| self.home.clone())
    }

    fn extent_bytes(&self, namespace: &NamespaceRecord) -> u64 {
        namespace.size_bytes + namespace.size_bytes * self.spare_percent / 100
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn read(
        &mut self,
        _: &Home,
        at_bytes: u64,
        into: &mut [u8],
        _: Cause,
        _: &mut u64,
    ) -> Result<(), FlashError> {
        self.operate()?;
        if self.fails_reads {
            return Err(FlashError::Media { block: 7, page: 7, why: "made to fail" });
        }
        self.reads += 1;
        let within = at_bytes as usize % self.page_bytes;
        assert!(within + into.len() <= self.page_bytes, "a read spans pages");
        match self.image.pages.get(&(at_bytes / self.page_bytes as u64)) {
            Some(page) => into.copy_from_slice(&page[within..within + into.len()]),
            None => into.fill(0),
        }
        Ok(())
    }

    fn peek(&self, _: &Home, at_bytes: u64, len_bytes: usize) -> Option<&[u8]> {
        let within = at_bytes as usize % self.page_bytes;
        self.image.pages.get(&(at_bytes / self.page_bytes as u64))?.get(within..within + len_bytes)
    }

    fn reads_in_any_order(&self) -> bool {
        !self.fails_reads && self.fail_after.is_none()
    }

    fn count_reads(&mut self, reads: FlashReads) {
        self.reads += reads.pages;
    }

    fn peek_state(&self, _: &Home) -> Option<&[u8]> {
        Some(&self.image.state)
    }

    fn write_page(
        &mut self,
        _: &Home,
        page: u64,
        data: &[u8],
        _: Cause,
        _: &mut u64,
    ) -> Result<(), FlashError> {
        assert_eq!(data.len(), self.page_bytes);
        self.operate()?;
        self.cut();
        self.programs += 1;
        self.image.pages.insert(page, data.into());
        Ok(())
    }

    fn write_page_from_state(
        &mut self,
        home: &Home,
        page: u64,
        at: usize,
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let data = self.image.state[at..at + self.page_bytes].to_vec();
        self.write_page(home, page, &data, cause, at_ps)
    }

    fn trim_pages(&mut self, _: &Home, first: u64, count: u64) -> Result<(), FlashError> {
        self.operate()?;
        self.cut();
        self.trims += 1;
        (first..first + count).for_each(|page| drop(self.image.pages.remove(&page)));
        Ok(())
    }

    fn state(&mut self, _: &Home) -> &mut [u8] {
        &mut self.image.state
    }

    fn commit_u64(&mut self, _: &Home, at: usize, value: u64) {
        assert_eq!(at % 8, 0);
        self.cut();
        self.image.state[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn read_window(&self, _: &Home, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.image.windows.borrow()[at..at + into.len()]);
    }

    fn write_window(&self, _: &Home, at: usize, from: &[u8]) {
        self.image.windows.borrow_mut()[at..at + from.len()].copy_from_slice(from);
    }
}

/// An engine in a small store, with calls that need no more than a test says.
pub struct Rig {
    pub store: MemStore,
    pub engine: KvEngine,
    pub options: KvOptions,
    pub namespace: NamespaceRecord,
}

pub fn key(bytes: &[u8]) -> Key {
    Key::new(bytes).unwrap()
}

pub fn numbered(n: u64) -> Key {
    key(&n.to_be_bytes())
}

/// Small tables, so that flushes and merges come early.
pub fn small(packing: Packing) -> KvOptions {
    KvOptions::default().packing(packing).memtable_bytes(60 * 25).cache_bytes(64 << 10)
}

pub fn tiny_format() -> KvFormat {
    KvFormat { ring_pages: 4, windows: 2, window_bytes: 16 << 10 }
}

impl Rig {
    pub fn new(size_bytes: u64, options: KvOptions) -> Self {
        let mut store = MemStore::new(4096);
        let namespace = namespace(size_bytes);
        let engine = KvEngine::create(&mut store, &namespace, &tiny_format(), options).unwrap();
        Self { store, engine, options, namespace }
    }

    pub fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), KvError> {
        self.put_how(key, value, StoreHow::default())
    }

    pub fn put_how(&mut self, key: &Key, value: &[u8], how: StoreHow) -> Result<(), KvError> {
        self.engine.put(&mut self.store, key, value, how, &mut 0)
    }

    /// Stores by a lease: beside others if that can be, else by exclusive reference.
    pub fn put_leased(&mut self, lease: LeaseId, key: &Key, value: &[u8]) -> Result<(), KvError> {
        if self.engine.put_beside(&self.store, lease, key, value) {
            return Ok(());
        }
        self.engine.put_leased(&mut self.store, lease, key, value, &mut 0)
    }

    pub fn get(&mut self, key: &Key) -> Result<Vec<u8>, KvError> {
        get(&mut self.engine, &mut self.store, key)
    }

    pub fn delete(&mut self, key: &Key) -> Result<bool, KvError> {
        self.engine.delete(&mut self.store, key, &mut 0)
    }

    pub fn list(&mut self, start: &[u8]) -> Vec<(Key, u32)> {
        list(&mut self.engine, &mut self.store, start)
    }

    /// Opens what a dead process would have left, without closing anything.
    pub fn reopen(&mut self) -> Recovery {
        let (engine, recovery) = KvEngine::open(&mut self.store, &self.namespace, self.options).unwrap();
        self.engine = engine;
        recovery
    }

    /// Everything the check of the engine finds, of what this opening found too.
    pub fn check(&mut self, recovery: &Recovery) -> Vec<byway_flash::Finding> {
        self.engine.check(&mut self.store, 1, recovery, &mut |_, _, _| {})
    }

    /// An engine over an image; the image must be one.
    pub fn open_image(&self, image: Image) -> (MemStore, KvEngine, Recovery) {
        let mut store = self.store.with(image);
        let (engine, recovery) = KvEngine::open(&mut store, &self.namespace, self.options).unwrap();
        (store, engine, recovery)
    }
}

/// Fills the pieces that an engine asks for with `value`, from its beginning on.
pub fn pieces_of(mut value: &[u8]) -> impl FnMut(&mut [u8], &mut u64) -> Result<(), KvError> + '_ {
    move |piece, _| {
        let (head, tail) = value.split_at(piece.len());
        piece.copy_from_slice(head);
        value = tail;
        Ok(())
    }
}

pub fn get(engine: &mut KvEngine, store: &mut impl PageStore, key: &Key) -> Result<Vec<u8>, KvError> {
    let mut found = Vec::new();
    let into = |piece: &[u8], _: &mut u64| {
        found.extend_from_slice(piece);
        Ok::<(), KvError>(())
    };
    let info = engine.get(store, key, 0, u64::MAX, into, &mut 0)?;
    assert_eq!(info.len as usize, found.len());
    Ok(found)
}

pub fn list(engine: &mut KvEngine, store: &mut impl PageStore, start: &[u8]) -> Vec<(Key, u32)> {
    let mut found = Vec::new();
    let visit = |key: &Key, len: u32| {
        found.push((*key, len));
        true
    };
    engine.list(store, start, visit, &mut 0).unwrap();
    found
}

/// A pair that was scanned: key, length of the value, and the bytes of it that were wanted.
pub type Scanned = (Key, u32, Vec<u8>);

/// Up to `most` pairs of a range with up to `value_bytes` of each value; whether the range ends with them.
pub fn scan(
    engine: &mut KvEngine,
    store: &mut impl PageStore,
    range: &KeyRange,
    most: usize,
    value_bytes: u32,
) -> (Vec<Scanned>, bool) {
    let (mut selection, mut selected) = (Selection::default(), 0);
    let wants = |_: &Key, len: u32| {
        selected += 1;
        (selected <= most).then_some(len.min(value_bytes))
    };
    engine.select(store, range, most, &mut selection, wants, &mut 0).unwrap();
    let mut pairs: Vec<Scanned> = Vec::new();
    let into = |part: ScanPart<'_>| match part {
        ScanPart::Pair { key, value_len, .. } => pairs.push((key, value_len, Vec::new())),
        ScanPart::Whole { key, value_len, value } => pairs.push((key, value_len, value.to_vec())),
        ScanPart::Value(bytes) => pairs.last_mut().unwrap().2.extend_from_slice(bytes),
    };
    assert_eq!(engine.read_selected(store, &mut selection, into, &mut 0).unwrap(), selection.len());
    (pairs, selection.is_end())
}
