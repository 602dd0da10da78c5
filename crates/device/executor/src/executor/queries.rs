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
    /// A command that waits may have its answer.
    have_ready: AtomicBool,
}

impl Queries {
    #[inline]
    fn take_ready(&self) -> bool {
        // Most devices have no query: a load, then.
        self.have_ready.load(SeqCst) && self.have_ready.swap(false, SeqCst)
    }
}

impl Core {
    /// Completes commands whose queries and programs have their answers. Whether there may have been some.
    #[inline]
    pub(crate) fn complete_ready(&mut self, executor: &Executor) -> bool {
        let have_ready = executor.queries.take_ready();
        if have_ready && self.complete_external(executor).in_capsules > 0 {
            executor.notify_fabric();
        }
        have_ready
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
        // Commands that wait for queries of an engine before this one have failed.
        self.complete_ready_commands();
        Ok(pool)
    }

    /// Has the holder of the run lock complete commands whose queries and programs have their answers.
    pub(crate) fn complete_ready_commands(&self) {
        self.note_ready_commands();
        self.core.run_or_set_pending(|| {}, |core, _| core.run_now(self));
        self.notify_front();
    }

    /// The holder of the run lock is to look for answers before it releases the lock.
    pub(crate) fn note_ready_commands(&self) {
        self.queries.have_ready.store(true, SeqCst);
    }
}
