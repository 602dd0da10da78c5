//! URIs of devices in this process: `embedded:PATH`, `embedded-ram:SIZE`, `embedded-null:SIZE`, and their options.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use byway_controller::{AllowList, Allowed, SubsystemOptions};
use byway_core::{AdaptivePolicy, Error, Nsid, Result};
use byway_flash::{GcPolicy, Injection, Reads, RetentionLimits};
use byway_kv::{KvOptions, Packing};
use byway_link::{ClockMode, Method};
use byway_local::{RunBy, UpkeepBy};

use crate::uri::escape::decode;
use crate::uri::grammar::{
    invalid, number, on_or_off, one_of, pairs_of, parse, parse_depth, parse_size_u32, parse_size_usize,
    seconds, size_of_place, unknown,
};
use crate::uri::policy::PolicyOptions;
use crate::uri::split::split_options;
use crate::uri::tables::OPTIONS;

/// Where a device is, and how it is to be opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Uri {
    /// What holds the device.
    pub place: Place,
    /// How it is to be opened.
    pub options: Options,
}

/// What holds a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// An image file, opened in this process.
    Image(PathBuf),
    /// Memory of this process, of this many bytes: gone when the device is closed.
    Ram(u64),
    /// Nothing: pages are accepted and forgotten. Of this many bytes.
    Null(u64),
}

/// Options of a URI.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// `transfer=`: how payloads cross the link.
    pub transfer: Method,
    /// `policy=`, `tau=`, `alpha=`, `below=`: by what `adaptive` chooses.
    pub policy: AdaptivePolicy,
    /// `inline-read=`: whether short results stand in the completion queue, behind their completions.
    pub inline_reads: bool,
    /// `profile=`: parameters of link, flash and firmware; an image's own where it is not given.
    pub profile: Option<String>,
    /// `link=`: the link alone, as `gen2x8`.
    pub link: Option<String>,
    /// `mps=`: maximum payload size, exactly.
    pub mps_bytes: Option<u32>,
    /// `mrrs=`: maximum read request size, exactly.
    pub mrrs_bytes: Option<u32>,
    /// `clock=`: off, virtual or paced.
    pub clock: ClockMode,
    /// `ns=`: the namespace that calls without one mean.
    pub ns: Option<Nsid>,
    /// `run=`: caller or thread.
    pub run_by: RunBy,
    /// `upkeep=`: off, idle or thread, which threads do upkeep ahead of the commands that would pay for it.
    pub upkeep_by: UpkeepBy,
    /// `compute=`: threads that execute one query, 0 for none; as many as suit the machine where it is not given.
    pub compute_threads: Option<u16>,
    /// `exec=`, as `1:crc32c,1:SHA256,3:filter`: programs that hosts may run over values ([`Kv::exec`](crate::Kv::exec)), by the number of the
    /// namespace. A program is named by the SHA-256 of its bytes, one of the device by its name. None without it.
    pub exec_allowed: BTreeMap<u32, AllowList>,
    /// `program-time=`, in seconds: longest time of one program, from its command on.
    pub program_time_max: Duration,
    /// `ledger=`: on or off.
    pub ledger: bool,
    /// `sgl=`: on or off, whether the device announces SGLs and takes them. Inline payloads do not hang on it.
    pub sgls: bool,
    /// `flash=`: on or off, whether flash operations take modelled time.
    pub flash_timing: bool,
    /// `reads=`: mapped or checked, how pages of the medium are read.
    pub reads: Reads,
    /// `prefault=`: whether all memory of a RAM disk is taken when it is made.
    pub prefault: bool,
    /// `memtable=`: RAM of the index entries that are not on flash yet, in bytes. Copies of their short values take up to 2.1 times as
    /// much beside; all of it twice while they are written out.
    pub memtable_bytes: usize,
    /// `cache=`: RAM for index pages, in bytes.
    pub cache_bytes: usize,
    /// `packing=`: how values are packed into flash pages.
    pub packing: Packing,
    /// `gc=`: how flash garbage collection chooses blocks.
    pub gc: GcPolicy,
    /// `inject=`: operations of the medium that fail, as `program:nth=100,read:block=5:always`; see [`Injection`].
    pub inject: Option<Injection>,
    /// `retention=`, as `reads=100000,age=5000000,refresh`. Read disturb and retention: page reads of a block, and pages programmed since it was
    /// filled, past which its data is lost; `refresh` moves data before. See [`RetentionLimits`]. Default: no limits.
    pub retention: RetentionLimits,
    /// `flush=`: what an acknowledgement survives.
    pub flush: FlushMode,
    /// `readonly=`: whether an image is opened for reading alone; others may read it at the same time.
    pub read_only: bool,
    /// `follow=`: whether an image is read without a lock, beside a process that may have it open for writing: each read sees what that
    /// had committed before.
    pub follow: bool,
    /// `depth=`: commands outstanding on a queue.
    pub depth: u32,
    /// `ring=`: entries of a submission ring.
    pub ring_entries: Option<u32>,
}

/// What an acknowledgement survives, and so when the image is synced (`flush=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FlushMode {
    /// The death of the process at any instruction. The image is synced by Flush and at the end.
    #[default]
    Process,
    /// The same; what a Flush covers survives the loss of real power too, whatever is stored after it.
    Command,
    /// The loss of real power: a command that changes data completes only after a sync of the image that covers it.
    Media,
}

impl FlushMode {
    /// What an acknowledgement means, for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Process => {
                "in power-protected device state. It survives the death of the process at any instruction and a modelled \
                 power cut; loss of real power or of the kernel may lose what the kernel has not written to the image yet."
            }
            Self::Command => {
                "in power-protected device state. It survives the death of the process at any instruction; loss of real \
                 power or of the kernel may lose what no Flush command covered."
            }
            Self::Media => {
                "on the disk that holds the image: synced before the completion was posted. It survives the loss of real \
                 power and of the kernel, as far as that disk keeps what it says it has written."
            }
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            transfer: Method::Adaptive,
            policy: AdaptivePolicy::default(),
            inline_reads: false,
            profile: None,
            link: None,
            mps_bytes: None,
            mrrs_bytes: None,
            clock: ClockMode::Off,
            ns: None,
            run_by: RunBy::Caller,
            upkeep_by: UpkeepBy::default(),
            compute_threads: None,
            exec_allowed: BTreeMap::new(),
            program_time_max: SubsystemOptions::default().program_time_max,
            ledger: true,
            sgls: true,
            flash_timing: true,
            reads: Reads::default(),
            prefault: false,
            memtable_bytes: KvOptions::default().memtable_bytes,
            cache_bytes: KvOptions::default().cache_bytes,
            packing: Packing::default(),
            gc: GcPolicy::default(),
            inject: None,
            retention: RetentionLimits::default(),
            flush: FlushMode::default(),
            read_only: false,
            follow: false,
            depth: 128,
            ring_entries: None,
        }
    }
}

impl FromStr for Uri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (scheme, rest) = text.split_once(':').ok_or_else(|| no_scheme(text))?;
        let (place, query) = match scheme {
            "embedded" => split_options(rest),
            _ => rest.split_once('?').map_or((rest, None), |(size, query)| (size, Some(query))),
        };
        let place = match scheme {
            "embedded" if place.is_empty() => {
                return Err(invalid(format!("{text}: an image's path follows embedded:")));
            }
            "embedded" => Place::Image(decode(place)),
            "embedded-ram" | "ram" => Place::Ram(size_of_place(text, place)?),
            "embedded-null" | "null" => Place::Null(size_of_place(text, place)?),
            _ => return Err(no_scheme(text)),
        };
        Ok(Self { place, options: parse_options(query.unwrap_or_default())? })
    }
}

fn no_scheme(text: &str) -> Error {
    invalid(format!("{text:?} is no device: expected embedded:PATH, embedded-ram:SIZE or embedded-null:SIZE"))
}

fn parse_options(query: &str) -> Result<Options> {
    let mut options = Options::default();
    let mut policy = PolicyOptions::default();
    for (name, value) in pairs_of(query)? {
        options.set(&mut policy, name, value).map_err(|e| e.doing(format!("option {name}={value}")))?;
    }
    options.policy = policy.of(options.transfer)?;
    Ok(options)
}

impl Options {
    byway_sys::setters! {
        /// `transfer=`: how payloads cross the link.
        transfer: Method;
        /// `policy=`, `tau=`, `alpha=`, `below=`: by what `adaptive` chooses.
        policy: AdaptivePolicy;
        /// `inline-read=`: whether short results stand in the completion queue, behind their completions.
        inline_reads: bool;
        /// `profile=`: name of the parameters of link, flash and firmware.
        profile: impl Into<Option<String>>;
        /// `link=`: the link alone, as `gen2x8`.
        link: impl Into<Option<String>>;
        /// `mps=`: maximum payload size, exactly.
        mps_bytes: impl Into<Option<u32>>;
        /// `mrrs=`: maximum read request size, exactly.
        mrrs_bytes: impl Into<Option<u32>>;
        /// `clock=`: off, virtual or paced.
        clock: ClockMode;
        /// `ns=`: the namespace that calls without one mean.
        ns: impl Into<Option<Nsid>>;
        /// `run=`: caller or thread.
        run_by: RunBy;
        /// `upkeep=`: which threads do upkeep ahead of commands.
        upkeep_by: UpkeepBy;
        /// `compute=`: threads that execute one query, 0 for none.
        compute_threads: Option<u16>;
        /// `exec=`: programs that hosts may run over values, by the number of the namespace.
        exec_allowed: BTreeMap<u32, AllowList>;
        /// `program-time=`: longest time of one program.
        program_time_max: Duration;
        /// `ledger=`: on or off.
        ledger: bool;
        /// `sgl=`: whether the device announces SGLs.
        sgls: bool;
        /// `flash=`: on or off, whether flash operations take modelled time.
        flash_timing: bool;
        /// `reads=`: mapped or checked, how pages of the medium are read.
        reads: Reads;
        /// `prefault=`: whether all memory of a RAM disk is taken when it is made.
        prefault: bool;
        /// `memtable=`: RAM of the memtable, in bytes.
        memtable_bytes: usize;
        /// `cache=`: RAM for index pages, in bytes.
        cache_bytes: usize;
        /// `packing=`: how values are packed into flash pages.
        packing: Packing;
        /// `gc=`: how flash garbage collection chooses blocks.
        gc: GcPolicy;
        /// `inject=`: operations of the medium that fail.
        inject: impl Into<Option<Injection>>;
        /// `retention=`. Read disturb and retention: page reads of a block, and pages programmed since it was filled, past which its data is lost;
        /// `refresh` moves data before. Default: no limits.
        retention: RetentionLimits;
        /// `flush=`: what an acknowledgement survives.
        flush: FlushMode;
        /// `readonly=`: whether an image is opened for reading alone.
        read_only: bool;
        /// `follow=`: whether an image is read beside a process that may have it open for writing.
        follow: bool;
        /// `depth=`: commands outstanding on a queue.
        depth: u32;
        /// `ring=`: entries of a submission ring.
        ring_entries: impl Into<Option<u32>>;
    }

    fn set(&mut self, policy: &mut PolicyOptions, name: &str, value: &str) -> Result<()> {
        match name {
            "transfer" => self.transfer = parse(value)?,
            "policy" | "tau" | "alpha" | "below" => policy.set(name, value)?,
            "inline-read" => self.inline_reads = on_or_off(value)?,
            "profile" => self.profile = Some(value.to_owned()),
            "link" => self.link = Some(value.to_owned()),
            "mps" => self.mps_bytes = Some(parse_size_u32(value)?),
            "mrrs" => self.mrrs_bytes = Some(parse_size_u32(value)?),
            "clock" => self.clock = parse(value)?,
            "ns" => self.ns = Some(Nsid::new(number(value)?)?),
            "run" => self.run_by = one_of(value, &[("caller", RunBy::Caller), ("thread", RunBy::Thread)])?,
            "upkeep" => self.upkeep_by = one_of(value, &UPKEEP)?,
            "compute" => self.compute_threads = Some(number(value)?),
            "exec" => self.exec_allowed = allow_lists(value)?,
            "program-time" => self.program_time_max = program_time(value)?,
            "ledger" => self.ledger = on_or_off(value)?,
            "sgl" => self.sgls = on_or_off(value)?,
            "flash" => self.flash_timing = on_or_off(value)?,
            "packing" => self.packing = parse(value)?,
            "gc" => self.gc = parse(value)?,
            "inject" => self.inject = Some(parse(value)?),
            "retention" => self.retention = parse(value)?,
            "flush" => {
                self.flush = one_of(
                    value,
                    &[
                        ("process", FlushMode::Process),
                        ("command", FlushMode::Command),
                        ("media", FlushMode::Media),
                    ],
                )?;
            }
            "reads" => {
                self.reads = one_of(value, &[("mapped", Reads::Mapped), ("checked", Reads::Checked)])?;
            }
            "prefault" => self.prefault = on_or_off(value)?,
            "memtable" => self.memtable_bytes = parse_size_usize(value)?,
            "cache" => self.cache_bytes = parse_size_usize(value)?,
            "readonly" => {
                let known = [("1", true), ("0", false), ("on", true), ("off", false)];
                self.read_only = one_of(value, &known)?;
            }
            "follow" => {
                self.follow = one_of(value, &[("1", true), ("0", false), ("on", true), ("off", false)])?
            }
            "depth" => self.depth = parse_depth(value)?,
            "ring" => self.ring_entries = Some(number(value)?),
            _ => return Err(unknown(&OPTIONS)),
        }
        Ok(())
    }
}

/// Lists of programs by the number of their namespace.
fn allow_lists(value: &str) -> Result<BTreeMap<u32, AllowList>> {
    let mut programs: BTreeMap<u32, Vec<Allowed>> = BTreeMap::new();
    for part in value.split(',') {
        let (nsid, program) = part.split_once(':').ok_or_else(|| {
            invalid(format!("{part:?} is not the number of a namespace, a colon and a program"))
        })?;
        let nsid = Nsid::new(number(nsid)?)?;
        programs.entry(nsid.get()).or_default().push(parse(program)?);
    }
    Ok(programs.into_iter().map(|(nsid, list)| (nsid, list.into_iter().collect())).collect())
}

/// Values of `upkeep=`.
const UPKEEP: [(&str, UpkeepBy); 3] =
    [("off", UpkeepBy::Off), ("idle", UpkeepBy::Idle), ("thread", UpkeepBy::Thread)];

fn program_time(value: &str) -> Result<Duration> {
    let time = seconds(value)?;
    if time.is_zero() { Err(invalid("a program needs a second at least")) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::uri::parse_size;

    fn error(text: &str) -> String {
        text.parse::<Uri>().unwrap_err().to_string()
    }

    #[test]
    fn an_image_with_options_parses_and_a_plus_is_literal() {
        let uri: Uri =
            "embedded:/tmp/a.img?transfer=cxl+piggyback&clock=virtual&ns=2&run=thread".parse().unwrap();
        assert_eq!(uri.place, Place::Image("/tmp/a.img".into()));
        assert_eq!(uri.options.transfer, Method::CxlPiggyback);
        assert_eq!((uri.options.clock, uri.options.run_by), (ClockMode::Virtual, RunBy::Thread));
        assert_eq!(uri.options.ns.unwrap().get(), 2);
    }

    #[test]
    fn garbage_collection_has_two_policies() {
        let uri: Uri = "embedded:a?gc=cost-benefit".parse().unwrap();
        assert_eq!(uri.options.gc, GcPolicy::CostBenefit);
        assert!(error("embedded:a?gc=fifo").contains("expected greedy or cost-benefit"));
    }

    #[test]
    fn media_errors_are_injected_by_rules() {
        let uri: Uri = "ram:64M?inject=seed=3,program:ppm=50,read:block=5:always".parse().unwrap();
        let injection = uri.options.inject.unwrap();
        assert_eq!((injection.seed, injection.rules.len()), (3, 2));
        let said = error("ram:64M?inject=write:nth=1");
        assert!(
            said.contains("\"write:nth=1\"") && said.contains("expected program, erase or read"),
            "{said}"
        );
    }

    #[test]
    fn an_unknown_option_is_refused_by_listing_the_known_ones() {
        assert!(error("embedded:a?trasnfer=prp").contains("known are transfer, policy"));
        assert!(error("embedded:a?transfer=dma").contains("dma"));
        assert!(error("embedded:a?ledger=yes").contains("expected on or off"));
        assert!(error("embedded:a?ns=1&ns=2").contains("twice"));
        assert!(error("ram:64M?program-time=0").contains("a program needs a second at least"));
        assert!(error("embedded:a?tau=128").contains("policy=threshold"));
        assert!(error("/dev/sda").contains("expected embedded:PATH"));
        assert!(error("embedded:").contains("path"));
    }

    #[test]
    fn defaults_in_the_table_of_options_are_the_real_ones() {
        for (name, _, about) in OPTIONS {
            let default = about.split_once('[').map(|(_, rest)| rest.trim_end_matches(']'));
            let is_value = default.filter(|value| !value.contains(' '));
            let Some(value) = is_value.filter(|_| !["alpha", "below"].contains(&name)) else { continue };
            let uri: Uri = format!("embedded:a?{name}={value}").parse().unwrap();
            assert_eq!(uri.options, Options::default(), "{name}={value}");
        }
    }

    #[test]
    fn guide_describes_every_option() {
        let guide = include_str!("../../../../docs/guide/images.md");
        for (name, ..) in OPTIONS {
            assert!(guide.contains(&format!("`{name}=`")), "{name}");
        }
    }

    #[test]
    fn programs_over_values_are_allowed_by_namespace() {
        let digest = "0123456789abcdef".repeat(4);
        let uri: Uri = format!("ram:64M?exec=1:crc32c,3:filter,1:{digest}").parse().unwrap();
        let names = |nsid: u32| -> Vec<String> {
            uri.options.exec_allowed[&nsid].as_slice().iter().map(ToString::to_string).collect()
        };
        assert_eq!((names(1), names(3)), (vec!["crc32c".to_owned(), digest], vec!["filter".to_owned()]));
        assert!(error("ram:64M?exec=crc32c").contains("a colon and a program"));
        assert!(error("ram:64M?exec=0:crc32c").contains("namespace"));
        assert!(error("ram:64M?exec=1:crc").contains("64 hexadecimal digits"));
        assert!(error("ram:64M?exec=").contains("a colon and a program"));
    }

    #[test]
    fn retention_has_an_older_name_and_is_given_once() {
        let uri: Uri = "embedded:a?retention=reads=500".parse().unwrap();
        assert_eq!(uri.options.retention, "reads=500".parse().unwrap());
        assert_eq!(uri, "embedded:a?fading=reads=500".parse().unwrap());
        assert!(
            error("embedded:a?fading=reads=1&retention=reads=1").contains("option retention is given twice")
        );
    }

    #[test]
    fn memory_budgets_and_reads_are_options() {
        let uri: Uri = "embedded:a?memtable=4M&cache=512K&reads=checked".parse().unwrap();
        assert_eq!((uri.options.memtable_bytes, uri.options.cache_bytes), (4 << 20, 512 << 10));
        assert_eq!(uri.options.reads, Reads::Checked);
        assert!(error("embedded:a?reads=maybe").contains("expected mapped or checked"));
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(parse_size("8G").unwrap(), 8 << 30);
        assert_eq!(parse_size("4096").unwrap(), 4096);
        assert_eq!("ram:64M".parse::<Uri>().unwrap().place, Place::Ram(64 << 20));
        assert!(parse_size("8X").is_err() && parse_size("").is_err() && parse_size("99999999T").is_err());
    }

    #[test]
    fn a_threshold_policy_carries_its_three_numbers() {
        let uri: Uri =
            "ram:64M?transfer=adaptive&policy=threshold&tau=128&alpha=1.5&below=cxl".parse().unwrap();
        let wanted = AdaptivePolicy::Threshold { tau_bytes: 128, alpha: 1.5, below: Method::Cxl };
        assert_eq!(uri.options.policy, wanted);
    }
}
