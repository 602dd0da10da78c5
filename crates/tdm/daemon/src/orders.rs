//! What is done with a file by hand.

use byway_tdm_engine::control::Order;
use byway_tdm_engine::table::{Counted, Entry, FileKey, Level, Why};
use byway_tdm_policy::Order as Ordered;
use byway_tdm_region::Memory;

use crate::estate::Estate;
use crate::resident::bring;
use crate::table::Table;

impl Estate {
    /// Does it.
    ///
    /// # Errors
    /// Why it cannot be done. One that is not absorbed can be pinned: it is absorbed once somebody hands it over.
    pub(crate) fn order<M: Memory>(
        &self,
        table: &Table<'_, M>,
        order: Order,
        key: FileKey,
    ) -> Result<(), Why> {
        let entry = self.board.find(key).ok_or(Why::Unknown)?;
        match order {
            Order::House => self.pin_home(entry),
            Order::Drain => self.drain(table, entry),
            Order::Evict => self.keep_out(table, entry),
            Order::Pin => self.pin(table, entry),
            Order::Unpin => self.unpin(table, entry),
            Order::Prefetch => self.prefetch(entry),
        }
    }

    fn pin_home(&self, entry: Entry<'_>) -> Result<(), Why> {
        let is_by_merit = self.judge().is_home_by_merit(entry.index());
        if is_by_merit {
            self.judge().order(self.now_ns(), &entry, Some(Ordered::Pin(Level::Dax)));
        }
        self.wish_home(entry)?;
        if self.judge().is_kept_out(entry.index()) {
            // While it is below it is served as any other.
            self.judge().order(self.now_ns(), &entry, None);
        }
        Ok(())
    }

    /// Its program asks for it with its next sync.
    pub(crate) fn wish_home(&self, entry: Entry<'_>) -> Result<(), Why> {
        if let Some(why) = entry.housed().excluded() {
            return Err(why);
        }
        allow(entry);
        entry.counters().set(Counted::HomeAgainNs, 0);
        entry.housed().wish(true);
        Ok(())
    }

    /// Takes that back; says whether somebody wished it.
    fn unwish_home<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>) -> Result<bool, Why> {
        let was_wished = entry.housed().is_wished();
        entry.housed().wish(false);
        self.unhouse(table, entry.index(), Why::ByHand).map_err(|_| Why::SyncFailed)?;
        Ok(was_wished)
    }

    fn drain<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>) -> Result<(), Why> {
        if entry.standing().level == Level::Dax {
            // It comes home again by a sync that is late enough.
            return self.unhouse(table, entry.index(), Why::ByHand).map_err(|_| Why::SyncFailed);
        }
        let held = self.held(entry.index()).ok_or(entry.standing().why)?;
        held.retire(entry, self.slice.window()).map_err(|_| Why::SyncFailed)
    }

    /// Has a file's log, or its home, in the device's cache, whatever was touched since.
    fn prefetch(&self, entry: Entry<'_>) -> Result<(), Why> {
        let home = self.homes.of(entry.index()).map(|housed| housed.place);
        let place = home.or_else(|| self.held(entry.index()).map(|held| held.ring));
        let place = place.ok_or(entry.standing().why)?;
        bring(self.slice.as_ref(), place.at, place.len_bytes).map_err(|_| Why::NoRoom)
    }

    fn keep_out<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>) -> Result<(), Why> {
        self.unwish_home(table, entry)?;
        // What bars it already would be taken back with the order.
        if !entry.standing().is_barred {
            entry.bar(Why::ByHand);
        }
        self.judge().order(self.now_ns(), &entry, Some(Ordered::Never));
        let Some(held) = self.held(entry.index()) else { return Ok(()) };
        self.let_go(table, &held, entry, Why::ByHand).map_err(|_| Why::SyncFailed)
    }

    fn pin<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>) -> Result<(), Why> {
        self.unwish_home(table, entry)?;
        allow(entry);
        self.judge().order(self.now_ns(), &entry, Some(Ordered::Pin(Level::Absorb)));
        if self.held(entry.index()).is_some() { Ok(()) } else { Err(entry.standing().why) }
    }

    fn unpin<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>) -> Result<(), Why> {
        let was_wished = self.unwish_home(table, entry)?;
        let was_ordered = was_wished | allow(entry) | self.judge().is_pinned(entry.index());
        self.judge().order(self.now_ns(), &entry, None);
        if was_ordered || self.held(entry.index()).is_some() { Ok(()) } else { Err(entry.standing().why) }
    }
}

/// Takes back that a file was evicted; says whether it was.
fn allow(entry: Entry<'_>) -> bool {
    let standing = entry.standing();
    let was_evicted = standing.is_barred && standing.why == Why::ByHand;
    if was_evicted {
        entry.unbar();
    }
    was_evicted
}
