//! Names of the lines of several reports: by what each ran, or by its folder where all ran the same.

use super::Named;
use super::data::Run;
use super::side::SideOfRun;

/// What distinguishes a report's lines from those of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// The only report.
    Alone,
    /// What it ran, such as `get` or `randread, depth 8`.
    Load(String),
    /// The report's name.
    Report(String),
}

impl Label {
    /// The label of each report.
    pub fn all(of: &[Named]) -> Vec<Self> {
        if of.len() < 2 {
            return of.iter().map(|_| Self::Alone).collect();
        }
        match loads(of) {
            Some(loads) => loads.into_iter().map(Self::Load).collect(),
            None => of.iter().map(|named| Self::Report(named.name.clone())).collect(),
        }
    }

    /// The words of the label.
    pub fn words(&self) -> &str {
        match self {
            Self::Alone => "",
            Self::Load(words) | Self::Report(words) => words,
        }
    }

    /// The name of a line. A load of one direction needs no word for it.
    pub fn of_line(&self, run: &Run, side: &SideOfRun) -> String {
        let is_said = matches!(self, Self::Load(_)) && run.sides.len() == 1;
        let words = [self.words(), run.job.as_str(), if is_said { "" } else { side.side.as_str() }];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// What each report ran, where that is not enough with the sizes in which they differ; `None` if that leaves two alike, or for job files.
fn loads(of: &[Named]) -> Option<Vec<String>> {
    let runs: Option<Vec<&Run>> = of.iter().map(load).collect();
    let runs = runs?;
    let kinds: Vec<String> = runs.iter().map(|run| run.rw.clone()).collect();
    if are_unique(&kinds) {
        return Some(kinds);
    }
    let differs = |part: fn(&Run) -> u64| {
        runs.iter().zip(runs.iter().skip(1)).any(|(one, next)| part(one) != part(next))
    };
    let bytes = differs(|run| run.command_bytes);
    let depth = differs(|run| run.depth.into()) && !of.iter().any(Named::is_by_depth);
    let threads = differs(|run| run.threads.into());
    let words = |run: &&Run| {
        let parts = [
            Some(run.rw.clone()),
            bytes.then(|| byway_console::size::human(run.command_bytes)),
            depth.then(|| format!("depth {}", run.depth)),
            threads.then(|| byway_console::size::counted(run.threads.into(), "thread")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let words: Vec<String> = runs.iter().map(words).collect();
    are_unique(&words).then_some(words)
}

fn are_unique(words: &[String]) -> bool {
    words.iter().enumerate().all(|(place, one)| words.iter().skip(place + 1).all(|other| other != one))
}

/// The load of a report that has one, at one depth or several.
fn load(of: &Named) -> Option<&Run> {
    let runs = &of.measurement.runs;
    let is_one = |run: &&Run| runs.len() == 1 && run.job.is_empty();
    runs.first().filter(|run| is_one(run) || of.is_by_depth())
}
