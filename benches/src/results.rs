//! Results as files: the machine first, then one JSON object a line.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// What a result was measured on.
#[derive(Debug, Serialize)]
struct Machine {
    cpu: String,
    cpus: usize,
    /// Runnable threads over the last minute, ours included.
    load: f64,
}

impl Machine {
    fn here() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = info.lines().find_map(|line| line.strip_prefix("model name"));
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            cpu: name.map_or("unknown", |name| name.trim_start_matches([' ', '\t', ':'])).to_owned(),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            load: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
        }
    }
}

/// Writes the machine and `rows` to `path`.
///
/// # Errors
/// What the system says.
pub fn keep(path: &Path, rows: &[impl Serialize]) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(&Machine::here())?;
    for row in rows {
        text.push('\n');
        text.push_str(&serde_json::to_string(row)?);
    }
    text.push('\n');
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
