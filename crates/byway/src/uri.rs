//! URIs of devices: `embedded:PATH?option=value&…`, and `ram:SIZE` or `null:SIZE` for a device without an image.
//!
//! In a path `%XX` is a byte by its two hexadecimal digits, and options begin at the first `?` that a `name=` follows;
//! [`of_image`] and [`of_file`] make the URI of any path.
//!
//! An option that is unknown, given twice or wrongly valued is an error that names what is known: none is accepted
//! and left unread.

use std::path::PathBuf;
use std::str::FromStr;

use byway_core::{AdaptivePolicy, DEPTH_MAX, Error, ErrorKind, Nsid, Result};
use byway_flash::{Bytes, GcPolicy, Injection, NoSize, Reads, RetentionLimits};
use byway_kv::{KvOptions, Packing};
use byway_link::{ClockMode, Method};
#[cfg(feature = "embedded")]
use byway_local::RunBy;

use crate::path::{decode, split_options};
pub use crate::path::{
    file_of, has_options, of_file, of_image, of_image_text, option_of, path_of, scheme_of, with_options,
};

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
pub struct Options {
    /// `transfer=`: how payloads cross the link.
    pub transfer: Method,
    /// `policy=`, `tau=`, `alpha=`, `below=`: by what `adaptive` chooses.
    pub policy: AdaptivePolicy,
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
    #[cfg(feature = "embedded")]
    pub run_by: RunBy,
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
    /// `memtable=`: RAM of the index entries that are not on flash yet, in bytes; twice that while they are written out.
    pub memtable_bytes: usize,
    /// `cache=`: RAM for index pages, in bytes.
    pub cache_bytes: usize,
    /// `packing=`: how values are packed into flash pages.
    pub packing: Packing,
    /// `gc=`: how flash garbage collection chooses blocks.
    pub gc: GcPolicy,
    /// `inject=`: operations of the medium that fail, as `program:nth=100,read:block=5:always`; see [`Injection`].
    pub inject: Option<Injection>,
    /// `fading=`: how many reads and how much age data stands, as `reads=100000,age=5000000,refresh`; see [`RetentionLimits`].
    pub fading: RetentionLimits,
    /// `flush=`: what an acknowledgement survives.
    pub flush: FlushMode,
    /// `readonly=`: whether an image is opened for reading alone; others may read it at the same time.
    pub read_only: bool,
    /// `depth=`: commands outstanding on a queue.
    pub depth: u32,
    /// `ring=`: entries of a submission ring.
    pub ring_entries: Option<u32>,
}

/// What every option is called, what it may be, and what it decides: for errors and help.
pub const OPTIONS: [(&str, &str, &str); 27] = [
    ("transfer", "METHOD", "how payloads cross the link [adaptive]"),
    ("policy", "bytes|time|threshold", "by what adaptive chooses [bytes]"),
    ("tau", "BYTES", "policy=threshold: from this size on prp is taken"),
    ("alpha", "FACTOR", "policy=threshold: above 1 for less traffic [1]"),
    ("below", "METHOD", "policy=threshold: what is taken below [piggyback]"),
    ("profile", "NAME", "whose times and habits are modelled [the image's]"),
    ("link", "GENxLANES", "the link alone, gen1x1 to gen6x16"),
    ("mps", "BYTES", "its maximum payload size, exactly"),
    ("mrrs", "BYTES", "its maximum read request size, exactly"),
    ("clock", "off|virtual|paced", "whether time is modelled, and waited for [off]"),
    ("ns", "NUMBER", "which namespace [the first that fits]"),
    ("run", "caller|thread", "who runs the device [caller]"),
    ("ledger", "on|off", "whether the link is counted [on]"),
    ("sgl", "on|off", "whether SGLs are announced and taken [on]"),
    ("flash", "on|off", "whether the NAND array takes modelled time [on]"),
    ("packing", "POLICY", "all, selective or the default [selective-backfill]"),
    ("gc", "greedy|cost-benefit", "how garbage collection chooses [greedy]"),
    ("inject", "RULES", "operations of the flash that fail"),
    ("flush", "process|command|media", "what an acknowledgement survives [process]"),
    ("depth", "COUNT", "commands outstanding on a queue [128]"),
    ("ring", "ENTRIES", "of a submission ring"),
    ("reads", "mapped|checked", "whether the medium is read as memory, or every read is verified [mapped]"),
    ("prefault", "on|off", "whether memory of a RAM disk is taken at once, not as it is written [off]"),
    ("memtable", "SIZE", "RAM of index entries not on flash yet [60M]"),
    ("cache", "SIZE", "RAM for pages of the index [64M]"),
    ("fading", "LIMITS", "how much data stands before it is lost"),
    ("readonly", "1|0", "open an image to read it, many at once [0]"),
];

/// What an acknowledgement survives, and so when the image is synced (`flush=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
            profile: None,
            link: None,
            mps_bytes: None,
            mrrs_bytes: None,
            clock: ClockMode::Off,
            ns: None,
            #[cfg(feature = "embedded")]
            run_by: RunBy::Caller,
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
            fading: RetentionLimits::default(),
            flush: FlushMode::default(),
            read_only: false,
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
            "ram" => Place::Ram(size_of_place(text, place)?),
            "null" => Place::Null(size_of_place(text, place)?),
            _ => return Err(no_scheme(text)),
        };
        Ok(Self { place, options: parse_options(query.unwrap_or_default())? })
    }
}

fn no_scheme(text: &str) -> Error {
    invalid(format!("{text:?} is no device: expected embedded:PATH, ram:SIZE or null:SIZE"))
}

pub(crate) fn parse_options(query: &str) -> Result<Options> {
    let mut options = Options::default();
    let mut threshold = Threshold::default();
    for (name, value) in pairs_of(query)? {
        options.set(&mut threshold, name, value).map_err(|e| e.doing(format!("option {name}={value}")))?;
    }
    threshold.apply(&mut options)?;
    Ok(options)
}

/// What secrets and keys begin with.
const SECRETS: [&str; 2] = ["DHHC-1:", "NVMeTLSkey-"];

/// A URI as it may be repeated: without the secrets in it.
pub(crate) fn shown(uri: &str) -> String {
    let mut shown = String::new();
    let mut rest = uri;
    while let Some(at) = SECRETS.iter().filter_map(|prefix| rest.find(prefix)).min() {
        let (before, secret) = rest.split_at(at);
        shown.push_str(before);
        shown.push('…');
        rest = secret.find('&').and_then(|end| secret.get(end..)).unwrap_or_default();
    }
    shown + rest
}

/// The options of a query, each once.
pub(crate) fn pairs_of(query: &str) -> Result<Vec<(&str, &str)>> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| invalid(format!("option {pair:?} has no value")))?;
        if pairs.iter().any(|(known, _)| *known == name) {
            return Err(invalid(format!("option {name} is given twice")));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

impl Options {
    fn set(&mut self, threshold: &mut Threshold, name: &str, value: &str) -> Result<()> {
        match name {
            "transfer" => self.transfer = parse(value)?,
            "policy" => threshold.policy = Some(value.to_owned()),
            "tau" => threshold.tau_bytes = Some(parse_size_u32(value)?),
            "alpha" => threshold.alpha = Some(parse(value)?),
            "below" => threshold.below = Some(parse(value)?),
            "profile" => self.profile = Some(value.to_owned()),
            "link" => self.link = Some(value.to_owned()),
            "mps" => self.mps_bytes = Some(parse_size_u32(value)?),
            "mrrs" => self.mrrs_bytes = Some(parse_size_u32(value)?),
            "clock" => self.clock = parse(value)?,
            "ns" => self.ns = Some(Nsid::new(number(value)?)?),
            #[cfg(feature = "embedded")]
            "run" => self.run_by = one_of(value, &[("caller", RunBy::Caller), ("thread", RunBy::Thread)])?,
            "ledger" => self.ledger = on_or_off(value)?,
            "sgl" => self.sgls = on_or_off(value)?,
            "flash" => self.flash_timing = on_or_off(value)?,
            "packing" => self.packing = parse(value)?,
            "gc" => self.gc = parse(value)?,
            "inject" => self.inject = Some(parse(value)?),
            "fading" => self.fading = parse(value)?,
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
            "depth" => self.depth = parse_depth(value)?,
            "ring" => self.ring_entries = Some(number(value)?),
            _ => return Err(unknown(&OPTIONS)),
        }
        Ok(())
    }
}

/// Options of the adaptive policy, which mean something only together.
#[derive(Debug, Default)]
struct Threshold {
    policy: Option<String>,
    tau_bytes: Option<u32>,
    alpha: Option<f32>,
    below: Option<Method>,
}

impl Threshold {
    fn apply(self, options: &mut Options) -> Result<()> {
        let given = self.tau_bytes.is_some() || self.alpha.is_some() || self.below.is_some();
        options.policy = match self.policy.as_deref() {
            None | Some("bytes") if given => {
                return Err(invalid("tau, alpha and below are of policy=threshold"));
            }
            None => return Ok(()),
            Some("bytes") => AdaptivePolicy::Bytes,
            Some("time") if given => return Err(invalid("tau, alpha and below are of policy=threshold")),
            Some("time") => AdaptivePolicy::Time,
            Some("threshold") => AdaptivePolicy::Threshold {
                tau_bytes: self.tau_bytes.ok_or_else(|| invalid("policy=threshold needs tau=BYTES"))?,
                alpha: self.alpha.unwrap_or(1.0),
                below: self.below.unwrap_or(Method::Piggyback),
            },
            Some(other) => {
                return Err(invalid(format!("policy {other:?}: expected bytes, time or threshold")));
            }
        };
        if options.transfer != Method::Adaptive {
            return Err(invalid("policy is an option of transfer=adaptive"));
        }
        Ok(())
    }
}

/// The size that stands in a URI where others have a path.
pub(crate) fn size_of_place(uri: &str, size: &str) -> Result<u64> {
    parse_size(size).map_err(|error| error.doing(uri.to_owned()))
}

/// Parses a size such as `8G`, `1.5G`, `512M` or `4096`: a number of bytes, or one with `K`, `M`, `G` or `T`, in upper or
/// lower case, with `B`, `iB` or nothing behind it. All are powers of 1024. Every face of Byway reads sizes so.
///
/// # Errors
/// A text that is no size, one that is no whole number of bytes, or one of 2^63 bytes and more.
pub fn parse_size(text: &str) -> Result<u64> {
    let size: Bytes = text.parse().map_err(|error: NoSize| invalid(error.to_string()))?;
    Ok(size.0)
}

/// A size of fewer than 4 GiB.
pub(crate) fn parse_size_u32(text: &str) -> Result<u32> {
    u32::try_from(parse_size(text)?).map_err(|_| invalid("expected less than 4G"))
}

fn parse_size_usize(text: &str) -> Result<usize> {
    usize::try_from(parse_size(text)?).map_err(|_| invalid("more than this machine can address"))
}

pub(crate) fn parse<T: FromStr<Err: std::fmt::Display>>(value: &str) -> Result<T> {
    value.parse().map_err(|e: T::Err| invalid(e.to_string()))
}

/// A whole number of the type that an option has.
pub(crate) fn number<T: TryFrom<u64>>(value: &str) -> Result<T> {
    let number: u64 = value.parse().map_err(|_| invalid("expected a whole number"))?;
    let most = u64::MAX >> (u64::BITS - 8 * size_of::<T>() as u32);
    T::try_from(number).map_err(|_| invalid(format!("the number is too large: expected at most {most}")))
}

/// How many commands a queue may have on their way.
pub(crate) fn parse_depth(value: &str) -> Result<u32> {
    let depth = number::<u64>(value)?;
    let fits = u32::try_from(depth).ok().filter(|depth| (1..=DEPTH_MAX).contains(depth));
    fits.ok_or_else(|| invalid(format!("a queue is 1 to {DEPTH_MAX} commands deep")))
}

pub(crate) fn on_or_off(value: &str) -> Result<bool> {
    one_of(value, &[("on", true), ("off", false)])
}

pub(crate) fn one_of<T: Copy>(value: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(name, _)| *name == value).map(|(_, value)| *value);
    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
    found.ok_or_else(|| invalid(format!("expected {}", names.join(" or "))))
}

pub(crate) fn unknown(known: &[(&str, &str, &str)]) -> Error {
    let names: Vec<&str> = known.iter().map(|(name, ..)| *name).collect();
    invalid(format!("unknown; known are {}", names.join(", ")))
}

pub(crate) fn invalid(said: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::host(ErrorKind::InvalidArgument, said)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
        assert!(error("embedded:a?tau=128").contains("policy=threshold"));
        assert!(error("/dev/sda").contains("expected embedded:PATH"));
        assert!(error("embedded:").contains("path"));
    }

    #[test]
    fn the_defaults_that_are_told_are_those_that_are() {
        for (name, _, about) in OPTIONS {
            let told = about.split_once('[').map(|(_, rest)| rest.trim_end_matches(']'));
            let is_value = told.filter(|told| !told.contains(' '));
            let Some(value) = is_value.filter(|_| !["alpha", "below"].contains(&name)) else { continue };
            let uri: Uri = format!("embedded:a?{name}={value}").parse().unwrap();
            assert_eq!(uri.options, Options::default(), "{name}={value}");
        }
    }

    #[test]
    fn the_guide_tells_of_every_option() {
        let guide = include_str!("../../../docs/guide/images.md");
        for (name, ..) in OPTIONS {
            assert!(guide.contains(&format!("`{name}=`")), "{name}");
        }
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
