//! Which stage of a put an instruction belongs to.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use crate::callgrind::{Frame, Profile};

/// The stages of a put, in the order it goes through them. `other` is the loop around the calls.
pub const STAGES: [&str; 7] = ["encode", "ring", "fetch", "parse", "engine", "complete", "other"];

const OTHER: usize = 6;

/// Part of a source path, part of a function name, and the stage of what stands there. The first that fits decides.
/// Files of `wire` and `sys` serve every stage: its instructions belong to the caller's stage.
const RULES: &[(&str, &str, &str)] = &[
    ("crates/byway/", "", "encode"),
    ("host/core/", "", "encode"),
    ("driver/src/queue_pair/transfer/", "", "encode"),
    ("driver/src/queue_pair/progress.rs", "", "complete"),
    ("driver/src/rings.rs", "take", "complete"),
    ("driver/src/rings.rs", "read_entry", "complete"),
    ("driver/src/rings.rs", "load_phase_word", "complete"),
    ("driver/src/rings.rs", "", "ring"),
    ("driver/src/table.rs", "complete", "complete"),
    ("driver/src/table.rs", "end", "complete"),
    ("driver/src/table.rs", "take_cid", "ring"),
    ("driver/src/queue_pair/mod.rs", "ring_tail", "ring"),
    ("driver/src/queue_pair/mod.rs", "ring_head", "complete"),
    ("driver/src/queue_pair/mod.rs", "place", "ring"),
    ("driver/src/queue_pair/mod.rs", "room", "ring"),
    ("driver/src/queue_pair/calls.rs", "finish", "complete"),
    ("host/driver/", "", "encode"),
    ("device/executor/src/interrupts.rs", "", "complete"),
    ("device/executor/src/", "ring_head", "complete"),
    ("device/executor/", "", "ring"),
    ("serve/local/", "", "ring"),
    ("controller/src/completion.rs", "", "complete"),
    ("controller/src/controller/finish.rs", "", "complete"),
    ("controller/src/controller/run.rs", "finish_run", "complete"),
    ("controller/src/controller/admin.rs", "report_events", "complete"),
    ("controller/src/controller/run.rs", "", "fetch"),
    ("controller/src/controller/doorbells.rs", "", "fetch"),
    ("controller/src/controller/mod.rs", "", "fetch"),
    ("controller/src/queue/mod.rs", "post", "complete"),
    ("controller/src/queue/mod.rs", "entry", "complete"),
    ("controller/src/queue/mod.rs", "note_reported_head", "complete"),
    ("controller/src/queue/", "", "fetch"),
    ("controller/src/transfer/inline.rs", "", "fetch"),
    ("controller/src/port.rs", "", ""),
    ("device/controller/", "", "parse"),
    ("device/kv/", "", "engine"),
    ("device/flash/", "", "engine"),
    ("benches/", "", "other"),
];

/// Instructions of one call by stage.
#[derive(Debug)]
pub struct Budget {
    /// Name of the measured case.
    pub case: String,
    /// As [`STAGES`].
    pub stages: [f64; STAGES.len()],
}

impl Budget {
    /// Instructions of the call.
    pub fn total(&self) -> f64 {
        self.stages.iter().sum()
    }

    /// As one row of results.
    pub fn row(&self) -> BTreeMap<&str, serde_json::Value> {
        let numbers = STAGES.iter().zip(&self.stages).map(|(stage, instructions)| (*stage, *instructions));
        let numbers = numbers.chain([("total", self.total())]);
        let rounded = numbers.map(|(stage, instructions)| (stage, serde_json::json!(instructions.round())));
        rounded.chain([("case", serde_json::json!(self.case))]).collect()
    }
}

/// The budget of a call that was made `calls` times.
pub fn budget(case: &str, profile: &Profile, calls: u32) -> Budget {
    let mut shares = Shares { profile, of: HashMap::new() };
    let mut stages = [0.0; STAGES.len()];
    for (address, (instructions, function)) in &profile.own {
        let share = shares.of_address(*address, function);
        add(&mut stages, &share, *instructions as f64 / f64::from(calls));
    }
    for (function, instructions) in &profile.foreign {
        let share = shares.of_function(function, 0);
        add(&mut stages, &share, *instructions as f64 / f64::from(calls));
    }
    Budget { case: case.to_owned(), stages }
}

/// Instructions of one call by the innermost line of Byway that they stand for, dearest first.
pub fn lines(profile: &Profile, calls: u32) -> String {
    let mut by_line: BTreeMap<String, u64> = BTreeMap::new();
    for (address, (instructions, function)) in &profile.own {
        let place = profile.chain(*address).iter().find(|frame| is_ours(frame));
        let line = place
            .map_or_else(|| function.clone(), |frame| format!("{} {}", short(&frame.place), frame.function));
        *by_line.entry(line).or_default() += instructions;
    }
    for (function, instructions) in &profile.foreign {
        *by_line.entry(function.clone()).or_default() += instructions;
    }
    let mut sorted: Vec<_> = by_line.into_iter().collect();
    sorted.sort_by_key(|(_, instructions)| std::cmp::Reverse(*instructions));
    let mut text = String::new();
    for (line, instructions) in sorted {
        let _ = writeln!(text, "{:8.1} {line}", instructions as f64 / f64::from(calls));
    }
    text
}

type Share = [f64; STAGES.len()];

/// How the instructions of a function that serves several stages are shared out: as its callers spend them.
struct Shares<'a> {
    profile: &'a Profile,
    of: HashMap<String, Share>,
}

impl Shares<'_> {
    fn of_address(&mut self, address: u64, function: &str) -> Share {
        match stage_of(self.profile.chain(address)) {
            Some(stage) => one(stage),
            None => self.of_function(function, 0),
        }
    }

    fn of_function(&mut self, function: &str, depth: u32) -> Share {
        if let Some(share) = self.of.get(function) {
            return *share;
        }
        let profile = self.profile;
        let sites = profile.callers.get(function).map_or(&[][..], Vec::as_slice);
        let total: u64 = sites.iter().map(|site| site.inclusive).sum();
        if total == 0 || depth > 16 {
            return one(OTHER);
        }
        let mut share = [0.0; STAGES.len()];
        for site in sites {
            let stage = site.address.and_then(|address| stage_of(profile.chain(address)));
            let of_site = stage.map_or_else(|| self.of_function(&site.caller, depth + 1), one);
            add(&mut share, &of_site, site.inclusive as f64 / total as f64);
        }
        self.of.insert(function.to_owned(), share);
        share
    }
}

fn add(into: &mut Share, share: &Share, times: f64) {
    into.iter_mut().zip(share).for_each(|(into, part)| *into += part * times);
}

fn one(stage: usize) -> Share {
    let mut share = [0.0; STAGES.len()];
    share[stage] = 1.0;
    share
}

/// The stage of the innermost function that has one.
fn stage_of(chain: &[Frame]) -> Option<usize> {
    chain.iter().find_map(|frame| {
        let name = frame.function.rsplit("::").next().unwrap_or_default();
        let (.., stage) =
            RULES.iter().find(|(path, function, _)| frame.place.contains(path) && name.contains(function))?;
        STAGES.iter().position(|known| known == stage)
    })
}

fn is_ours(frame: &Frame) -> bool {
    frame.place.contains("/crates/")
        && !frame.place.contains("/registry/")
        && !frame.place.contains("/rustc/")
}

fn short(place: &str) -> &str {
    let place = place.split(" (disc").next().unwrap_or(place);
    place.rsplit_once("/crates/").map_or(place, |(_, path)| path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;

    fn sources(folder: &Path, into: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                into.push((path.to_str().unwrap().to_owned(), text));
            }
        }
    }

    /// Whether a function has `part` in its name.
    fn defines(text: &str, part: &str) -> bool {
        let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
        part.is_empty() || names.into_iter().any(|name| name.contains(part))
    }

    #[test]
    fn rules_name_files_and_functions_of_the_tree() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut all = Vec::new();
        sources(&root.join("crates"), &mut all);
        sources(&root.join("benches"), &mut all);
        for (path, function, _) in RULES {
            let is_there = all.iter().any(|(name, text)| name.contains(path) && defines(text, function));
            assert!(is_there, "{path} {function}");
        }
    }
}
