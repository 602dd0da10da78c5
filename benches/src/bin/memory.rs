//! What memory an index takes: stores of more and more keys, each opened by a process of its own and asked for keys at random.
//!
//! A store is filled, closed, and opened again by a child under a memory cgroup of a stated budget, where one can be made.
//! The child reports how long the opening took, what anonymous memory it has, and how many gets and listed keys a second
//! it served. The curve is flat where memory follows the budget, not the keys.
#![forbid(unsafe_code)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use byway::{CreateOptions, Key};
use byway_benches::results;
use byway_kit::mix;
use clap::Parser;
use serde::{Deserialize, Serialize};

const VALUE: [u8; 32] = [0x5a; 32];

#[derive(Parser)]
#[command(about = "Shows that the memory of an index follows its budget, not its keys")]
struct Arguments {
    /// Keys of each store.
    #[arg(long, value_delimiter = ',', default_value = "1000000,10000000")]
    keys: Vec<u64>,
    /// Options of the device that is opened again: its budgets.
    #[arg(long, default_value = "memtable=4M&cache=16M&flash=off")]
    options: String,
    /// Limit of the cgroup that the opened device runs in, in MiB.
    #[arg(long, default_value_t = 64)]
    limit_mib: u64,
    /// Seconds of gets.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Where the images are made.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Opens this image and measures: what the child does.
    #[arg(long)]
    serve: Option<PathBuf>,
}

/// What a child found.
#[derive(Debug, Serialize, Deserialize)]
struct Served {
    keys: u64,
    limit_mib: Option<u64>,
    open_ms: f64,
    anon_open_kib: u64,
    anon_kib: u64,
    gets_per_s: f64,
    many_per_s: f64,
    absent_per_s: f64,
    listed_per_s: f64,
    runs: u64,
    #[serde(default)]
    loaded_per_s: f64,
    #[serde(default)]
    image_mib: u64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(image) = &arguments.serve {
        let served = serve(image, &arguments)?;
        println!("{}", serde_json::to_string(&served)?);
        return Ok(());
    }
    let mut rows = Vec::new();
    for &keys in &arguments.keys {
        let image = arguments.dir.join(format!("byway-memory-{}.img", std::process::id()));
        let row = measure(keys, &image, &arguments);
        fs::remove_file(&image).ok();
        let row = row?;
        print_row(&row);
        rows.push(row);
    }
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

fn print_row(row: &Served) {
    println!(
        "{:>11} keys: opened in {:6.1} ms, anonymous {:6.1} MiB then {:6.1} MiB, {:9.0} gets/s, {:9.0} by many, {:9.0} absent/s, \
         {:10.0} listed/s, {} runs; {:9.0} loaded/s, image of {} MiB",
        row.keys,
        row.open_ms,
        row.anon_open_kib as f64 / 1024.0,
        row.anon_kib as f64 / 1024.0,
        row.gets_per_s,
        row.many_per_s,
        row.absent_per_s,
        row.listed_per_s,
        row.runs,
        row.loaded_per_s,
        row.image_mib,
    );
}

fn measure(keys: u64, image: &Path, arguments: &Arguments) -> anyhow::Result<Served> {
    let loaded_per_s = fill(keys, image)?;
    let image_mib = fs::metadata(image).map(|found| std::os::unix::fs::MetadataExt::blocks(&found) >> 11)?;
    let child = Command::new(std::env::current_exe()?)
        .args(["--serve".as_ref(), image.as_os_str()])
        .args(["--keys", &keys.to_string(), "--options", &arguments.options])
        .args(["--limit-mib", &arguments.limit_mib.to_string()])
        .args(["--seconds", &arguments.seconds.to_string()])
        .output()?;
    anyhow::ensure!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let served: Served = serde_json::from_slice(&child.stdout).context("what the child printed")?;
    Ok(Served { loaded_per_s, image_mib, ..served })
}

/// Makes a store of so many keys; pairs loaded a second, closing included.
fn fill(keys: u64, image: &Path) -> anyhow::Result<f64> {
    let record_bytes = 20 + 16 + VALUE.len() as u64;
    // Records, the index twice over while it is merged, and room to spare.
    let size_bytes = keys * (record_bytes + 2 * 36) * 5 / 4 + (256 << 20);
    byway::create(image, &CreateOptions::new(size_bytes))?;
    let device = byway::embedded::open(&format!("embedded:{}?flash=off&ledger=off", image.display()))?;
    let mut kv = device.kv(None)?;
    let start = Instant::now();
    let mut loader = kv.loader()?;
    for n in 0..keys {
        loader.add(&Key::new(&key(n))?, &VALUE)?;
    }
    loader.finish()?;
    drop(kv);
    drop(device);
    Ok(keys as f64 / start.elapsed().as_secs_f64())
}

fn serve(image: &Path, arguments: &Arguments) -> anyhow::Result<Served> {
    let keys = arguments.keys.first().copied().unwrap_or_default();
    let limited = limit_memory(arguments.limit_mib << 20).is_ok();
    let start = Instant::now();
    let device = byway::embedded::open(&format!("embedded:{}?{}", image.display(), arguments.options))?;
    let mut kv = device.kv(None)?;
    anyhow::ensure!(kv.exists(&key(0))?, "a key that was put is not there");
    let open_ms = start.elapsed().as_secs_f64() * 1e3;
    let anon_open_kib = anonymous_kib()?;
    let mut into = [0; VALUE.len()];
    let mut get = |kv: &mut byway::Kv, n: u64, is_there: bool| {
        let got = kv.get_into(&key(n), &mut into)?;
        anyhow::ensure!(got.is_some() == is_there, "key {n}: {got:?}");
        Ok(())
    };
    let time = Duration::from_secs_f64(arguments.seconds);
    let gets_per_s = rate(time, |n| get(&mut kv, mix(0, n) % keys, true))?;
    let many_per_s = many(&mut kv, keys, time / 2)?;
    let absent_per_s = rate(time / 4, |n| get(&mut kv, keys + n, false))?;
    let runs = device.kv_stats(kv.nsid()).map_or(0, |stats| stats.runs);
    let listed_per_s = list(&mut kv, time / 2)?;
    let limit_mib = limited.then_some(arguments.limit_mib);
    let anon_kib = anonymous_kib()?;
    let (loaded_per_s, image_mib) = (0.0, 0);
    Ok(Served {
        keys,
        limit_mib,
        open_ms,
        anon_open_kib,
        anon_kib,
        gets_per_s,
        many_per_s,
        absent_per_s,
        listed_per_s,
        runs,
        loaded_per_s,
        image_mib,
    })
}

/// Calls a second, over a second or so after as many that warm the caches.
fn rate(time: Duration, mut call: impl FnMut(u64) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut calls = 0;
    let mut spend = |time: Duration| {
        let (start, before) = (Instant::now(), calls);
        while start.elapsed() < time {
            for _ in 0..256 {
                call(calls)?;
                calls += 1;
            }
        }
        anyhow::Ok((calls - before) as f64 / start.elapsed().as_secs_f64())
    };
    spend(time)?;
    spend(time)
}

/// Gets a second, many under one doorbell.
fn many(kv: &mut byway::Kv, keys: u64, time: Duration) -> anyhow::Result<f64> {
    let (start, mut gets) = (Instant::now(), 0u64);
    while start.elapsed() < time {
        let wanted = (gets..gets + 1024).map(|n| Key::new(&key(mix(0, n) % keys)));
        let wanted = wanted.collect::<Result<Vec<Key>, _>>()?;
        let mut missing = 0;
        kv.get_many(&wanted, VALUE.len(), |_, value| missing += u32::from(value.is_none()))?;
        anyhow::ensure!(missing == 0, "{missing} keys are missing");
        gets += wanted.len() as u64;
    }
    Ok(gets as f64 / start.elapsed().as_secs_f64())
}

/// Keys listed in a second, from somewhere on.
fn list(kv: &mut byway::Kv, time: Duration) -> anyhow::Result<f64> {
    let (start, mut listed, mut last) = (Instant::now(), 0u64, None);
    while start.elapsed() < time {
        for key in kv.keys(Some(Key::new(&[7])?)).take(1 << 20) {
            let key = key?;
            anyhow::ensure!(last < Some(key), "keys out of order");
            last = Some(key);
            listed += 1;
        }
        last = None;
    }
    Ok(listed as f64 / start.elapsed().as_secs_f64())
}

/// Puts this process under a memory cgroup (version 1 or 2) of so many bytes.
fn limit_memory(bytes: u64) -> std::io::Result<()> {
    let name = "byway-memory-bench";
    let (group, limit) = match Path::new("/sys/fs/cgroup/memory").is_dir() {
        true => (Path::new("/sys/fs/cgroup/memory").join(name), "memory.limit_in_bytes"),
        false => (Path::new("/sys/fs/cgroup").join(name), "memory.max"),
    };
    fs::create_dir_all(&group)?;
    fs::write(group.join(limit), bytes.to_string())?;
    let mut members = fs::OpenOptions::new().append(true).open(group.join("cgroup.procs"))?;
    members.write_all(std::process::id().to_string().as_bytes())
}

/// RssAnon of this process.
fn anonymous_kib() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("RssAnon")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Key `n`: in no order.
fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(0, n).to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}
