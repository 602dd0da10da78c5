//! An in-memory page store whose bytes can be changed without the engine's knowledge.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use byway_flash::{
    AreaRef, Cause, ExtentId, Flash, FlashError, FlashOptions, MediaKind, NamespaceKind, NamespaceRecord,
    NamespaceSpec,
};
use byway_kv::{Home, PageStore};

/// The stored state of a namespace.
#[derive(Clone, Default)]
pub struct Image {
    /// The engine's protected state.
    pub state: Vec<u8>,
    /// Memory of the namespace's windows.
    pub windows: Vec<u8>,
    /// Pages that were written.
    pub pages: BTreeMap<u64, Arc<[u8]>>,
}

/// A store over an [`Image`].
pub struct MemoryStore {
    /// The stored state, but for the windows.
    pub image: Image,
    windows: RefCell<Vec<u8>>,
    page_bytes: usize,
    pages_max: u64,
    area: AreaRef,
}

impl MemoryStore {
    /// A store of pages of `page_bytes`, as many as `extent_bytes` hold.
    pub fn new(mut image: Image, page_bytes: usize, extent_bytes: u64) -> Self {
        let windows = RefCell::new(std::mem::take(&mut image.windows));
        let pages_max = extent_bytes / page_bytes as u64;
        Self { image, windows, page_bytes, pages_max, area: any_area() }
    }

    /// All that is stored.
    pub fn into_image(self) -> Image {
        Image { windows: self.windows.into_inner(), ..self.image }
    }

    fn home(&self) -> Home {
        Home { extent: ExtentId(0), state: self.area, windows: None }
    }

    /// Addresses that an engine takes from its index are checked here, as flash checks them.
    fn inside(&self, at_bytes: u64, len: usize) -> Result<(), FlashError> {
        let extent_bytes = self.pages_max * self.page_bytes as u64;
        match at_bytes.checked_add(len as u64) {
            Some(end) if end <= extent_bytes => Ok(()),
            _ => Err(FlashError::OutOfRange { at_bytes, len_bytes: len as u64, extent_bytes }),
        }
    }
}

/// A reference to an area: of a real flash, since only one can make it.
fn any_area() -> AreaRef {
    static AREA: std::sync::OnceLock<AreaRef> = std::sync::OnceLock::new();
    *AREA.get_or_init(|| {
        let profile = byway_link::Profile::by_name("gen4x4").expect("a profile that is there").flash;
        let spec = NamespaceSpec { nsid: Some(1), kind: NamespaceKind::Kv, size_bytes: 4 << 20 };
        let options = FlashOptions::new(8 << 20, profile, MediaKind::Ram);
        let mut flash = Flash::create(options, &[spec]).expect("flash in memory");
        flash.add_area(1, byway_kv::STATE_AREA, 4096).expect("an area")
    })
}

impl PageStore for MemoryStore {
    fn settle_in(
        &mut self,
        _: &NamespaceRecord,
        state_bytes: usize,
        windows_bytes: usize,
    ) -> Result<Home, FlashError> {
        self.image.state.resize(state_bytes, 0);
        self.windows.get_mut().resize(windows_bytes, 0);
        Ok(self.home())
    }

    fn find_home(&mut self, _: &NamespaceRecord) -> Option<Home> {
        Some(self.home())
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
        self.inside(at_bytes, into.len())?;
        let mut at = at_bytes as usize;
        for piece in into.chunks_mut(self.page_bytes) {
            let within = at % self.page_bytes;
            assert!(within + piece.len() <= self.page_bytes, "a read spans pages");
            match self.image.pages.get(&((at / self.page_bytes) as u64)) {
                Some(page) => piece.copy_from_slice(&page[within..within + piece.len()]),
                None => piece.fill(0),
            }
            at += piece.len();
        }
        Ok(())
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
        self.inside(page.saturating_mul(self.page_bytes as u64), self.page_bytes)?;
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
        let end = first.checked_add(count).filter(|end| *end <= self.pages_max);
        let end = end.ok_or(FlashError::Misuse("pages outside the extent"))?;
        self.image.pages.retain(|page, _| !(first..end).contains(page));
        Ok(())
    }

    fn state(&mut self, _: &Home) -> &mut [u8] {
        &mut self.image.state
    }

    fn commit_u64(&mut self, _: &Home, at: usize, value: u64) {
        assert_eq!(at % 8, 0);
        self.image.state[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn read_window(&self, _: &Home, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.windows.borrow()[at..at + into.len()]);
    }

    fn write_window(&self, _: &Home, at: usize, from: &[u8]) {
        self.windows.borrow_mut()[at..at + from.len()].copy_from_slice(from);
    }
}
