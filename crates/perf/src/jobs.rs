//! Job files in fio's form: sections of `option=value` lines, `[global]` for all that follow it, jobs that run beside each other or,
//! by `stonewall`, after those before.
//!
//! An option is one of `byway perf`, by its name or by fio's, and is read by the same parser. Options of fio that cannot change what is
//! measured here are taken and reported; any other is refused, with its line.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use byway_console::failure::first_paragraph;
use byway_console::files;
use clap::{Arg, ArgAction, Args, Command, FromArgMatches};

use super::settings::{Load, Settings};

/// The jobs of a file.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// In their order.
    pub jobs: Vec<Job>,
    /// What was taken without an effect, a sentence each.
    pub notes: Vec<String>,
}

/// One job.
#[derive(Clone, Debug)]
pub struct Job {
    /// The name of its section.
    pub name: String,
    /// Its device, where the file names one.
    pub filename: Option<String>,
    /// Whether it begins when the jobs before it have ended.
    pub is_after: bool,
    /// Its load.
    pub settings: Settings,
}

/// A line that is an option.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line<'a> {
    number: usize,
    /// Whether it is of a `[global]` section, and so not of one job.
    is_global: bool,
    key: &'a str,
    value: Option<&'a str>,
}

/// A section, with its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Section<'a> {
    name: &'a str,
    lines: Vec<Line<'a>>,
}

/// Options of fio without a meaning here, and why they may be left out.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("ioengine", "the device's URI chooses the backend (backend=)"),
    ("group_reporting", "all threads are reported in sum, and each"),
    ("thread", "every job is of threads"),
    ("norandommap", "places are drawn with replacement"),
    ("randrepeat", "the same seed makes the same load"),
    ("random_generator", "there is one generator"),
    ("create_on_open", "no file is made"),
    ("create_serialize", "no file is made"),
    ("create_fsync", "no file is made"),
    ("fallocate", "no file is made"),
    ("file_service_type", "a job has one device"),
    ("percentile_list", "percentiles are those of --json"),
    ("lat_percentiles", "percentiles are those of --json"),
    ("clat_percentiles", "percentiles are those of --json"),
    ("slat_percentiles", "percentiles are those of --json"),
    ("disable_clat", "one latency is taken, from submission to completion"),
    ("disable_slat", "one latency is taken, from submission to completion"),
    ("per_job_logs", "every thread has logs of its own"),
    ("description", "it says nothing to the load"),
    ("new_group", "each job is reported"),
];

impl JobFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, or a line that is not understood, by its number.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = files::read_settings(path)?;
        let text = String::from_utf8(bytes).map_err(|_| anyhow!("{} is no text", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// A line that is not understood, by its number.
    pub fn parse(text: &str) -> Result<Self> {
        let (mut jobs, mut notes, mut global) = (Vec::new(), Vec::new(), Vec::new());
        for section in sections(text)? {
            if section.name == "global" {
                global.extend(section.lines);
                continue;
            }
            let lines = [global.as_slice(), &section.lines].concat();
            jobs.push(Draft::of(&lines, &mut notes)?.job(section.name, &mut notes)?);
        }
        ensure!(!jobs.is_empty(), "there is no job: expected is a section such as [readers]");
        Ok(Self { jobs, notes })
    }
}

fn sections(text: &str) -> Result<Vec<Section<'_>>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').with_context(|| format!("line {number}: a ] is missing"))?;
            sections.push(Section { name, lines: Vec::new() });
            continue;
        }
        let (key, value) =
            line.split_once('=').map_or((line, None), |(key, value)| (key, Some(value.trim())));
        let section = sections.last_mut();
        let section =
            section.with_context(|| format!("line {number}: it stands before the first section"))?;
        section.lines.push(Line { number, is_global: section.name == "global", key: key.trim(), value });
    }
    Ok(sections)
}

/// A job while its lines are read.
#[derive(Debug, Default)]
struct Draft {
    name: Option<String>,
    filename: Option<String>,
    is_after: bool,
    is_time_based: bool,
    /// The last one of each name counts.
    options: Vec<JobOption>,
}

/// An option of the parser.
#[derive(Debug)]
struct JobOption {
    name: String,
    /// The argument that says it, `None` for a switch that is off.
    argument: Option<String>,
    line: usize,
    is_global: bool,
}

impl Draft {
    fn of(lines: &[Line<'_>], notes: &mut Vec<String>) -> Result<Self> {
        let (mut draft, parser) = (Self::default(), parser());
        for line in lines {
            let taken = draft.take(line, &parser, notes);
            taken.with_context(|| format!("line {}", line.number))?;
        }
        Ok(draft)
    }

    fn take(&mut self, line: &Line<'_>, parser: &Command, notes: &mut Vec<String>) -> Result<()> {
        let value = || {
            line.value
                .filter(|value| !value.is_empty())
                .with_context(|| format!("{} needs a value", line.key))
        };
        match line.key {
            "name" => self.name = Some(value()?.to_owned()),
            // fio separates files by colons, and has those of a name escaped.
            "filename" => self.filename = Some(value()?.replace("\\:", ":")),
            "stonewall" | "wait_for_previous" => self.is_after = switch(line)?,
            "time_based" => self.is_time_based = switch(line)?,
            key => {
                if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(name, _)| *name == key) {
                    let note = format!("line {}: {key} has no effect here: {why}", line.number);
                    if !notes.contains(&note) {
                        notes.push(note);
                    }
                    return Ok(());
                }
                let (name, argument) = argument(line, parser)?;
                self.options.retain(|other| other.name != name);
                self.options.push(JobOption { name, argument, line: line.number, is_global: line.is_global });
            }
        }
        Ok(())
    }

    /// The job, once all its lines are read. As in fio, it covers its range once, unless `time_based` or a count says otherwise, and a log
    /// without `log_avg_msec` has every command.
    fn job(mut self, section: &str, notes: &mut Vec<String>) -> Result<Job> {
        let name = self.name.take().unwrap_or_else(|| section.to_owned());
        let mut settings = self.settings(&name, notes)?;
        ensure!(settings.depth.len() < 2, "job {name}: a job has one depth, and not {:?}", settings.depth);
        ensure!(!self.is_time_based || settings.time.is_some(), "job {name}: time_based needs a runtime");
        settings.once = !self.is_time_based;
        settings.direct_where_possible = true;
        if settings.log.is_on() && settings.log.log_avg_ms.is_none() {
            settings.log.log_avg_ms = Some(0);
        }
        settings.log.name_unnamed(&name);
        Ok(Job { name, filename: self.filename, is_after: self.is_after, settings })
    }

    /// The load of all options. One that is said for all jobs and means nothing to this one's load is left out, as by fio.
    fn settings(&mut self, job: &str, notes: &mut Vec<String>) -> Result<Settings> {
        loop {
            let arguments = self.options.iter().filter_map(|option| option.argument.clone());
            let matches = parser().try_get_matches_from(["job".to_owned()].into_iter().chain(arguments));
            let settings = matches.and_then(|matches| Settings::from_arg_matches(&matches));
            let settings = settings.map_err(|error| anyhow!("job {job}: {}", said(&error)))?;
            let unread = settings.option_without_meaning();
            let Some(at) = unread.and_then(|name| self.options.iter().position(|of| of.name == name)) else {
                return Ok(settings);
            };
            let JobOption { name, line, is_global, .. } = self.options.remove(at);
            let why = format!(
                "line {line}: {name} means nothing to job {job}, a load of {}",
                settings.load().name()
            );
            ensure!(is_global, why);
            notes.push(why);
        }
    }
}

/// The parser of options, which is that of the command line.
fn parser() -> Command {
    Settings::augment_args(Command::new("job").no_binary_name(false).disable_help_flag(true))
}

/// The argument that an option is for the parser, with the option's own name.
fn argument(line: &Line<'_>, parser: &Command) -> Result<(String, Option<String>)> {
    let Line { key, value, .. } = *line;
    let hyphenated = key.replace('_', "-");
    let is_named = |arg: &&Arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(hyphenated.as_str()) || aliases.contains(&key)
    };
    let Some(arg) = parser.get_arguments().find(is_named) else {
        bail!("{key} is no option of a load here: `byway perf --help` lists those there are")
    };
    let name = arg.get_long().unwrap_or_default().to_owned();
    let argument = match (arg.get_action(), value) {
        (ArgAction::SetTrue, _) => is_on(line)?.then(|| format!("--{name}")),
        (_, Some(value)) => Some(format!("--{name}={}", in_our_words(&name, value)?)),
        (_, None) if name.starts_with("write-") => Some(format!("--{name}={UNNAMED}")),
        (_, None) => Some(format!("--{name}")),
    };
    if let Some(argument) = &argument {
        let read = parser.clone().try_get_matches_from(["job", argument]);
        read.map_err(|error| anyhow!("{}", said(&error)))?;
    }
    Ok((name, argument))
}

/// A log's prefix where the file has none: it is the job's name then.
pub(crate) const UNNAMED: &str = "";

/// A value that fio and we write differently.
fn in_our_words<'a>(name: &str, value: &'a str) -> Result<&'a str> {
    match (name, value) {
        ("rw", "trim") => {
            bail!("fio's trim goes from one block to the next, and ours goes anywhere: say randtrim")
        }
        ("rw", "rw" | "readwrite") => bail!("a mixed load goes anywhere here: say randrw"),
        ("rw", "randtrim") => Ok(Load::Trim.name()),
        _ => Ok(value),
    }
}

/// Whether a switch is on. fio's `verify` names a method, of which we have one.
fn is_on(line: &Line<'_>) -> Result<bool> {
    match line.value {
        Some(method) if line.key == "verify" => Ok(method != "0"),
        _ => switch(line),
    }
}

fn switch(line: &Line<'_>) -> Result<bool> {
    match line.value {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(other) => bail!("{} of {other:?} is neither 0 nor 1", line.key),
    }
}

fn said(error: &clap::Error) -> String {
    first_paragraph(&error.render().to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::time::Duration;

    const TEXT: &str = "\
; Two jobs beside each other, and one after them.
[global]
ioengine=libaio
bs=4k
iodepth=16
direct=1
runtime=500ms
time_based
[readers]
rw=randread
numjobs=2
random_distribution=zipf:1.2
[writer]
rw=randwrite
direct=0
filename=embedded\\:disk.img
[after]
stonewall
number_ios=100
# fio's default load is read.
";

    #[test]
    fn sections_inherit_what_global_ones_before_them_say() {
        let file = JobFile::parse(TEXT).unwrap();
        let [readers, writer, after] = &file.jobs[..] else { panic!("{file:?}") };
        let shown = |job: &Job| {
            (
                job.settings.load(),
                job.settings.depth(),
                job.settings.threads,
                job.settings.direct,
                job.is_after,
            )
        };
        assert_eq!(shown(readers), (Load::Randread, Some(16), 2, true, false));
        assert_eq!(shown(writer), (Load::Randwrite, Some(16), 1, false, false));
        assert_eq!(shown(after), (Load::Read, Some(16), 1, true, true));
        assert_eq!(readers.settings.random_distribution.to_string(), "zipf:1.2");
        assert_eq!((readers.settings.time, readers.settings.once), (Some(Duration::from_millis(500)), false));
        assert_eq!(writer.filename.as_deref(), Some("embedded:disk.img"));
        assert_eq!(
            file.notes,
            ["line 3: ioengine has no effect here: the device's URI chooses the backend (backend=)"]
        );
    }

    #[test]
    fn lines_that_are_not_understood_are_refused_by_number_and_name() {
        for (text, line, word) in [
            ("[a]\nrw=randread\nthinktime=5\n", "line 3", "thinktime is no option"),
            ("bs=4k\n", "line 1", "before the first section"),
            ("[a\n", "line 1", "] is missing"),
            ("[a]\nbs=soon\n", "line 2", "soon"),
            ("[a]\n\nrw=trim\n", "line 3", "randtrim"),
            ("[a]\nrw=rw\n", "line 2", "randrw"),
            ("[a]\ndirect=2\n", "line 2", "direct"),
            ("[a]\nbs\n", "line 2", "--bs"),
            ("[a]\nfilename=\n", "line 2", "needs a value"),
            ("[global]\nbs=4k\n", "no job", "[readers]"),
            ("[a]\ntime_based\n", "job a", "needs a runtime"),
            ("[a]\niodepth=1,32\n", "job a", "one depth"),
        ] {
            let error = format!("{:#}", JobFile::parse(text).unwrap_err());
            assert!(error.contains(line) && error.contains(word), "{text:?}: {error}");
        }
    }

    #[test]
    fn global_options_without_a_meaning_to_one_job_are_left_out_of_it() {
        let file = JobFile::parse("[global]\nrwmixread=70\n[a]\nrw=randrw\n[b]\nrw=randread\n").unwrap();
        let mix = |at: usize| file.jobs[at].settings.mix;
        assert_eq!((mix(0), mix(1)), (Some(70), None));
        assert_eq!(file.notes, ["line 2: mix means nothing to job b, a load of randread"]);
        let error = JobFile::parse("[b]\nrw=randread\nrwmixread=70\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3: mix means nothing to job b, a load of randread");
    }

    #[test]
    fn a_log_without_a_name_has_that_of_its_job() {
        let file = JobFile::parse("[a]\nwrite_lat_log\nwrite_bw_log=b\n").unwrap();
        let log = &file.jobs[0].settings.log;
        assert_eq!((log.write_lat_log.as_deref(), log.write_bw_log.as_deref()), (Some("a"), Some("b")));
        assert_eq!((log.log_avg_ms, file.jobs[0].settings.once), (Some(0), true));
    }
}
