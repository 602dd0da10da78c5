//! Fills a namespace, overwrites it at random, and prints what a put costs and waits for.
//!
//! ```text
//! cargo run --release -p byway-kv --example worn -- IMAGE [MiB] [value bytes] [fill percent] [rounds] [over-provisioning percent] [ahead]
//! ```
//!
//! With `ahead` all upkeep is done ahead of every 64 puts, and its processor time is printed beside that of puts.
//! `ram` as image keeps the flash in memory. The engine is called as a controller calls it, without queues.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use byway_flash::{Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec};
use byway_kit::Random;
use byway_kv::{Key, KvEngine, KvError, KvFormat, KvOptions, StoreHow};
use byway_sys::time::thread_ns;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Times of puts, in buckets of an eighth of a power of two of nanoseconds.
struct Times {
    buckets: Vec<u64>,
    count: u64,
    most_ns: u64,
}

impl Times {
    fn new() -> Self {
        Self { buckets: vec![0; 64 * 8], count: 0, most_ns: 0 }
    }

    fn add(&mut self, ns: u64) {
        let shift = (63 - (ns | 8).leading_zeros()) - 3;
        self.buckets[(shift as usize) * 8 + (ns >> shift & 7) as usize] += 1;
        self.count += 1;
        self.most_ns = self.most_ns.max(ns);
    }

    /// The upper end of the bucket that has the share `share` of all times below it.
    fn quantile_us(&self, share: f64) -> f64 {
        let (mut left, mut at) = ((self.count as f64 * share) as u64, 0);
        while at + 1 < self.buckets.len() && left >= self.buckets[at] {
            left -= self.buckets[at];
            at += 1;
        }
        ((8 + at % 8 + 1) as u64).wrapping_shl((at / 8) as u32) as f64 / 1000.0
    }
}

struct Bench {
    flash: Flash,
    engine: KvEngine,
    value: Vec<u8>,
    now_ps: u64,
    does_upkeep: bool,
}

/// Puts between two times that all upkeep is done.
const PUTS_BETWEEN_UPKEEP: u64 = 64;

impl Bench {
    /// Does all upkeep there is; its processor time.
    fn keep_up(&mut self) -> u64 {
        let since = thread_ns();
        while self.engine.keep_up(&mut self.flash, &mut self.now_ps) {}
        thread_ns() - since
    }

    /// Puts `count` keys, and times each.
    fn run(&mut self, name: &str, count: u64, mut key: impl FnMut(u64) -> u64) -> Result<f64> {
        let (mut times, begin) = (Times::new(), Instant::now());
        let before = *self.flash.counters();
        let (mut last, cpu) = (begin, thread_ns());
        let mut upkeep_ns = 0;
        for n in 0..count {
            if self.does_upkeep && n % PUTS_BETWEEN_UPKEEP == 0 {
                upkeep_ns += self.keep_up();
            }
            let key = Key::new(&[key(n).to_be_bytes(), [7; 8]].concat())?;
            self.engine.put(&mut self.flash, &key, &self.value, StoreHow::default(), &mut self.now_ps)?;
            let now = Instant::now();
            times.add((now - last).as_nanos() as u64);
            last = now;
        }
        let cpu_us = (thread_ns() - cpu - upkeep_ns) as f64 / 1e3 / count as f64;
        let upkeep_us = upkeep_ns as f64 / 1e3 / count as f64;
        let rate = 1e6 / cpu_us;
        let host_bytes = count * (self.value.len() as u64 + 16);
        print!(
            "{name}: {:.0} k puts/s, {cpu_us:.2} µs a put beside {upkeep_us:.2} µs of upkeep, p50 {:.2} p99 {:.1} p99.9 {:.0} p99.99 {:.0} max {:.0} µs; written for each byte:",
            rate / 1e3,
            times.quantile_us(0.5),
            times.quantile_us(0.99),
            times.quantile_us(0.999),
            times.quantile_us(0.9999),
            times.most_ns as f64 / 1e3
        );
        for ((cause, now), (_, then)) in self.flash.counters().rows().zip(before.rows()) {
            let bytes = now.program_bytes - then.program_bytes;
            if bytes > 0 {
                print!(" {} {:.2}", cause.name(), bytes as f64 / host_bytes as f64);
            }
        }
        let stats = self.engine.stats();
        println!(
            "; {:.1} % used, {} of {} segments free, {} runs, {} stalls",
            self.engine.used_bytes() as f64 * 100.0 / self.engine.capacity_bytes() as f64,
            stats.free_segments,
            stats.segments,
            stats.runs,
            stats.compaction.stalls + stats.index.stalls
        );
        Ok(rate)
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, other: u64| args.get(at).map_or(Ok(other), |arg| arg.parse::<u64>());
    let (mib, len, fill, rounds) = (number(1, 512)?, number(2, 32)?, number(3, 95)?, number(4, 5)?);
    let does_upkeep = args.get(6).is_some_and(|arg| arg == "ahead");
    let media = match args.first().map(String::as_str) {
        None | Some("ram") => MediaKind::Ram,
        Some(path) => MediaKind::File(PathBuf::from(path)),
    };
    let mut profile = byway_link::Profile::by_name("gen4x4").ok_or("no such profile")?.flash;
    profile.over_provisioning_percent = number(5, u64::from(profile.over_provisioning_percent))? as u32;
    let spec = NamespaceSpec { nsid: None, kind: NamespaceKind::Kv, size_bytes: mib << 20 };
    let options = FlashOptions::new(mib << 20, profile, media).timing(false);
    let mut flash = Flash::create(options, &[spec])?;
    let namespace = flash.namespace(1).ok_or("no namespace")?.clone();
    let engine = KvEngine::create(&mut flash, &namespace, &KvFormat::default(), KvOptions::default())?;
    let keys = engine.capacity_bytes() / 100 * fill / (72 + len);
    println!(
        "{mib} MiB, of which {} MiB are for records and index; {keys} keys of 16 bytes, values of {len}",
        engine.capacity_bytes() >> 20
    );
    let mut bench = Bench { flash, engine, value: vec![7; len as usize], now_ps: 0, does_upkeep };
    let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let empty = bench.run("empty", keys, spread)?;
    let mut random = Random::new(1);
    let mut sum = Duration::ZERO;
    for round in 0..rounds {
        let next = |_| spread(random.below(keys));
        let rate = bench.run(&format!("round {}", round + 1), keys, next)?;
        sum += Duration::from_secs_f64(keys as f64 / rate);
    }
    println!(
        "overwriting at {:.0} % of empty",
        rounds as f64 * keys as f64 / sum.as_secs_f64() / empty * 100.0
    );
    let last = Key::new(&[spread(1).to_be_bytes(), [7; 8]].concat())?;
    let into = |_: &[u8], _: &mut u64| Ok::<(), KvError>(());
    bench.engine.get(&mut bench.flash, &last, 0, u64::MAX, into, &mut 0)?;
    println!("{:#?}", bench.engine.stats());
    Ok(())
}
