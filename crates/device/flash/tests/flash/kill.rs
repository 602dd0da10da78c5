//! A process that is killed at any instruction: what it acknowledged is there, whole, and nothing else changed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{MIB, create, extent, kv, nvm, open, page_of, read_unit, unit_of};
use byway_flash::{Cause, ExtentId, Flash, MediaKind};
use byway_kit::spread;

const IMAGE: &str = "BYWAY_TEST_KILL_IMAGE";
const FIRST_STEP: &str = "BYWAY_TEST_KILL_FIRST_STEP";
const SIZE: u64 = 6 * MIB;
const UNITS: u64 = SIZE / 2 / 4096;
const PAGES: u64 = SIZE / 2 / 16384;
const KILLS: u64 = 20;

/// What the writer does in a step: it follows from the step's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Target {
    Unit(u64),
    Page(u64),
    OwnerState,
    AccessState,
}

fn target_of(step: u64) -> Target {
    let mixed = spread(step);
    match mixed % 16 {
        0 => Target::OwnerState,
        15 => Target::AccessState,
        1..=4 => Target::Page(mixed / 16 % PAGES),
        _ => Target::Unit(mixed / 16 % UNITS),
    }
}

fn do_step(flash: &mut Flash, blocks: ExtentId, pairs: ExtentId, step: u64) {
    match target_of(step) {
        Target::Unit(unit) => flash.write_units(blocks, unit, &unit_of(step), Cause::Host, &mut 0),
        Target::Page(page) => {
            let data = page_of(flash, step);
            flash.write_page(pairs, page, &data, Cause::Host, &mut 0)
        }
        Target::OwnerState => flash.set_owner_state(2, &step.to_le_bytes().repeat(32)),
        Target::AccessState => flash.set_access_state(2, &step.to_le_bytes().repeat(48)),
    }
    .unwrap();
}

fn is_step(flash: &mut Flash, blocks: ExtentId, pairs: ExtentId, target: Target, step: u64) -> bool {
    match target {
        Target::Unit(unit) => read_unit(flash, blocks, unit).unwrap() == unit_of(step),
        Target::Page(page) => {
            let mut data = vec![0; 16384];
            flash.read(pairs, page * 16384, &mut data, Cause::Host, &mut 0).unwrap();
            data == page_of(flash, step)
        }
        Target::OwnerState => flash.namespace(2).unwrap().owner_state[..] == step.to_le_bytes().repeat(32),
        Target::AccessState => flash.namespace(2).unwrap().access_state[..] == step.to_le_bytes().repeat(48),
    }
}

/// The writer: says each step once it is done, until it is killed.
fn write_until_killed(path: &Path) {
    let mut step: u64 = std::env::var(FIRST_STEP).unwrap().parse().unwrap();
    let mut flash = open(path).unwrap();
    let (blocks, pairs) = (extent(&flash, 1), extent(&flash, 2));
    let mut out = std::io::stdout();
    loop {
        do_step(&mut flash, blocks, pairs, step);
        out.write_all(format!("\nstep {step}\n").as_bytes()).unwrap();
        step += 1;
    }
}

/// Runs the writer for some time from its beginning on, or from its first step on, kills it, and says the last step it said.
fn run_and_kill(path: &Path, first_step: u64, life: Duration, from_first_step: bool) -> Option<u64> {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::a_killed_writer_loses_and_tears_nothing", "--nocapture"])
        .env(IMAGE, path)
        .env(FIRST_STEP, first_step.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(writer.stdout.take().unwrap());
    let (begun, begins) = channel();
    let last = std::thread::spawn(move || {
        let lines = said.lines().map_while(Result::ok);
        let steps = lines.filter_map(|line| line.strip_prefix("step ")?.parse().ok());
        // A parent that does not wait for the start has dropped the receiver.
        steps.inspect(|_| _ = begun.send(())).last()
    });
    if from_first_step {
        begins.recv().expect("it comes to write");
    }
    std::thread::sleep(life);
    writer.kill().unwrap();
    writer.wait().unwrap();
    last.join().unwrap()
}

#[test]
fn a_killed_writer_loses_and_tears_nothing() {
    if let Some(path) = std::env::var_os(IMAGE) {
        return write_until_killed(Path::new(&path));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    drop(create(MediaKind::File(path.clone()), SIZE, &[nvm(SIZE / 2), kv(SIZE / 2)]));
    let (mut last_of, mut next) = (HashMap::new(), 1);
    for kill in 0..KILLS {
        let life = Duration::from_micros(5_000 + kill * 7_919 % 60_000);
        // A few may be killed before their first step: a busy machine takes long to begin.
        if let Some(last) = run_and_kill(&path, next, life, kill % 4 > 0) {
            last_of.extend((next..=last).map(|step| (target_of(step), step)));
            next = last + 1;
        }
        let mut flash = open(&path).unwrap();
        let (blocks, pairs) = (extent(&flash, 1), extent(&flash, 2));
        assert_eq!(flash.check(), []);
        // The step that was under way may be done or not; it is the only one that may.
        let under_way = target_of(next);
        if is_step(&mut flash, blocks, pairs, under_way, next) {
            last_of.insert(under_way, next);
        }
        for (target, step) in &last_of {
            assert!(is_step(&mut flash, blocks, pairs, *target, *step), "{target:?} of step {step}");
        }
        next += 1;
    }
    assert!(next > 10 * KILLS, "the writer came to write");
}
