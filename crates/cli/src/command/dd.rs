//! `byway dd`: a copy between any two places.

use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use byway::Address;
use byway_console::size;
use byway_console::terminal::{Interrupt, Interrupted, Progress, print_done};
use serde::Serialize;

use crate::args::Dd;
use crate::copy::{self, Asked, Copied, Plan};

/// What a copy did.
#[derive(Serialize)]
struct Done {
    bytes: u64,
    zero_bytes: u64,
    seconds: f64,
    bytes_per_second: f64,
    verified: bool,
    interrupted: bool,
}

/// Copies, and says how much how fast: on standard error where the bytes themselves go to standard output.
///
/// # Errors
/// Sides that cannot do what is asked for, what they say while they do it, a difference.
pub fn run(args: &Dd, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let is_to_output = args.to.uri() == "-";
    ensure!(
        !(is_to_output && args.verify),
        "standard output cannot be read back: --verify means nothing here"
    );
    let plan = Plan::of(&asked(args)?)?;
    // Standard error holds JSON alone where the result goes there.
    if !(is_to_output && args.json) {
        plan.lowered.iter().for_each(|why| note!("byway: {why}"));
    }
    let progress = Progress::bytes("copy", plan.total.or(args.count));
    let begun = Instant::now();
    let copied = copy::copy(plan, interrupt, &progress)?;
    drop(progress);
    let done = Done::of(&copied, begun.elapsed());
    if is_to_output {
        print_done(&mut io::stderr(), args.json, &done)?
    } else {
        print_done(out, args.json, &done)?
    }
    if copied.was_interrupted { Err(interrupted(args, &copied).into()) } else { Ok(()) }
}

fn asked(args: &Dd) -> Result<Asked> {
    let Dd { bs, count, skip, seek, depth, jobs, sparse, verify, .. } = *args;
    let (from, to) = with_namespace(args)?;
    Ok(Asked { from, to, piece_bytes: bs, count, skip, seek, depth, jobs, sparse, verify })
}

/// Both sides, the one that has namespaces with that of `--ns`.
fn with_namespace(args: &Dd) -> Result<(String, String)> {
    let sides = [args.from.uri(), args.to.uri()];
    let Some(ns) = args.ns else { return Ok((sides[0].to_owned(), sides[1].to_owned())) };
    // Without the name of a subsystem a TCP address does not parse.
    let has_some = |uri: &str| {
        uri.starts_with("tcp://") || matches!(uri.parse(), Ok(Address::Embedded(_) | Address::Pcie(_)))
    };
    let of = |uri: &str| match has_some(uri) {
        true => byway::uri::with_options(uri, &format!("ns={ns}")),
        false => uri.to_owned(),
    };
    let devices = sides.into_iter().filter(|uri| has_some(uri)).count();
    ensure!(
        devices == 1,
        "--ns is for one device with namespaces, and here are {devices}: write ns={ns} into the URI of each"
    );
    Ok((of(sides[0]), of(sides[1])))
}

fn interrupted(args: &Dd, copied: &Copied) -> Interrupted {
    let whole = copied.whole_bytes;
    let (skip, seek) = (args.skip + whole, args.seek + whole);
    let there = format!("{} bytes were copied, the first {whole} of them without a gap", copied.bytes);
    Interrupted(format!("{there}; --skip {skip} --seek {seek} goes on").into())
}

impl Done {
    fn of(copied: &Copied, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        Self {
            bytes: copied.bytes,
            zero_bytes: copied.zero_bytes,
            seconds,
            bytes_per_second: copied.bytes as f64 / seconds.max(f64::MIN_POSITIVE),
            verified: copied.verified,
            interrupted: copied.was_interrupted,
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, rate) = (size::human(self.bytes), size::human(self.bytes_per_second as u64));
        write!(f, "{} bytes ({bytes}) in {:.3} s, {rate}/s", self.bytes, self.seconds)?;
        if self.zero_bytes > 0 {
            write!(f, "; {} of them zeroes that were not sent", size::human(self.zero_bytes))?;
        }
        if self.verified { f.write_str("; read back and the same") } else { Ok(()) }
    }
}
