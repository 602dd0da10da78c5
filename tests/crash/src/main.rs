//! Kills writers at random instants and judges what they leave: `byway-crash-tests --kills 1000 --json`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use byway::serve::{Idle, ServeOptions, TcpOptions};
use byway_crash_tests::content::{LONG_BYTES, LONG_KEYS, key_of, value_of};
use byway_crash_tests::fault::{Fault, On, Script};
use byway_crash_tests::kill::Run;
use byway_crash_tests::life::Life;
use byway_crash_tests::record::{Record, Verdict};
use byway_crash_tests::workload::Workload;

const USAGE: &str = "usage: byway-crash-tests [--kills N] [--seed N] [--workload NAME]... [--dir DIR] [--json]\n       byway-crash-tests flips [ONE_BYTE_OF_SO_MANY]\n       byway-crash-tests faults";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ended = match args.split_first() {
        Some((first, rest)) if first == "live" => live(rest),
        Some((first, rest)) if first == "serve" => serve(rest),
        Some((first, rest)) if first == "writers" => writers(rest),
        Some((first, rest)) if first == "block-writers" => block_writers(rest),
        Some((first, rest)) if first == "put" => put(rest),
        Some((first, rest)) if first == "flips" => flips(rest),
        Some((first, _)) if first == "faults" => faults(),
        _ => kill(&args),
    };
    match ended {
        Ok(code) => code,
        Err(said) => {
            eprintln!("{said}");
            ExitCode::from(2)
        }
    }
}

/// A writer, in a process of its own.
fn live(args: &[String]) -> Result<ExitCode, String> {
    Life::from_args(args)?.live(|| println!("open"))?;
    Ok(ExitCode::SUCCESS)
}

/// Several threads that store, in a process of their own, to the device that a URI names. A file keeps the versions.
fn writers(args: &[String]) -> Result<ExitCode, String> {
    let [uri, versions] = args else { return Err(USAGE.to_owned()) };
    byway_crash_tests::writers::store(uri, Path::new(versions), || println!("open"))?;
    Ok(ExitCode::SUCCESS)
}

/// The same of threads that write blocks.
fn block_writers(args: &[String]) -> Result<ExitCode, String> {
    let [uri, versions] = args else { return Err(USAGE.to_owned()) };
    byway_crash_tests::block_writers::write(uri, Path::new(versions), || println!("open"))?;
    Ok(ExitCode::SUCCESS)
}

/// A server, in a process of its own: of the device that a URI names, at a socket or an address, asleep or polling while idle. It says
/// what opens it.
fn serve(args: &[String]) -> Result<ExitCode, String> {
    let [uri, place, idle] = args else { return Err(USAGE.to_owned()) };
    let idle = if idle == "poll" { Idle::Poll } else { Idle::Sleep };
    let at = match place.parse() {
        Ok(address) => ServeOptions::over_tcp(TcpOptions::at(address)),
        Err(_) => ServeOptions::at(place),
    };
    let served = byway::serve::serve(uri, &at.idle(idle)).map_err(|error| error.to_string())?;
    match served.tcp_address() {
        Some(address) => println!("tcp://{address}/{}", served.nqn()),
        None => println!("vfio-user:{place}"),
    }
    served.run(|_| {}).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// A host, in a process of its own: it stores long values to the device that a URI names, without end.
fn put(args: &[String]) -> Result<ExitCode, String> {
    let [uri] = args else { return Err(USAGE.to_owned()) };
    let said = |error: byway::Error| error.to_string();
    let mut pairs = byway::open(uri).and_then(|device| device.kv(None)).map_err(said)?;
    println!("open");
    for step in 0.. {
        let key = (step % u64::from(LONG_KEYS)) as u16;
        pairs.put(&key_of(key), &value_of(step, key, LONG_BYTES)).map_err(said)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Flips bits of images, and says what came of it by structure.
fn flips(args: &[String]) -> Result<ExitCode, String> {
    let every = args.first().map_or(Ok(1), |arg| arg.parse::<u64>().map_err(|_| USAGE.to_owned()))?;
    let image = default_dir().join(format!("byway-flips-{}.img", std::process::id()));
    let mut broken = 0;
    // A panic is a verdict here, and reported as such.
    std::panic::set_hook(Box::new(|_| {}));
    for tallied in byway_crash_tests::flip::everywhere(&image, every, &mut |said| eprintln!("{said}"))? {
        broken += tallied.tally.broken + tallied.going_on.broken + tallied.repaired.broken;
        println!("{}", serde_json::to_string(&tallied).map_err(|error| error.to_string())?);
    }
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails each operation of a script, in each way, and says what came of it.
fn faults() -> Result<ExitCode, String> {
    let place = |name| default_dir().join(format!("byway-faults-{}.{name}", std::process::id()));
    let (base, image) = (place("base"), place("img"));
    let script = Script::new(&base, "&transfer=adaptive")?;
    let mut broken = 0;
    for (on, full) in [(On::Writes, false), (On::Writes, true), (On::Reads, false)] {
        let operations = script.operations(on, &image)?;
        for (lasts, at) in
            [false, true].into_iter().flat_map(|lasts| (0..operations).map(move |at| (lasts, at)))
        {
            let fault = Fault { on, at, lasts, full };
            let ran = script.run(&image, fault);
            if let Err(said) = &ran {
                broken += 1;
                eprintln!("{fault:?}: {said}");
            }
            println!(
                "{}",
                serde_json::json!({ "fault": fault, "outcome": ran.as_ref().ok(), "broken": ran.as_ref().err() })
            );
        }
    }
    let _ = (std::fs::remove_file(&base), std::fs::remove_file(&image));
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn kill(args: &[String]) -> Result<ExitCode, String> {
    let Wanted { json, run } = Wanted::parse(args)?;
    let (mut kept, mut broken, mut acknowledged) = (0, 0, 0);
    let started = std::time::Instant::now();
    run.go(&mut |record: &Record| {
        acknowledged += record.acknowledged;
        match &record.verdict {
            Verdict::Kept => kept += 1,
            Verdict::Broken(said) => {
                broken += 1;
                eprintln!("kill {}, {} by {}: {said}", record.number, record.workload, record.method);
            }
        }
        match serde_json::to_string(record) {
            Ok(line) if json => println!("{line}"),
            _ => {}
        }
    });
    // What did not come out whole stays there.
    let _ = std::fs::remove_dir(&run.dir);
    eprintln!(
        "{} kills of seed {}: {kept} kept, {broken} broken; {acknowledged} acknowledged commands; {:.1} s",
        kept + broken,
        run.seed,
        started.elapsed().as_secs_f64()
    );
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Wanted {
    json: bool,
    run: Run,
}

impl Wanted {
    fn parse(args: &[String]) -> Result<Self, String> {
        let writer = std::env::current_exe().map_err(|error| error.to_string())?;
        let (mut json, mut workloads) = (false, Vec::new());
        let (mut kills, mut seed, mut dir) = (200, 1, default_dir());
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--json" {
                json = true;
                continue;
            }
            let value = args.next().ok_or(USAGE)?;
            let number = || value.parse::<u64>().map_err(|_| format!("{value:?} is no number\n{USAGE}"));
            match arg.as_str() {
                "--kills" => kills = number()?,
                "--seed" => seed = number()?,
                "--workload" => workloads.push(value.parse()?),
                "--dir" => dir = value.into(),
                _ => return Err(USAGE.into()),
            }
        }
        if workloads.is_empty() {
            workloads = Workload::ALL.to_vec();
        }
        let dir = dir.join(format!("byway-crash-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(Self { json, run: Run { writer, dir, seed, kills, workloads } })
    }
}

/// Memory where there is a file system of it: kills are many, and it is the process that dies, not the machine.
fn default_dir() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}
