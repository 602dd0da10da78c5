//! Options of a load in a report, and all settings of a run by name.

use byway_perf::{Job, Plan, What};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::data::Run;

/// Other options of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Namespace of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<u32>,
    /// Number of keys; none of a load of blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// Bytes of a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_bytes: Option<u8>,
    /// Whether every key was stored before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<bool>,
    /// First byte of the range; none of a load of keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset_bytes: Option<u64>,
    /// Bytes of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_bytes: Option<u64>,
    /// Commands submitted together, at least.
    pub batch: u32,
    /// How threads waited: `sleep`, `spin`, `event` or `call`.
    pub wait: String,
    /// Which memory held the data: `device`, `prepared` or `brought`.
    pub memory: String,
    /// Buffers of each command.
    pub parts: u32,
    /// Whether the page cache was dropped before.
    pub invalidate: bool,
    /// Whether data was compared.
    pub verify: bool,
    /// Processor of each thread, where threads were pinned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// Time limit of a command, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
}

impl Options {
    /// Of a job as it was planned.
    pub fn of(job: &Job, plan: &Plan) -> Self {
        let options = Self {
            batch: plan.batch,
            wait: name_of(&plan.wait),
            memory: name_of(&plan.memory),
            parts: plan.parts,
            invalidate: plan.invalidate,
            verify: plan.verify,
            cpus: plan.cpus.iter().flat_map(|cpus| (0..plan.threads).map(|n| cpus.of_thread(n))).collect(),
            timeout_seconds: plan.timeout.map(|timeout| timeout.as_secs_f64()),
            ..Self::default()
        };
        match plan.what {
            What::Pairs(pairs) => Self {
                namespace: Some(pairs.nsid.get()),
                keys: Some(pairs.keys),
                key_bytes: Some(pairs.key_bytes),
                // The plan forgets it after the first of several runs.
                fill: Some(job.settings.fill),
                ..options
            },
            What::Blocks(blocks) => Self {
                namespace: Some(blocks.nsid.get()),
                offset_bytes: Some(blocks.offset),
                range_bytes: Some(blocks.pieces * blocks.piece_bytes),
                ..options
            },
        }
    }
}

/// The word of an option's value.
fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// A setting by its name; no value where a load has none of that kind.
pub type Setting = (&'static str, Option<String>);

/// Settings of a run, each once. Durations that were measured are no settings.
pub fn settings(run: &Run) -> Vec<Setting> {
    let Options { namespace, keys, key_bytes, fill, offset_bytes, range_bytes, .. } = &run.options;
    let yes_or_no = |is: bool| Some(if is { "yes" } else { "no" }.to_owned());
    let several = |number: u32| (number > 1).then(|| number.to_string());
    let word = |word: &String| Some(word.clone()).filter(|word| !word.is_empty());
    let cpus: Vec<String> = run.options.cpus.iter().map(usize::to_string).collect();
    vec![
        ("device", Some(run.uri.clone())),
        ("namespace", text(namespace.as_ref())),
        ("backend", Some(run.backend.clone())),
        ("load", Some(run.rw.clone())),
        ("bytes of a command", Some(run.command_bytes.to_string())),
        ("percent of reads", Some(run.reads_percent.to_string())),
        ("distribution", run.random_distribution.clone()),
        ("keys", text(keys.as_ref())),
        ("bytes of a key", text(key_bytes.as_ref())),
        ("fill", fill.and_then(yes_or_no)),
        ("first byte", text(offset_bytes.as_ref())),
        ("bytes of the range", text(range_bytes.as_ref())),
        ("page cache", Some(run.cache.clone())),
        ("page cache dropped before", yes_or_no(run.options.invalidate)),
        ("depth", Some(run.depth.to_string())),
        ("batch", several(run.options.batch)),
        ("threads", Some(run.threads.to_string())),
        ("processors", word(&cpus.join(" "))),
        ("wait", word(&run.options.wait)),
        ("memory", word(&run.options.memory)),
        ("buffers of a command", several(run.options.parts)),
        ("verify", yes_or_no(run.options.verify)),
        ("timeout in seconds", text(run.options.timeout_seconds.as_ref())),
        ("seed", Some(run.seed.to_string())),
        ("warm-up in seconds", Some(run.warmup_seconds.to_string())),
        ("seconds", Some(format!("{:.0}", run.seconds))),
        ("runs", Some(run.repeat.to_string())),
    ]
}

fn text(value: Option<&impl ToString>) -> Option<String> {
    value.map(ToString::to_string)
}
