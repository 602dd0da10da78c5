//! A mapped part of device memory.

use byway_sys::Mapping;
use byway_sys::cacheline::{STREAMS, store_fence, stream_range, write_back_range};
use byway_sys::map::MapError;

use crate::access::Access;
use crate::domain::Domain;
use crate::memory::{Memory, MemoryError, Point};
use crate::model::Model;

/// Device memory, mapped in this process.
#[derive(Debug)]
pub struct Window {
    map: Mapping,
    domain: Domain,
    access: Access,
    /// The model, if there is one.
    model: Option<Model>,
}

impl Window {
    /// Mapped memory with its persistence domain.
    #[must_use]
    pub const fn new(map: Mapping, domain: Domain) -> Self {
        Self { map, domain, access: Access::ReadWrite, model: None }
    }

    /// Restricts it to the exported access, so that read-only memory is not written by mistake.
    #[must_use]
    pub const fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Its persistence domain.
    #[must_use]
    pub const fn domain(&self) -> Domain {
        self.domain
    }

    /// The mapping.
    #[must_use]
    pub const fn mapping(&self) -> &Mapping {
        &self.map
    }

    /// Adds a model: touches are recorded and charged.
    pub(crate) fn with_model(mut self, model: Model) -> Self {
        self.model = Some(model);
        self
    }

    pub(crate) const fn model(&self) -> Option<&Model> {
        self.model.as_ref()
    }

    /// Records a touch, after loading absent pages.
    #[inline]
    fn touch(&self, at: u64, len_bytes: u64, writes: bool) {
        if let Some(model) = &self.model {
            model.touch(at, len_bytes, writes);
        }
    }

    #[inline]
    fn check_writable(&self) -> Result<(), MemoryError> {
        if self.access == Access::ReadOnly {
            return Err(MemoryError::ReadOnly);
        }
        Ok(())
    }
}

impl Memory for Window {
    fn len_bytes(&self) -> u64 {
        self.map.len() as u64
    }

    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        let Some(model) = &self.model else { return Ok(self.map.read_at(place(at), into)?) };
        model.touch(at, into.len() as u64, false);
        let since_ps = model.now_ps();
        self.map.read_at(place(at), into)?;
        model.pay(since_ps, model.terms.latency.read_ps(into.len() as u64));
        Ok(())
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.check_writable()?;
        self.touch(at, from.len() as u64, true);
        Ok(self.map.write_at(place(at), from)?)
    }

    #[inline]
    fn stream(&self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        if !self.streams() {
            return self.write(at, from);
        }
        self.check_writable()?;
        self.touch(at, from.len() as u64, true);
        let since_ps = self.model.as_ref().map_or(0, Model::now_ps);
        stream_range(&self.map, place(at), from)?;
        if let Some(model) = &self.model {
            model.pay(since_ps, model.terms.latency.write_back_ps(at, from.len() as u64));
        }
        Ok(())
    }

    #[inline]
    fn streams(&self) -> bool {
        STREAMS && self.domain == Domain::LineFlush
    }

    #[inline]
    fn drain(&self, _point: Point) {
        if self.streams() {
            store_fence();
        }
    }

    #[inline]
    fn load(&self, at: u64) -> Result<u64, MemoryError> {
        self.touch(at, 8, false);
        Ok(self.map.load_u64(place(at))?)
    }

    #[inline]
    fn store(&self, at: u64, value: u64) -> Result<(), MemoryError> {
        self.check_writable()?;
        self.touch(at, 8, true);
        Ok(self.map.store_u64(place(at), value)?)
    }

    #[inline]
    fn exchange(&self, at: u64, from: u64, to: u64) -> Result<bool, MemoryError> {
        self.check_writable()?;
        self.touch(at, 8, true);
        Ok(self.map.exchange_u64(place(at), from, to)?)
    }

    #[inline]
    fn flush(&self, at: u64, len_bytes: u64, _point: Point) -> Result<(), MemoryError> {
        let since_ps = self.model.as_ref().map_or(0, Model::now_ps);
        match self.domain {
            Domain::Volatile | Domain::CpuCache => return Ok(()),
            Domain::LineFlush => write_back_range(&self.map, place(at), place(len_bytes))?,
            Domain::PageSync => self.map.sync(place(at), place(len_bytes)).map_err(MemoryError::Sync)?,
        }
        if let Some(model) = &self.model {
            model.pay(since_ps, model.terms.latency.write_back_ps(at, len_bytes));
        }
        Ok(())
    }

    #[inline]
    fn fence(&self, _point: Point) {
        let since_ps = self.model.as_ref().map_or(0, Model::now_ps);
        store_fence();
        if let Some(model) = self.model.as_ref().filter(|_| self.domain.needs_write_back()) {
            model.pay(since_ps, model.terms.latency.fence_ps());
        }
    }
}

/// An offset in the mapping; values beyond the address space lie outside.
#[inline]
fn place(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

impl From<MapError> for MemoryError {
    fn from(outside: MapError) -> Self {
        Self::Outside {
            at: outside.at as u64,
            len_bytes: outside.len_bytes as u64,
            memory_bytes: outside.mapped_bytes as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const HERE: Point = Point("test");

    #[test]
    fn window_stores_are_read_back_in_every_domain() {
        for domain in [Domain::Volatile, Domain::PageSync, Domain::LineFlush, Domain::CpuCache] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(8192).unwrap();
            let map = Mapping::file(&file, 0, 8192, byway_sys::map::Sharing::Shared).unwrap();
            let window = Window::new(map, domain);
            window.write(4090, b"over two pages").unwrap();
            window.store(0, 6).unwrap();
            assert!(window.exchange(0, 6, 7).unwrap() && !window.exchange(0, 6, 8).unwrap(), "{domain}");
            window.flush(4090, 14, HERE).unwrap();
            window.flush(0, 8, HERE).unwrap();
            window.fence(HERE);
            window.stream(4064, b"in front of that").unwrap();
            window.drain(HERE);
            let mut front = [0; 16];
            window.read(4064, &mut front).unwrap();
            assert_eq!(&front, b"in front of that", "{domain}");
            let mut back = [0; 14];
            window.read(4090, &mut back).unwrap();
            assert_eq!((&back, window.load(0).unwrap()), (b"over two pages", 7), "{domain}");
        }
    }

    #[test]
    fn nothing_outside_is_touched() {
        let window = Window::new(Mapping::anonymous(4096).unwrap(), Domain::LineFlush);
        assert!(window.write(4095, &[0; 2]).is_err());
        assert!(window.flush(u64::MAX, 1, HERE).is_err());
        assert!(window.store(4, 0).is_err());
    }
}
