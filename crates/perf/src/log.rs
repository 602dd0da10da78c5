//! Logs of latency, bandwidth and rate, in the format of fio's (HOWTO, section "Log File Formats"): lines of
//! `time in ms, value, direction, block size[, offset], priority`. Memory is bounded: entries go to a thread that writes them, by
//! a channel of bounded length.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use byway_console::files;
use clap::Args;

use super::headings::OUTPUT;
use super::samples::{Interval, SideInterval};

/// Entries that are sent to the writer together.
const CHUNK: usize = 4096;
/// Chunks that wait for the writer; a thread of the load waits when there are more.
const CHUNKS_MAX: usize = 16;
/// Interval of averages where nothing else is asked for: fio's `bwavgtime`.
const INTERVAL: Duration = Duration::from_millis(500);

/// Arguments of logs.
#[derive(Clone, Debug, Default, Args)]
pub struct LogSettings {
    /// Write logs in fio's format of each thread N: PREFIX_lat.N.log (nanoseconds), PREFIX_bw.N.log (KiB a second) and
    /// PREFIX_iops.N.log. Averages of intervals, unless --log-avg-ms is 0. As in fio, files of these names are replaced.
    #[arg(help_heading = OUTPUT, long, value_name = "PREFIX")]
    pub log: Option<String>,
    /// Write PREFIX_lat.N.log alone.
    #[arg(help_heading = OUTPUT, long, value_name = "PREFIX", visible_alias = "write_lat_log")]
    pub write_lat_log: Option<String>,
    /// Write PREFIX_bw.N.log alone.
    #[arg(help_heading = OUTPUT, long, value_name = "PREFIX", visible_alias = "write_bw_log")]
    pub write_bw_log: Option<String>,
    /// Write PREFIX_iops.N.log alone.
    #[arg(help_heading = OUTPUT, long, value_name = "PREFIX", visible_alias = "write_iops_log")]
    pub write_iops_log: Option<String>,
    /// Milliseconds that an entry of a log is the average of [default: 500]; 0 has the latency of every command logged, and rates
    /// every 500 ms.
    #[arg(help_heading = OUTPUT, long, value_name = "MILLISECONDS", visible_alias = "log_avg_msec", value_parser = clap::value_parser!(u64).range(0..=86_400_000))]
    pub log_avg_ms: Option<u64>,
    /// Add a column with the byte of each command, or the number of its key; 0 for averages.
    #[arg(help_heading = OUTPUT, long, visible_alias = "log_offset")]
    pub log_offset: bool,
}

impl LogSettings {
    /// Whether anything is logged.
    pub fn is_on(&self) -> bool {
        Kind::ALL.into_iter().any(|kind| self.prefix(kind).is_some())
    }

    /// Length of an interval.
    pub fn interval(&self) -> Duration {
        self.log_avg_ms.filter(|ms| *ms > 0).map_or(INTERVAL, Duration::from_millis)
    }

    /// Gives logs whose prefix is empty one.
    pub(crate) fn name_unnamed(&mut self, name: &str) {
        let prefixes = [&mut self.write_lat_log, &mut self.write_bw_log, &mut self.write_iops_log];
        prefixes
            .into_iter()
            .flatten()
            .filter(|prefix| prefix.is_empty())
            .for_each(|prefix| name.clone_into(prefix));
    }

    fn takes_each(&self) -> bool {
        self.log_avg_ms == Some(0)
    }

    fn prefix(&self, kind: Kind) -> Option<&str> {
        let own = match kind {
            Kind::Latency => &self.write_lat_log,
            Kind::Bandwidth => &self.write_bw_log,
            Kind::Rate => &self.write_iops_log,
        };
        own.as_deref().or(self.log.as_deref())
    }
}

/// What the value of an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nanoseconds.
    Latency,
    /// KiB a second.
    Bandwidth,
    /// Commands a second.
    Rate,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Latency, Self::Bandwidth, Self::Rate];

    const fn name(self) -> &'static str {
        match self {
            Self::Latency => "lat",
            Self::Bandwidth => "bw",
            Self::Rate => "iops",
        }
    }
}

/// A line of a log.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub kind: Kind,
    pub time_ms: u64,
    pub value: u64,
    pub is_read: bool,
    pub bytes: u64,
    pub at: u64,
}

/// Lines of one thread, by its place among those of the load.
type Chunk = (usize, Vec<Entry>);

/// The side of a log that a thread of the load has.
#[derive(Debug)]
pub struct ThreadLog {
    thread: usize,
    takes_each: bool,
    entries: Vec<Entry>,
    writer: SyncSender<Chunk>,
}

impl ThreadLog {
    pub const fn takes_each(&self) -> bool {
        self.takes_each
    }

    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
        if self.entries.len() == CHUNK {
            self.send();
        }
    }

    /// The averages of an interval, at its end.
    pub fn push_interval(&mut self, of: &Interval) {
        for (side, is_read) in [(&of.reads, true), (&of.writes, false)] {
            self.push_side(side, is_read, of);
        }
    }

    fn push_side(&mut self, side: &SideInterval, is_read: bool, of: &Interval) {
        if side.ops == 0 {
            return;
        }
        let time_ms = (of.begin_ns + of.width_ns) / 1_000_000;
        let a_second = |number: u64| (number as f64 * 1e9 / of.width_ns.max(1) as f64) as u64;
        let mut push = |kind, value| self.push(Entry { kind, time_ms, value, is_read, bytes: 0, at: 0 });
        push(Kind::Bandwidth, a_second(side.bytes) / 1024);
        push(Kind::Rate, a_second(side.ops));
        if !self.takes_each {
            self.push(Entry {
                kind: Kind::Latency,
                time_ms,
                value: side.sum_ns / side.ops,
                is_read,
                bytes: 0,
                at: 0,
            });
        }
    }

    /// Sends what is kept. A writer that ended says why itself.
    pub fn send(&mut self) {
        let entries = std::mem::replace(&mut self.entries, Vec::with_capacity(CHUNK));
        let _ = self.writer.send((self.thread, entries));
    }
}

/// The logs of a load, and the thread that writes them.
#[derive(Debug)]
pub struct Log {
    takes_each: bool,
    writer: SyncSender<Chunk>,
    ended: JoinHandle<Result<()>>,
}

impl Log {
    /// Makes the files of the threads from number `first` on, and begins to write; nothing where nothing is asked for.
    ///
    /// # Errors
    /// Files that cannot be made.
    pub fn begin(settings: &LogSettings, first: u32, threads: u32, is_trim: bool) -> Result<Option<Self>> {
        if !settings.is_on() {
            return Ok(None);
        }
        let files = (first..first + threads)
            .map(|number| FilesOf::create(settings, number))
            .collect::<Result<_>>()?;
        let (writer, chunks) = sync_channel(CHUNKS_MAX);
        let form = Form { has_offset: settings.log_offset, write_direction: if is_trim { 2 } else { 1 } };
        let work = move || write(files, &chunks, form);
        let ended = std::thread::Builder::new().name("log".into()).spawn(work)?;
        Ok(Some(Self { takes_each: settings.takes_each(), writer, ended }))
    }

    /// The side for a thread of the load.
    pub fn of_thread(&self, thread: u32) -> ThreadLog {
        let (takes_each, writer) = (self.takes_each, self.writer.clone());
        ThreadLog { thread: thread as usize, takes_each, entries: Vec::with_capacity(CHUNK), writer }
    }

    /// Waits until all is written that was sent.
    ///
    /// # Errors
    /// What the file system says.
    pub fn end(self) -> Result<()> {
        drop(self.writer);
        self.ended.join().unwrap_or_else(|_| Err(anyhow!("the thread that writes logs failed")))
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug)]
struct Form {
    has_offset: bool,
    /// fio's direction of commands that do not read: 1 for writes, 2 for trims.
    write_direction: u8,
}

/// The files of one thread.
#[derive(Debug)]
struct FilesOf(Vec<(Kind, PathBuf, BufWriter<File>)>);

impl FilesOf {
    fn create(settings: &LogSettings, number: u32) -> Result<Self> {
        let of_kind = |kind: Kind| Some((kind, settings.prefix(kind)?));
        let create = |(kind, prefix): (Kind, &str)| {
            let path = PathBuf::from(format!("{prefix}_{}.{}.log", kind.name(), number + 1));
            let file = File::create(&path).map_err(|cause| files::refused("make", &path, cause))?;
            Ok((kind, path, BufWriter::new(file)))
        };
        Ok(Self(Kind::ALL.into_iter().filter_map(of_kind).map(create).collect::<Result<_>>()?))
    }
}

fn write(mut files: Vec<FilesOf>, chunks: &Receiver<Chunk>, form: Form) -> Result<()> {
    for (thread, entries) in chunks {
        let Some(FilesOf(files)) = files.get_mut(thread) else { continue };
        for (kind, path, file) in files {
            let mut lines = entries.iter().filter(|entry| entry.kind == *kind);
            lines
                .try_for_each(|entry| line(file, entry, form))
                .with_context(|| format!("write {}", path.display()))?;
        }
    }
    for (_, path, mut file) in files.into_iter().flat_map(|files| files.0) {
        file.flush().with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn line(file: &mut impl Write, entry: &Entry, form: Form) -> std::io::Result<()> {
    let Entry { time_ms, value, is_read, bytes, at, .. } = *entry;
    let direction = if is_read { 0 } else { form.write_direction };
    write!(file, "{time_ms}, {value}, {direction}, {bytes}, ")?;
    if form.has_offset {
        write!(file, "{at}, ")?;
    }
    // Priority: no command has one.
    file.write_all(b"0\n")
}
