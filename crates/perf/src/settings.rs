//! The settings of a load: what is measured and how, with the arguments that say so.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use byway_console::number;
use byway_console::size;
use byway_measure::distribution::Distribution;
use clap::{Args, ValueEnum};

use super::headings::{EXPERT, KEYS, LOAD, MEASUREMENT, RANGE};
use super::log::LogSettings;

/// Arguments of a load.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// What the commands do, and in which order.
    #[arg(help_heading = LOAD, long, value_enum, visible_alias = "readwrite")]
    pub rw: Option<Load>,
    /// Percentage of reads in a mixed load [default: 50].
    #[arg(help_heading = LOAD, long, value_name = "PERCENT", visible_alias = "rwmixread", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub mix: Option<u8>,
    /// Bytes of a command [default: 4K].
    #[arg(help_heading = LOAD, long, value_name = "SIZE", visible_alias = "blocksize", value_parser = size::parse)]
    pub bs: Option<u64>,
    /// Commands that each thread keeps outstanding; of several, such as 1,32, a run for each [default: depth= of the URI, else 1].
    #[arg(help_heading = LOAD, long, value_name = "COUNT", visible_alias = "iodepth", value_delimiter = ',', value_parser = number::parse::<u32>)]
    pub depth: Vec<u32>,
    /// Threads, each with a queue of its own.
    #[arg(help_heading = LOAD, long, value_name = "COUNT", default_value = "1", visible_alias = "numjobs", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// How often each block or key comes, of a random load: random, zipf:THETA (0.99 is YCSB's), pareto:H, normal:PERCENT or
    /// zoned:DRAWS/PLACES:…, in percent. Hot blocks and keys of zipf and pareto are scattered over the range.
    #[arg(
        help_heading = LOAD,
        long,
        value_name = "DISTRIBUTION",
        default_value = "random",
        visible_alias = "random_distribution"
    )]
    pub random_distribution: Distribution,
    /// First byte of the range.
    #[arg(help_heading = RANGE, long, value_name = "SIZE", value_parser = size::parse)]
    pub offset: Option<u64>,
    /// Bytes of the range [default: up to the end].
    #[arg(help_heading = RANGE, long, value_name = "SIZE", visible_alias = "size", value_parser = size::parse)]
    pub length: Option<u64>,
    /// Keys that a load of keys and values uses [default: 10000].
    #[arg(help_heading = KEYS, long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub keys: Option<u64>,
    /// Bytes of a key [default: 16].
    #[arg(help_heading = KEYS, long, value_name = "BYTES", value_parser = clap::value_parser!(u8).range(8..=16))]
    pub key_bytes: Option<u8>,
    /// Bytes of a value [default: 100].
    #[arg(help_heading = KEYS, long, value_name = "SIZE", value_parser = size::parse_u32)]
    pub value_bytes: Option<u32>,
    /// Store every key once before anything is measured. Without it, keys that are not there are errors: they are counted, are no
    /// part of the rate, and make the exit code 1.
    #[arg(help_heading = KEYS, long)]
    pub fill: bool,
    /// Seconds that are measured [default: 10, or until --count].
    #[arg(help_heading = MEASUREMENT, long, value_name = "SECONDS", visible_alias = "runtime", value_parser = parse_seconds)]
    pub time: Option<Duration>,
    /// Commands of each thread that are measured, if --time does not end it before.
    #[arg(help_heading = MEASUREMENT, long, value_name = "COUNT", visible_alias = "number_ios", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Seconds before the measurement.
    #[arg(help_heading = MEASUREMENT, long, value_name = "SECONDS", default_value = "0", visible_alias = "ramp_time", value_parser = parse_seconds)]
    pub warmup: Duration,
    /// Open a file or block device past the page cache (O_DIRECT), as ?direct=1 does; `--direct=0` does not, as in fio.
    #[arg(help_heading = MEASUREMENT, long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1",
          hide_default_value = true, value_parser = parse_switch)]
    pub direct: bool,
    /// Sync the file and drop what the page cache holds of it before the measurement, so that nothing is read from there.
    /// fio's invalidate, which is on by default, does so with files that fio has laid out and synced; here it is off by default.
    #[arg(help_heading = MEASUREMENT, long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1",
          hide_default_value = true, value_parser = parse_switch)]
    pub invalidate: bool,
    /// Seed of random numbers: decides places, keys and what is written.
    #[arg(help_heading = MEASUREMENT, long, default_value_t = 0, visible_alias = "randseed", value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Writes carry what --seed says of their place and are read back after the measurement; reads of a load that only reads
    /// are compared with it. Exit code 1 for a difference.
    #[arg(help_heading = MEASUREMENT, long)]
    pub verify: bool,
    /// End the run if a command takes longer than this many milliseconds.
    #[arg(help_heading = MEASUREMENT, long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Logs.
    #[command(flatten)]
    pub log: LogSettings,
    /// Least number of commands that are submitted together.
    #[arg(help_heading = EXPERT, long, value_name = "COUNT", default_value = "1", visible_alias = "iodepth_batch_submit", value_parser = number::parse::<u32>)]
    pub batch: u32,
    /// Processors for the threads, such as 0,2-3: one each, over again when there are more threads.
    #[arg(help_heading = EXPERT, long, value_name = "LIST", visible_alias = "cpus_allowed", value_parser = parse_cpus)]
    pub cpus: Option<Cpus>,
    /// Number of buffers that the data of each command is spread over.
    #[arg(help_heading = EXPERT, long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub parts: u32,
    /// Which memory holds the data.
    #[arg(help_heading = EXPERT, long, value_enum, default_value = "device")]
    pub memory: MemoryOf,
    /// How a thread waits for completions.
    #[arg(help_heading = EXPERT, long, value_enum, default_value = "sleep")]
    pub wait: Wait,
    /// Do not time each command: no percentiles.
    #[arg(help_heading = EXPERT, long, visible_alias = "disable_lat")]
    pub no_latency: bool,
    /// End when each thread has done as many commands as the range has places, as a job of fio without `time_based`.
    #[arg(skip)]
    pub once: bool,
    /// Of a job file: `direct` is left out for devices that are not opened as files, since fio's jobs say it of any.
    #[arg(skip)]
    pub direct_where_possible: bool,
}

impl Settings {
    /// The load; without one it is that of fio, `read`.
    pub fn load(&self) -> Load {
        self.rw.unwrap_or(Load::Read)
    }

    /// The depth of one run: of several the first.
    pub fn depth(&self) -> Option<u32> {
        self.depth.first().copied()
    }

    /// The settings of the run of each depth.
    pub fn by_depth(&self) -> Vec<Self> {
        if self.depth.len() < 2 {
            return vec![self.clone()];
        }
        self.depth.iter().map(|&depth| Self { depth: vec![depth], ..self.clone() }).collect()
    }

    /// Whether anything changes what the device holds.
    pub fn changes(&self) -> bool {
        self.load().changes() || self.fill
    }

    /// The first option that is given and means nothing to the load, by its name, such as `mix`.
    pub fn option_without_meaning(&self) -> Option<&'static str> {
        let load = self.load();
        let is_mixed = matches!(load, Load::Randrw | Load::Putget);
        let of_blocks = !load.is_pairs();
        let without_meaning = [
            ("mix", self.mix.is_some() && !is_mixed),
            ("bs", self.bs.is_some() && !of_blocks),
            ("offset", self.offset.is_some() && !of_blocks),
            ("length", self.length.is_some() && !of_blocks),
            ("random-distribution", !self.random_distribution.is_uniform() && load.is_sequential()),
            ("keys", self.keys.is_some() && of_blocks),
            ("key-bytes", self.key_bytes.is_some() && of_blocks),
            ("value-bytes", self.value_bytes.is_some() && of_blocks),
            ("fill", self.fill && of_blocks),
            ("verify", self.verify && !load.is_verifiable()),
            ("parts", self.parts > 1 && !(of_blocks && load.has_data())),
            ("memory", self.memory != MemoryOf::Device && !load.has_data()),
        ];
        without_meaning.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }

    /// Refuses options that mean nothing to the load, or nothing at all.
    ///
    /// # Errors
    /// One sentence that names the option.
    pub fn check(&self, depth: u32) -> Result<()> {
        if let Some(name) = self.option_without_meaning() {
            bail!("--{name} means nothing to a load of {}", self.load().name());
        }
        ensure!(
            !(self.no_latency && self.log.is_on()),
            "logs are of commands that are timed: leave out --no-latency"
        );
        ensure!(depth > 0, "a depth of 0 measures nothing");
        ensure!(self.wait != Wait::Call || depth == 1, "--wait call is one command at a time: --depth 1");
        ensure!(
            (1..=depth).contains(&self.batch),
            "--batch of {} commands is not within 1 to the depth of {depth}",
            self.batch
        );
        ensure!(self.time != Some(Duration::ZERO), "a time of 0 measures nothing");
        Ok(())
    }
}

/// Which memory holds a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryOf {
    /// What the device's backend prepares and keeps for commands.
    Device,
    /// The program's own, prepared once before the load.
    Prepared,
    /// The program's own, unprepared: the backend registers or copies it for each command.
    Brought,
}

/// What a load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Load {
    /// Reads one block behind the other.
    Read,
    /// Writes one behind the other.
    Write,
    /// Reads anywhere.
    Randread,
    /// Writes anywhere.
    Randwrite,
    /// Reads and writes anywhere.
    Randrw,
    /// Deallocates random blocks (Dataset Management).
    #[value(alias = "randtrim")]
    Trim,
    /// Has blocks anywhere read as zeroes.
    Zeroes,
    /// Stores values under any keys.
    Put,
    /// Reads values of any keys.
    Get,
    /// Stores and reads values.
    Putget,
}

/// How completions are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// As the queue does: spinning a little, then asleep.
    Sleep,
    /// Asking again and again.
    Spin,
    /// By the queue's descriptor, as a program with its own event loop does.
    Event,
    /// By the call that sends the command: one at a time.
    Call,
}

impl Load {
    /// Whether what it moves can be compared afterwards.
    fn is_verifiable(self) -> bool {
        matches!(self, Self::Read | Self::Randread | Self::Write | Self::Randwrite | Self::Randrw)
    }

    /// Whether keys and values are meant.
    pub fn is_pairs(self) -> bool {
        matches!(self, Self::Put | Self::Get | Self::Putget)
    }

    /// Whether anything changes what the device holds.
    pub fn changes(self) -> bool {
        !matches!(self, Self::Read | Self::Randread | Self::Get)
    }

    /// Whether places follow each other.
    pub fn is_sequential(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Whether commands move data.
    pub fn has_data(self) -> bool {
        !matches!(self, Self::Trim | Self::Zeroes)
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Randread => "randread",
            Self::Randwrite => "randwrite",
            Self::Randrw => "randrw",
            Self::Trim => "trim",
            Self::Zeroes => "zeroes",
            Self::Put => "put",
            Self::Get => "get",
            Self::Putget => "putget",
        }
    }
}

/// Processors by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(Vec<usize>);

impl Cpus {
    /// The processor of a thread.
    pub fn of_thread(&self, thread: u32) -> usize {
        let index = thread as usize % self.0.len().max(1);
        self.0.get(index).copied().unwrap_or(0)
    }
}

/// Parses processors, such as `0,2-3`.
///
/// # Errors
/// Anything else.
fn parse_cpus(text: &str) -> Result<Cpus, String> {
    let wrong = || format!("{text:?} names no processors: expected some such as 0,2-3");
    let number = |text: &str| text.parse::<usize>().ok().filter(|cpu| *cpu < 1024).ok_or_else(wrong);
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(Cpus(cpus))
}

/// Units of a time, with their seconds.
const TIMES: [(&str, f64); 6] =
    [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];

/// Parses seconds, with a fraction or without, or a time with a unit as fio has them.
///
/// # Errors
/// Anything else.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let with_unit = TIMES.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)));
    let (number, unit) = with_unit.unwrap_or((text, 1.0));
    let seconds =
        number.parse::<f64>().ok().and_then(|number| Duration::try_from_secs_f64(number * unit).ok());
    seconds.ok_or_else(|| {
        format!("{text:?} is no time: expected seconds such as 10 or 0.5, or a time such as 100ms or 5m")
    })
}

/// Parses a switch.
///
/// # Errors
/// Anything but `0` and `1`.
pub(crate) fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("{text:?} is neither 0 nor 1")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_given_one_by_one_or_from_to() {
        assert_eq!(parse_cpus("0,2-4").unwrap(), Cpus(vec![0, 2, 3, 4]));
        assert_eq!(parse_cpus("0,2").unwrap().of_thread(3), 2);
        for wrong in ["", "a", "3-1", "0,", "99999"] {
            assert!(parse_cpus(wrong).unwrap_err().contains("0,2-3"), "{wrong}");
        }
    }

    #[test]
    fn seconds_have_fractions() {
        assert_eq!(parse_seconds("0.5").unwrap(), Duration::from_millis(500));
        assert_eq!(parse_seconds("10s").unwrap(), Duration::from_secs(10));
        assert_eq!(parse_seconds("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(parse_seconds("2m").unwrap(), Duration::from_secs(120));
        assert!(
            parse_seconds("-1").is_err() && parse_seconds("soon").is_err() && parse_seconds("1e99").is_err()
        );
    }
}
