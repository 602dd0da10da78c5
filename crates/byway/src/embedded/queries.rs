//! Queries of an embedded device: SQL over Parquet objects, where the build has it.

use byway_core::Result;
use byway_local::Embedded;

use crate::uri::Options;

/// Has a device execute queries as its URI says.
///
/// # Errors
/// A device that has failed; threads asked for by a build without queries.
#[cfg(feature = "compute")]
pub(crate) fn start(device: &Embedded, options: &Options) -> Result<()> {
    use byway_core::{Error, ErrorKind};
    let threads = options.compute_threads.map_or_else(usual_threads, usize::from);
    let Some(threads) = std::num::NonZero::new(threads) else { return Ok(()) };
    let runner = Box::new(sql::SqlRunner::new(threads));
    device
        .execute_queries(runner, byway_local::QueryOptions::default())
        .map_err(|failed| Error::device(ErrorKind::DeviceLost, failed.to_string()))
}

/// As many threads as there are processors, and not more than a query has use for.
#[cfg(feature = "compute")]
fn usual_threads() -> usize {
    const THREADS_MAX: usize = 4;
    std::thread::available_parallelism().map_or(1, |processors| processors.get().min(THREADS_MAX))
}

#[cfg(not(feature = "compute"))]
pub(crate) fn start(_: &Embedded, options: &Options) -> Result<()> {
    use byway_core::{Error, ErrorKind};
    match options.compute_threads {
        None | Some(0) => Ok(()),
        Some(_) => Err(Error::host(ErrorKind::Unsupported, "this build has no queries (feature `compute`)")),
    }
}

#[cfg(feature = "compute")]
mod sql {
    use std::num::NonZero;
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;
    use byway_compute::{
        Cancellation, Format, Limits, NoResult, Object, ObjectError, Query, QueryError, RecentQueries,
    };
    use byway_local::{
        AtOnce, ObjectRead, ObjectReadError, QueryFailure, QueryRunner, QueryTask, ShortQuery,
    };
    use byway_spec::Status;
    use byway_spec::vendor::QueryFormat;

    /// Memory of one query in bytes, but for a copy of the value that it reads.
    const MEMORY_BYTES: usize = 128 << 20;

    /// Longest time of one query. Linux and this library's driver give a command up after 30 s.
    const TIME: Duration = Duration::from_secs(20);

    /// Executes SQL.
    #[derive(Debug)]
    pub(super) struct SqlRunner {
        limits: Limits,
        recent: RecentQueries,
    }

    impl SqlRunner {
        pub(super) fn new(threads: NonZero<usize>) -> Self {
            let mut limits = Limits::default();
            (limits.threads, limits.memory_bytes, limits.time) = (threads, MEMORY_BYTES, TIME);
            Self { limits, recent: RecentQueries::default() }
        }

        fn execute(&self, task: &QueryTask<'_>) -> Result<(), QueryError> {
            let mut limits = self.limits;
            limits.result_bytes = task.result_max_bytes.unwrap_or(usize::MAX);
            let query = Query::parse(task.text, &limits)?;
            let object: Arc<dyn Object> = Arc::new(DeviceObject(Arc::clone(&task.object)));
            if task.explains {
                return explain(&query, &object, &limits, task);
            }
            let cancellation = Cancellation::from(Arc::clone(task.cancelled));
            let format = format_of(task.format, task.has_header);
            query.run_into(&object, format, &limits, &cancellation, &mut |bytes| task.result.put(bytes))?;
            self.keep(task, &query);
            Ok(())
        }

        /// Keeps a query of a small object ready.
        fn keep(&self, task: &QueryTask<'_>, query: &Query) {
            if !task.is_copied {
                return;
            }
            let mut object = vec![0; task.object.len_bytes() as usize];
            if task.object.read(0, &mut object).is_ok() {
                self.recent.keep(task.text, query, &object.into());
            }
        }
    }

    impl QueryRunner for SqlRunner {
        fn text_max_bytes(&self) -> u32 {
            u32::try_from(self.limits.text_bytes).unwrap_or(u32::MAX)
        }

        fn run_at_once(&self, query: ShortQuery<'_>, value: &mut Vec<u8>) -> AtOnce {
            let object = Bytes::from(std::mem::take(value));
            let format = format_of(query.format, query.has_header);
            let no_result = match self.recent.run(query.text, &object, format) {
                Ok(result) => return AtOnce::Done(result),
                Err(no_result) => no_result,
            };
            *value = object.into();
            match no_result {
                NoResult::NotCached => AtOnce::NotCached,
                NoResult::Aborted => AtOnce::Aborted,
            }
        }

        fn run(&self, task: &QueryTask<'_>) -> Result<(), QueryFailure> {
            self.execute(task)
                .map_err(|error| QueryFailure { status: status_of(&error), text: error.to_string() })
        }
    }

    fn explain(
        query: &Query,
        object: &Arc<dyn Object>,
        limits: &Limits,
        task: &QueryTask<'_>,
    ) -> Result<(), QueryError> {
        let explanation = query.explain(object, limits)?;
        let text = match task.format {
            QueryFormat::JSON_LINES => explanation.to_json(),
            _ => explanation.to_string(),
        };
        if task.result.put(text.as_bytes()) { Ok(()) } else { Err(QueryError::Cancelled) }
    }

    fn format_of(format: QueryFormat, has_header: bool) -> Format {
        match format {
            QueryFormat::JSON_LINES => Format::JsonLines,
            QueryFormat::ARROW_STREAM => Format::ArrowStream,
            _ => Format::Csv { header: has_header },
        }
    }

    fn status_of(error: &QueryError) -> Status {
        match error {
            QueryError::Refused(_) => Status::QUERY_REFUSED,
            QueryError::Object(ObjectError::Changed) => Status::QUERY_OBJECT_CHANGED,
            QueryError::Over(_) => Status::QUERY_LIMIT_EXCEEDED,
            QueryError::Cancelled => Status::ABORT_REQUESTED,
            _ => Status::QUERY_FAILED,
        }
    }

    /// An object of the device, as the query engine reads it.
    #[derive(Debug)]
    struct DeviceObject(Arc<dyn ObjectRead>);

    impl Object for DeviceObject {
        fn len_bytes(&self) -> u64 {
            self.0.len_bytes()
        }

        fn read(&self, start: u64, len_bytes: usize) -> Result<Bytes, ObjectError> {
            let mut bytes = vec![0; len_bytes];
            self.0.read(start, &mut bytes).map_err(|error| match error {
                ObjectReadError::Changed => ObjectError::Changed,
                unreadable => ObjectError::Unreadable(unreadable.to_string()),
            })?;
            Ok(bytes.into())
        }
    }
}
