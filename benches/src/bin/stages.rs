//! Instructions of each stage of a put and of an inline write, counted by callgrind.
//!
//! `stages` runs itself under `valgrind --tool=callgrind` once for each case and attributes every instruction to a
//! stage by the chain of inlined functions it stands in, so nothing is kept from inlining for the sake of the count.
//! `stages run CASE COUNT` is what runs there. See `benches/stages.sh`.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use byway_benches::callgrind::Profile;
use byway_benches::stage::{self, Budget, STAGES};

/// Calls that are counted, after as many that are not.
const CALLS: u32 = 2000;

/// What is measured: its name, the device, and whether it is a put of 32 bytes or a write of 512.
const CASES: [(&str, &str, Call); 5] = [
    ("nvm-write-512-inline", "null:1G?transfer=inline&ledger=off&flash=off", Call::Write),
    ("kv-put-32-hybrid", "ram:1G?transfer=hybrid&ledger=off&flash=off", Call::Put),
    ("kv-put-32-hybrid-ledger", "ram:1G?transfer=hybrid&ledger=on&flash=off", Call::Put),
    ("kv-put-32-inline", "ram:1G?transfer=inline&ledger=off&flash=off", Call::Put),
    ("kv-put-32-prp", "ram:1G?transfer=prp&ledger=off&flash=off", Call::Put),
];

#[derive(Debug, Clone, Copy)]
enum Call {
    Write,
    Put,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [run, case, count] = arguments.as_slice()
        && run == "run"
    {
        return measure(case, count.parse()?);
    }
    let json = arguments.iter().any(|argument| argument == "--json");
    let lines = arguments.iter().any(|argument| argument == "--lines");
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let chosen = CASES.iter().filter(|(name, ..)| wanted.is_empty() || wanted.iter().any(|w| w == name));
    let mut budgets = Vec::new();
    for (name, ..) in chosen {
        let profile = count(name)?;
        if lines {
            print!("{}", stage::lines(&profile, CALLS));
        }
        budgets.push(stage::budget(name, &profile, CALLS));
    }
    match json {
        true => budgets.iter().for_each(|budget| println!("{}", budget.json())),
        false => print_table(&budgets),
    }
    Ok(())
}

fn print_table(budgets: &[Budget]) {
    print!("{:26}", "instructions of one call");
    STAGES.iter().for_each(|stage| print!("{stage:>10}"));
    println!("{:>10}", "total");
    for budget in budgets {
        print!("{:26}", budget.case);
        budget.stages.iter().for_each(|instructions| print!("{instructions:>10.0}"));
        println!("{:>10.0}", budget.total());
    }
}

/// Runs a case under callgrind.
fn count(case: &str) -> anyhow::Result<Profile> {
    let out = std::env::temp_dir().join(format!("byway-stages-{}-{case}.out", std::process::id()));
    let program = std::env::current_exe()?;
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--compress-strings=no"])
        .args(["--compress-pos=no", "--collect-atstart=no", "--toggle-collect=*stages::counted*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(&program)
        .args(["run", case, &CALLS.to_string()])
        .output();
    let ran =
        ran.map_err(|e| anyhow::anyhow!("valgrind cannot be run ({e}); install the package `valgrind`"))?;
    anyhow::ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(&out)?;
    std::fs::remove_file(&out)?;
    Profile::parse(&text, &program)
}

fn measure(case: &str, count: u32) -> anyhow::Result<()> {
    let (_, uri, call) =
        CASES.iter().find(|(name, ..)| *name == case).ok_or_else(|| anyhow::anyhow!("no case {case}"))?;
    let device = byway::open(uri)?;
    match call {
        Call::Write => {
            let mut nvm = device.nvm(None)?;
            repeat(count, |n| nvm.write(u64::from(n % 1000), &[0x5a; 512]))?;
        }
        Call::Put => {
            let mut kv = device.kv(None)?;
            repeat(count, |n| kv.put(&n.wrapping_mul(0x9e37_79b9).to_le_bytes(), &[7; 32]))?;
        }
    }
    Ok(())
}

fn repeat(count: u32, mut call: impl FnMut(u32) -> byway::Result<()>) -> byway::Result<()> {
    for n in 0..count {
        call(n)?;
    }
    let start = Instant::now();
    counted(count, call)?;
    println!("{:.1} ns a call", start.elapsed().as_nanos() as f64 / f64::from(count));
    // Closing writes what is in RAM to the media, which is no part of a call.
    std::process::exit(0)
}

/// What is counted: callgrind collects inside of this function.
#[inline(never)]
fn counted(count: u32, mut call: impl FnMut(u32) -> byway::Result<()>) -> byway::Result<()> {
    for n in count..black_box(2 * count) {
        call(n)?;
    }
    Ok(())
}
