//! SQL from a host, and Parquet objects that hosts have stored.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use byway_compute::{Cancellation, Format, Limits, Object, Query};

/// A small object with a column of most types.
const OBJECT: &[u8] = include_bytes!("object.parquet");

/// Queries that read, filter, group and sort all kinds of columns of an object like [`OBJECT`].
const QUERIES: [&str; 5] = [
    "SELECT * FROM o",
    "SELECT count(*) FROM o",
    "SELECT name, sum(price * (1 - price)), avg(weight), max(since) FROM o WHERE id BETWEEN 2 AND 5 AND weight < 9 GROUP BY name",
    "SELECT name, sum(price), avg(weight) FROM o WHERE id > 1 AND sold IS NOT NULL GROUP BY name ORDER BY 2 DESC",
    "SELECT id, since FROM o WHERE name LIKE '%o%' OR weight BETWEEN 0 AND 2 ORDER BY since LIMIT 3",
];

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.memory_bytes = 16 << 20;
    limits.result_bytes = 1 << 20;
    limits.time = Duration::from_secs(5);
    limits
}

/// Runs `work`, and panics only if code of the query engine did: what the Parquet library asserts of damaged files is caught there, but
/// libFuzzer's hook would end the process before.
fn tolerating_the_library(work: impl FnOnce()) {
    static HOOKS: Mutex<()> = Mutex::new(());
    static IS_OURS: AtomicBool = AtomicBool::new(false);
    let _one_at_a_time = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|panic| {
        let is_ours = panic.location().is_some_and(|at| at.file().contains("device/compute"));
        IS_OURS.fetch_or(is_ours, Ordering::Relaxed);
    }));
    work();
    panic::set_hook(hook);
    assert!(!IS_OURS.swap(false, Ordering::Relaxed), "the query engine panicked");
}

/// Any text as a query of a sound object.
pub fn sql(bytes: &[u8]) {
    let Ok(query) = Query::parse(&String::from_utf8_lossy(bytes), &limits()) else { return };
    let object: Arc<dyn Object> = Arc::new(Bytes::from_static(OBJECT));
    let _ = query.explain(&object, &limits());
    let _ = query.run(&object, Format::JsonLines, &limits(), &Cancellation::default());
}

/// Any bytes as an object of queries.
pub fn parquet(bytes: &[u8]) {
    let object: Arc<dyn Object> = Arc::new(Bytes::copy_from_slice(bytes));
    for sql in QUERIES {
        let Ok(query) = Query::parse(sql, &limits()) else { return };
        tolerating_the_library(|| {
            let _ = query.explain(&object, &limits());
            let _ = query.run(&object, Format::Csv { header: true }, &limits(), &Cancellation::default());
        });
    }
}
