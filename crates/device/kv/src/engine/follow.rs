//! An engine that reads what another process writes (decision 0069).
//!
//! Before a read, the words are compared that commit something: the manifest's root, write pointers, DMA log tables. What a stream has
//! behind its former write pointer goes to the memtable, which keeps everything since the checkpoint that the engine was opened at; so
//! an entry there is the newest of its key. A manifest of the same checkpoint brings other runs alone. One of a later checkpoint
//! brings everything anew, as the log before it may be gone.

use byway_flash::{FlashError, NamespaceRecord};

use crate::engine::KvEngine;
use crate::engine::recovery::{Recovery, open_at, replay_regions, take};
use crate::error::KvError;
use crate::index::manifest::Manifest;
use crate::layout::{Layout, ROOT_AT};
use crate::options::KvOptions;
use crate::store::{Home, PageStore};
use crate::value_log::following::{refresh_all, refresh_rows};
use crate::value_log::scan::Scanner;

/// Times that everything is read anew while the writer passes checkpoints.
const RELOADS: u32 = 16;
/// Manifests of one checkpoint that are taken over one after the other.
const MANIFESTS: u32 = 100;

/// What following has cost since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowCounters {
    /// Times that records behind a write pointer were read.
    pub advances: u64,
    /// Records read so.
    pub records: u64,
    /// Manifests taken over.
    pub manifests: u64,
    /// Times that everything was read anew from a checkpoint, the opening included.
    pub reloads: u64,
}

/// How an attempt to catch up with the writer ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caught {
    Up,
    /// What was read may be gone.
    Behind,
}

/// Opens an engine beside its writer.
pub(super) fn open<S: PageStore>(
    store: &mut S,
    home: &Home,
    namespace: &NamespaceRecord,
    options: KvOptions,
) -> Result<(KvEngine, Recovery), KvError> {
    let mut last = KvError::Flash(FlashError::Overtaken);
    for _ in 0..RELOADS {
        match open_once(store, home, namespace.size_bytes, options) {
            Ok(Some(opened)) => return Ok(opened),
            Ok(None) => last = KvError::Flash(FlashError::Overtaken),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// `None` where what was read may be gone.
fn open_once<S: PageStore>(
    store: &mut S,
    home: &Home,
    size_bytes: u64,
    options: KvOptions,
) -> Result<Option<(KvEngine, Recovery)>, KvError> {
    store.refresh_state(home, 0..ROOT_AT);
    let layout = Layout::read_header(store.state(home))?;
    refresh_all(store, home, &layout);
    let (mut engine, recovery) = open_at(store, home, size_bytes, options)?;
    engine.follow.reloads = 1;
    let is_whole = recovery.damage.is_empty() || !engine.is_behind(store);
    let caught = engine.follow_manifests(store)?;
    Ok((is_whole && caught == Caught::Up).then_some((engine, recovery)))
}

impl KvEngine {
    /// Whether the other process, which writes what this engine reads, has committed something that is not read yet.
    #[inline]
    #[must_use]
    pub fn is_behind<S: PageStore>(&self, store: &S) -> bool {
        store.is_stale(self.log.home(), ROOT_AT..ROOT_AT + 8)
            || self.log.is_header_stale(store)
            || (0..self.log.stream_count()).any(|stream| self.log.is_stream_stale(store, stream))
    }

    /// Has reads see everything that the other process had committed before this call.
    ///
    /// # Errors
    /// [`FlashError::Overtaken`] where it passes checkpoints faster than they are read; damaged state.
    #[inline]
    pub fn follow<S: PageStore>(&mut self, store: &mut S) -> Result<(), KvError> {
        if self.is_half_way || self.is_behind(store) { self.catch_up(store) } else { Ok(()) }
    }

    #[cold]
    fn catch_up<S: PageStore>(&mut self, store: &mut S) -> Result<(), KvError> {
        // What is torn here is read anew, and named there if it is damage.
        if !self.is_half_way && self.advance(store).is_ok_and(|caught| caught == Caught::Up) {
            return Ok(());
        }
        // Until that succeeds, no read may find what was taken over so far.
        self.is_half_way = true;
        self.reload(store)
    }

    /// Reads everything anew.
    fn reload<S: PageStore>(&mut self, store: &mut S) -> Result<(), KvError> {
        let (home, size_bytes) = (self.log.home().clone(), self.size_bytes);
        let mut last = KvError::Flash(FlashError::Overtaken);
        for _ in 0..RELOADS {
            match open_once(store, &home, size_bytes, self.options) {
                Ok(Some((engine, _))) => {
                    self.replace(engine);
                    return Ok(());
                }
                Ok(None) => last = KvError::Flash(FlashError::Overtaken),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn replace(&mut self, new: Self) {
        let (hints, counters) = (self.lookup_hints.clone(), self.follow);
        *self = new;
        self.follow = FollowCounters { reloads: counters.reloads + 1, ..counters };
        self.publish_hints(hints);
    }

    /// Reads what was committed since the last time.
    fn advance<S: PageStore>(&mut self, store: &mut S) -> Result<Caught, KvError> {
        if self.follow_manifests(store)? == Caught::Behind {
            return Ok(Caught::Behind);
        }
        self.log.follow_header(store);
        let mut recovery = Recovery::default();
        for stream in 0..self.log.stream_count() {
            if self.log.is_stream_stale(store, stream) && !self.read_on(store, stream, &mut recovery)? {
                return Ok(Caught::Behind);
            }
        }
        if !recovery.damage.is_empty() {
            return Ok(Caught::Behind);
        }
        self.follow.advances += 1;
        self.follow.records += recovery.records;
        // The log that was read was there if its checkpoint is still the last.
        self.follow_manifests(store)
    }

    /// Reads what a stream has behind its former write pointer, and ahead of its present one; whether that is the same stream.
    fn read_on<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        recovery: &mut Recovery,
    ) -> Result<bool, KvError> {
        let Some(unread) = self.log.follow_stream(store, stream)? else { return Ok(false) };
        let Self { log, index, .. } = self;
        let mut scanner = Scanner::new(log, stream, unread.from, unread.to);
        while let Some(found) = scanner.next(log, store, &mut 0) {
            take(found, stream, log, index, recovery);
        }
        scanner.refusal().map_or(Ok(()), Err)?;
        replay_regions(store, log, index, stream, recovery)?;
        Ok(true)
    }

    /// Takes manifests over until there is no newer one.
    fn follow_manifests<S: PageStore>(&mut self, store: &mut S) -> Result<Caught, KvError> {
        for _ in 0..MANIFESTS {
            if !store.is_stale(self.log.home(), ROOT_AT..ROOT_AT + 8) {
                return Ok(Caught::Up);
            }
            if self.follow_manifest(store)? == Caught::Behind {
                return Ok(Caught::Behind);
            }
        }
        Ok(Caught::Behind)
    }

    fn follow_manifest<S: PageStore>(&mut self, store: &mut S) -> Result<Caught, KvError> {
        let (home, layout) = (self.log.home().clone(), *self.log.layout());
        store.refresh_state(&home, ROOT_AT..ROOT_AT + 8);
        refresh_rows(store, &home, &layout);
        let changed = self.log.segments_mut().reload(store.state(&home))?;
        let manifest = Manifest::load(store.state(&home), &layout, self.log.segments_mut())?;
        if manifest.replay_from != self.index.manifest().replay_from {
            return Ok(Caught::Behind);
        }
        self.index.follow_manifest(manifest, &changed, layout.pages_per_segment());
        self.follow.manifests += 1;
        Ok(Caught::Up)
    }
}
