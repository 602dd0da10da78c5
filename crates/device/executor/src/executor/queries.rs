//! Answers to commands that wait for queries or programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::Executor;
use crate::core::Core;
use crate::options::Failed;
use crate::queries::{PoolEngine, QueryOptions, QueryPool, QueryRunner};

/// What threads know of queries without the run lock.
#[derive(Debug, Default)]
pub(super) struct Queries {
    /// A query got on since the last look.
    have_advanced: AtomicBool,
}

impl Queries {
    #[inline]
    fn take_advanced(&self) -> bool {
        // Most devices have no query: a load, then.
        self.have_advanced.load(SeqCst) && self.have_advanced.swap(false, SeqCst)
    }
}

impl Core {
    /// Completes commands that wait for queries which got on. Whether there were such queries.
    #[inline]
    pub(crate) fn answer_queries(&mut self, executor: &Executor) -> bool {
        let have_advanced = executor.queries.take_advanced();
        if have_advanced && self.complete_external(executor).in_capsules > 0 {
            executor.notify_fabric();
        }
        have_advanced
    }
}

impl Executor {
    /// Gives the device threads that execute queries. They keep no handle of the device.
    ///
    /// # Errors
    /// The device has failed.
    pub(crate) fn execute_queries(
        self: &Arc<Self>,
        runner: Box<dyn QueryRunner>,
        options: QueryOptions,
    ) -> Result<Arc<QueryPool>, Failed> {
        let pool = Arc::new(QueryPool::new(self, runner, options));
        let engine = Box::new(PoolEngine(Arc::clone(&pool)));
        self.with_core(|core| core.subsystem.set_query_engine(engine))?;
        Ok(pool)
    }

    /// A query got on, or a program ended: has the holder of the run lock answer the command that waits for it.
    pub(crate) fn complete_answered(&self) {
        self.note_queries_advanced();
        self.core.run_or_set_pending(|| {}, |core, _| core.run_now(self));
        self.notify_front();
    }

    /// The holder of the run lock is to look for answers before it releases the lock.
    pub(crate) fn note_queries_advanced(&self) {
        self.queries.have_advanced.store(true, SeqCst);
    }
}
