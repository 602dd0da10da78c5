//! Page buffers for moves and verified reads, kept so that none is allocated on the way.

pub(crate) struct Scratch {
    page_bytes: usize,
    free: Vec<Vec<u8>>,
}

impl Scratch {
    pub(crate) const fn new(page_bytes: usize) -> Self {
        Self { page_bytes, free: Vec::new() }
    }

    /// A buffer of one page; its content is left from its last use.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_else(|| vec![0; self.page_bytes])
    }

    pub(crate) fn give_back(&mut self, page: Vec<u8>) {
        self.free.push(page);
    }
}
