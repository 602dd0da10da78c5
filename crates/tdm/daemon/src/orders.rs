//! Users' orders for files.

use byway_tdm_engine::control::Order;
use byway_tdm_engine::table::{Counted, Entry, FileKey, Level, Reason};
use byway_tdm_policy::Order as Ordered;
use byway_tdm_region::Memory;

use crate::cache_pins::load_range;
use crate::table::Table;
use crate::tenant::Tenant;

impl Tenant {
    /// Carries out an order.
    ///
    /// # Errors
    /// The reason, if it cannot be done now. A pinned file is absorbed once a program hands it over.
    pub(crate) fn order<M: Memory>(
        &self,
        table: &Table<'_, M>,
        order: Order,
        key: FileKey,
    ) -> Result<(), Reason> {
        let entry = self.file_table().find(key).ok_or(Reason::Unknown)?;
        match order {
            Order::Promote => self.pin_dax(entry),
            Order::Drain => self.drain(table, entry),
            Order::Evict => self.keep_out(table, entry),
            Order::Pin => self.pin(table, entry),
            Order::Unpin => self.unpin(table, entry),
            Order::Prefetch => self.prefetch(entry),
        }
    }

    fn pin_dax(&self, entry: Entry<'_>) -> Result<(), Reason> {
        let is_by_benefit = self.evaluator().is_dax_by_benefit(entry.index());
        if is_by_benefit {
            self.evaluator().order(self.now_ns(), &entry, Some(Ordered::Pin(Level::Dax)));
        }
        self.request_promotion(entry)?;
        if self.evaluator().ordered(entry.index()) == Some(Ordered::Never) {
            // While demoted it is served like any other file.
            self.evaluator().order(self.now_ns(), &entry, None);
        }
        Ok(())
    }

    /// Requests the promotion: the file's next sync asks for it.
    pub(crate) fn request_promotion(&self, entry: Entry<'_>) -> Result<(), Reason> {
        if let Some(why) = entry.resident_state().excluded() {
            return Err(why);
        }
        allow(entry);
        entry.counters().set(Counted::PromotionRetryNs, 0);
        entry.resident_state().request_promotion(true);
        Ok(())
    }

    /// Withdraws the request and demotes the file. `true` if there was a request.
    fn cancel_promotion<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>) -> Result<bool, Reason> {
        let was_requested = entry.resident_state().is_promotion_requested();
        entry.resident_state().request_promotion(false);
        self.demote(table, entry.index(), Reason::ByHand).map_err(|_| Reason::SyncFailed)?;
        Ok(was_requested)
    }

    fn drain<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>) -> Result<(), Reason> {
        if entry.level() == Level::Dax {
            // A later sync promotes it again.
            return self.demote(table, entry.index(), Reason::ByHand).map_err(|_| Reason::SyncFailed);
        }
        let absorbed = self.absorbed(entry.index()).ok_or(entry.level_state().why)?;
        absorbed.retire(entry, self.partition().window()).map_err(|_| Reason::SyncFailed)
    }

    /// Loads a file's log or its resident place into the device's cache.
    fn prefetch(&self, entry: Entry<'_>) -> Result<(), Reason> {
        let resident = self.promoted_files().of(entry.index()).map(|promoted| promoted.place());
        let place = resident.or_else(|| self.absorbed(entry.index()).map(|absorbed| absorbed.ring()));
        let place = place.ok_or(entry.level_state().why)?;
        load_range(self.partition(), place.at, place.len_bytes).map_err(|_| Reason::NoRoom)
    }

    fn keep_out<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>) -> Result<(), Reason> {
        self.cancel_promotion(table, entry)?;
        // Keep an earlier reason: it outlives the order.
        if !entry.level_state().is_barred {
            entry.bar(Reason::ByHand);
        }
        self.evaluator().order(self.now_ns(), &entry, Some(Ordered::Never));
        let Some(absorbed) = self.absorbed(entry.index()) else { return Ok(()) };
        self.release(table, &absorbed, entry, Reason::ByHand).map_err(|_| Reason::SyncFailed)
    }

    fn pin<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>) -> Result<(), Reason> {
        self.cancel_promotion(table, entry)?;
        allow(entry);
        self.evaluator().order(self.now_ns(), &entry, Some(Ordered::Pin(Level::Absorb)));
        if self.absorbed(entry.index()).is_some() { Ok(()) } else { Err(entry.level_state().why) }
    }

    fn unpin<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>) -> Result<(), Reason> {
        let was_requested = self.cancel_promotion(table, entry)?;
        let is_pinned = matches!(self.evaluator().ordered(entry.index()), Some(Ordered::Pin(_)));
        let was_ordered = was_requested | allow(entry) | is_pinned;
        self.evaluator().order(self.now_ns(), &entry, None);
        if was_ordered || self.absorbed(entry.index()).is_some() {
            Ok(())
        } else {
            Err(entry.level_state().why)
        }
    }
}

/// Ends an eviction. `true` if the file was evicted.
fn allow(entry: Entry<'_>) -> bool {
    let level_state = entry.level_state();
    let was_evicted = level_state.is_barred && level_state.why == Reason::ByHand;
    if was_evicted {
        entry.unbar();
    }
    was_evicted
}
