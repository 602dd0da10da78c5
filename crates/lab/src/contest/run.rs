//! One process, every engine, by turns: a round of one engine, the same round of the next.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use byway_console::terminal::{Interrupt, Progress};
use byway_measure::random::Random;
use byway_measure::workload::Values;
use hdrhistogram::Histogram;

use super::engine::Engine;
use super::key::{Key, Keys};
use super::mixgraph::Mixgraph;
use super::op::Op;
use super::score::{KvRow, Score};
use super::stopwatch::{self, Taken};
use super::store::{Guarantee, Opening, Store};
use super::work::{Act, Group, Step, Sum, Walk, Worker};
use super::ycsb::{Letter, Ycsb};

/// Rounds of each kind of work in a pass.
const ROUNDS: u64 = 20;
/// Operations of work that is synced.
const SYNCED_OPS: u64 = 5000;
/// Operations of a round of work that is synced: a multiple of [`TOGETHER`].
const SYNCED_ROUND: u64 = 320;
/// Commands outstanding, or puts in a batch or transaction, where many are.
const TOGETHER: usize = 32;
/// Pairs of a scan.
const SCANNED_PAIRS: u16 = 100;
/// Keys of a listing that are timed together.
const TIMED_KEYS: u64 = 1000;
/// All engines' files are synced after so many bytes: else the kernel throttles the engine that writes next.
const UNSYNCED_BYTES: u64 = 512 << 20;
/// Longest value that mixgraph writes.
const MIXED_BYTES: u32 = 1024;

/// What is compared, and how much of it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Engines.
    pub engines: Vec<Engine>,
    /// Kinds of work, in their order.
    pub ops: Vec<Op>,
    /// Keys.
    pub count: u64,
    /// Passes.
    pub passes: u32,
    /// Client threads.
    pub threads: u32,
    /// Decides keys, values and steps.
    pub seed: u64,
    /// Folder in which each engine makes its store.
    pub dir: PathBuf,
    /// More options of Byway's URI.
    pub options: String,
}

impl Plan {
    /// Operations of a kind of work in one pass.
    pub fn operations(&self, op: Op) -> u64 {
        match op {
            Op::Put | Op::PutQd32 | Op::PutBatch32 => self.count,
            Op::Get | Op::GetQd32 | Op::List | Op::ListGet => self.count,
            Op::Scan => (self.count / u64::from(SCANNED_PAIRS)).max(1),
            Op::Mixgraph => (self.count * 3 / 10).max(1),
            Op::Ycsb(Letter::E) => (self.count * 3 / 100).max(1),
            Op::Ycsb(_) => (self.count * 3 / 10).max(1),
            Op::PutFlush | Op::PutFlushQd32 => SYNCED_OPS.min(self.count),
        }
    }

    /// Operations of all engines in values of one length.
    pub fn operations_of_all(&self, value_bytes: u32) -> u64 {
        let engines = self.engines.iter().flat_map(|engine| engine.configurations(value_bytes));
        let of = |engine: Engine| self.ops.iter().filter(move |op| op.concerns(engine));
        let once: u64 = engines
            .map(|engine| self.loaded(engine) + of(engine).map(|op| self.operations(*op)).sum::<u64>())
            .sum();
        once * u64::from(self.passes)
    }

    /// Keys that an engine is given before anything is measured.
    fn loaded(&self, engine: Engine) -> u64 {
        let is_concerned = self.ops.iter().any(|op| op.concerns(engine));
        if is_concerned && !self.ops.contains(&Op::Put) { self.count } else { 0 }
    }
}

/// Values of one length, every engine, every kind of work.
pub struct Contest<'a> {
    plan: &'a Plan,
    value_bytes: u32,
    keys: Keys,
    sorted: Vec<Key>,
    values: Values,
    scores: BTreeMap<(Op, Engine), Score>,
    interrupt: &'a Interrupt,
    progress: &'a Progress,
    pass: u32,
    unsynced_bytes: u64,
}

/// An engine and its open store.
struct Contestant {
    engine: Engine,
    store: Box<dyn Store>,
}

/// One round of work.
#[derive(Clone, Copy)]
enum Round<'a> {
    Steps(&'a [Step]),
    Together(&'a [Step], Group),
    GetTogether(&'a [Step]),
    Walk(Walk),
}

impl Round<'_> {
    fn ops(&self) -> u64 {
        match self {
            Round::Steps(steps) | Round::Together(steps, _) | Round::GetTogether(steps) => steps.len() as u64,
            Round::Walk(walk) => walk.count,
        }
    }
}

impl<'a> Contest<'a> {
    /// A contest.
    pub fn new(plan: &'a Plan, value_bytes: u32, interrupt: &'a Interrupt, progress: &'a Progress) -> Self {
        let keys = Keys::new(plan.seed);
        Self {
            plan,
            value_bytes,
            keys,
            sorted: keys.sorted(plan.count),
            values: Values::new(value_bytes.max(MIXED_BYTES), plan.seed),
            scores: BTreeMap::new(),
            interrupt,
            progress,
            pass: 0,
            unsynced_bytes: 0,
        }
    }

    /// Runs every pass; says what came out, in the order of work and engines.
    ///
    /// # Errors
    /// What an engine says, with its name; engines that read different values; an interruption.
    pub fn run(mut self) -> Result<Vec<KvRow>> {
        for pass in 0..self.plan.passes {
            self.pass = pass;
            self.run_pass()?;
        }
        Ok(self.rows())
    }

    fn run_pass(&mut self) -> Result<()> {
        let folder = tempfile::Builder::new().prefix("byway-bench-").tempdir_in(&self.plan.dir)?;
        let (synced, unsynced): (Vec<Op>, Vec<Op>) = self.plan.ops.iter().partition(|op| op.is_synced());
        let contestants = self.open(folder.path(), Guarantee::Process, &self.plan.ops)?;
        if !unsynced.contains(&Op::Put) {
            self.load(&contestants)?;
        }
        for op in unsynced {
            self.compete(op, &contestants)?;
        }
        drop(contestants);
        if synced.is_empty() {
            return Ok(());
        }
        self.sync()?;
        let contestants = self.open(folder.path(), Guarantee::Media, &synced)?;
        stopwatch::rest();
        synced.into_iter().try_for_each(|op| self.compete(op, &contestants))
    }

    /// Opens the stores of all engines that some kinds of work concern.
    fn open(&self, folder: &Path, guarantee: Guarantee, ops: &[Op]) -> Result<Vec<Contestant>> {
        let engines = self.plan.engines.iter().flat_map(|engine| engine.configurations(self.value_bytes));
        let concerned = engines.filter(|engine| ops.iter().any(|op| op.concerns(*engine)));
        let opening = self.opening(guarantee);
        let open = |engine: Engine| {
            let folder = folder.join(engine.name());
            std::fs::create_dir_all(&folder)?;
            Ok(Contestant { engine, store: engine.open(&folder, &opening)? })
        };
        concerned.map(open).collect()
    }

    fn opening(&self, guarantee: Guarantee) -> Opening {
        Opening {
            guarantee,
            keys: self.plan.count + self.plan.count / 20 + 2 * SYNCED_OPS,
            value_bytes: self.value_bytes.max(MIXED_BYTES),
            record_bytes: self.value_bytes.max(64),
            options: self.plan.options.clone(),
        }
    }

    /// Stores every key, without a clock.
    fn load(&mut self, contestants: &[Contestant]) -> Result<()> {
        let steps = self.stored(0..self.plan.count);
        for contestant in contestants {
            self.progress.say(&format!("load {}", contestant.engine.name()));
            let mut worker = Worker::new(contestant.store.session()?);
            for steps in steps.chunks(1 << 14) {
                worker.take(steps, &self.values, None)?;
                self.progress.advance(steps.len() as u64);
                self.interrupt.check()?;
            }
        }
        stopwatch::rest();
        self.sync()
    }

    /// One kind of work, by every engine that it concerns.
    fn compete(&mut self, op: Op, contestants: &[Contestant]) -> Result<()> {
        let field: Vec<&Contestant> =
            contestants.iter().filter(|contestant| op.concerns(contestant.engine)).collect();
        let sessions = field.iter().map(|contestant| contestant.store.session().map(Worker::new));
        let mut workers = sessions.collect::<Result<Vec<_>>>()?;
        for contestant in &field {
            self.scores.entry((op, contestant.engine)).or_insert_with(Score::new).begin();
        }
        let sorted = std::mem::take(&mut self.sorted);
        let mut mix = self.mix(op, &sorted);
        let total = self.plan.operations(op);
        let size = if op.is_synced() { SYNCED_ROUND } else { total.div_ceil(ROUNDS) };
        for (round, begin) in (0..total).step_by(size as usize).enumerate() {
            let range = begin..(begin + size).min(total);
            let steps = self.steps(op, range.clone(), mix.as_mut());
            let work = match op {
                Op::List | Op::ListGet => Round::Walk(Walk {
                    from: sorted[begin as usize],
                    count: range.end - range.start,
                    values: op == Op::ListGet,
                    page: TIMED_KEYS.min(size),
                }),
                Op::PutQd32 | Op::PutFlushQd32 | Op::PutBatch32 => {
                    Round::Together(&steps, Group { together: TOGETHER, is_atomic: op == Op::PutBatch32 })
                }
                Op::GetQd32 => Round::GetTogether(&steps),
                _ => Round::Steps(&steps),
            };
            for turn in 0..field.len() {
                let index = (turn + round) % field.len();
                self.progress.say(&format!(
                    "{} {} {} B",
                    op.name(),
                    field[index].engine.name(),
                    self.value_bytes
                ));
                self.turn(op, round, field[index], &mut workers[index], work)
                    .with_context(|| format!("{} of {}", op.name(), field[index].engine.name()))?;
            }
            self.spare_the_page_cache(&steps, field.len())?;
        }
        drop(mix);
        self.sorted = sorted;
        let sums: Vec<Sum> = workers.iter().map(|worker| worker.sum).collect();
        for (contestant, sum) in field.iter().zip(&sums) {
            let first = field[0].engine.name();
            ensure!(*sum == sums[0], "{} read other values than {first}", contestant.engine.name());
        }
        Ok(())
    }

    /// One round of one engine.
    fn turn(
        &mut self,
        op: Op,
        round: usize,
        contestant: &Contestant,
        worker: &mut Worker,
        work: Round,
    ) -> Result<()> {
        // Reading the clock at every step takes its time: every other round goes without.
        let is_short = matches!(work, Round::Steps(_)) && !op.is_synced();
        let plain = is_short && (round + self.pass as usize) % 2 == 1;
        let Some(score) = self.scores.get_mut(&(op, contestant.engine)) else { return Ok(()) };
        let taken = match work {
            Round::Steps(steps) if self.plan.threads > 1 => {
                let times = (!plain).then(|| score.times());
                divided(contestant.store.as_ref(), worker, steps, &self.values, self.plan.threads, times)?
            }
            Round::Steps(steps) => {
                let times = (!plain).then(|| score.times());
                stopwatch::time(|| worker.take(steps, &self.values, times))?.1
            }
            Round::Together(steps, group) => {
                stopwatch::time(|| worker.take_together(steps, &self.values, group, score.times()))?.1
            }
            Round::GetTogether(steps) => {
                stopwatch::time(|| worker.get_together(steps, TOGETHER, score.times()))?.1
            }
            Round::Walk(walk) => stopwatch::time(|| worker.walk(&walk, score.times()))?.1,
        };
        score.add(work.ops(), taken, plain || !is_short);
        self.progress.advance(work.ops());
        Ok(self.interrupt.check()?)
    }

    /// The steps of a mix, which go on from round to round.
    fn mix<'m>(&self, op: Op, sorted: &'m [Key]) -> Box<dyn Iterator<Item = Step> + 'm> {
        let seed = self.plan.seed ^ u64::from(self.pass);
        match op {
            Op::Mixgraph => Box::new(Mixgraph::new(sorted, seed)),
            Op::Ycsb(letter) => {
                Box::new(Ycsb::new(letter, self.keys, self.plan.count, self.value_bytes, seed))
            }
            _ => Box::new(std::iter::empty()),
        }
    }

    /// The steps of a round.
    fn steps(&self, op: Op, range: std::ops::Range<u64>, mix: &mut dyn Iterator<Item = Step>) -> Vec<Step> {
        let count = self.plan.count;
        let mut random =
            Random::new(self.plan.seed ^ range.start.rotate_left(32) ^ u64::from(self.pass) ^ 0xbe);
        let any = |act| {
            move |_: u64| Step { act, key: self.keys.key(random.below(count)), value: 0, value_bytes: 0 }
        };
        match op {
            Op::Put | Op::PutQd32 | Op::PutBatch32 => self.stored(range),
            Op::Get | Op::GetQd32 => range.map(any(Act::Get)).collect(),
            Op::Scan => range.map(any(Act::Scan(SCANNED_PAIRS))).collect(),
            Op::Mixgraph | Op::Ycsb(_) => mix.take((range.end - range.start) as usize).collect(),
            Op::List | Op::ListGet => Vec::new(),
            Op::PutFlush => self.stored(count + range.start..count + range.end),
            Op::PutFlushQd32 => self.stored(count + SYNCED_OPS + range.start..count + SYNCED_OPS + range.end),
        }
    }

    fn stored(&self, numbers: std::ops::Range<u64>) -> Vec<Step> {
        let put = |number: u64| Step {
            act: Act::Put,
            key: self.keys.key(number),
            value: number as u32,
            value_bytes: self.value_bytes,
        };
        numbers.map(put).collect()
    }

    /// Syncs the file system once much was written.
    fn spare_the_page_cache(&mut self, steps: &[Step], engines: usize) -> Result<()> {
        let bytes: u64 = steps.iter().map(|step| u64::from(step.value_bytes)).sum();
        self.unsynced_bytes += bytes * engines as u64;
        if self.unsynced_bytes < UNSYNCED_BYTES { Ok(()) } else { self.sync() }
    }

    fn sync(&mut self) -> Result<()> {
        self.unsynced_bytes = 0;
        self.progress.say("sync");
        let dir = std::fs::File::open(&self.plan.dir)?;
        Ok(rustix::fs::syncfs(dir)?)
    }

    fn rows(&self) -> Vec<KvRow> {
        let row = |(&(op, engine), score): (&(Op, Engine), &Score)| {
            let (ops_per_s, cpu_us_per_op) = score.medians();
            let guarantee = if op.is_synced() { Guarantee::Media } else { Guarantee::Process };
            let is_together = matches!(op, Op::PutQd32 | Op::PutBatch32 | Op::PutFlushQd32);
            let together = if is_together { TOGETHER as u64 } else { 1 };
            KvRow {
                engine: engine.name().to_owned(),
                op: op.name().to_owned(),
                value_size: self.value_bytes,
                count: score.ops(),
                ops_per_s,
                cpu_us_per_op,
                p50_us: score.time_us(50.0),
                p99_us: score.time_us(99.0),
                p999_us: score.time_us(99.9),
                guarantee: guarantee.name().to_owned(),
                acknowledged_together: together.max(engine.puts_acknowledged_together()),
                threads: self.plan.threads,
                passes: score.passes(),
                rounds_per_s: score.rounds_per_s().to_vec(),
            }
        };
        self.scores.iter().map(row).collect()
    }
}

/// The steps in equal parts, each by a thread with a session of its own. The wall time is from the first to begin to the
/// last to end.
fn divided(
    store: &dyn Store,
    first: &mut Worker,
    steps: &[Step],
    values: &Values,
    threads: u32,
    times: Option<&mut Histogram<u64>>,
) -> Result<Taken> {
    let parts: Vec<&[Step]> = steps.chunks(steps.len().div_ceil(threads as usize).max(1)).collect();
    let barrier = Barrier::new(parts.len());
    let blank = times.as_deref().map(Histogram::new_from);
    let client = |part: &[Step]| -> Result<(Instant, Instant, Sum, Option<Histogram<u64>>)> {
        let session = store.session();
        let mut own = blank.clone();
        barrier.wait();
        let mut worker = Worker::new(session?);
        let began = Instant::now();
        worker.take(part, values, own.as_mut())?;
        Ok((began, Instant::now(), worker.sum, own))
    };
    let (done, mut taken) = stopwatch::time(|| {
        thread::scope(|scope| {
            let clients: Vec<_> = parts.iter().map(|part| scope.spawn(|| client(part))).collect();
            let join = |client: thread::ScopedJoinHandle<'_, _>| {
                client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            clients.into_iter().map(join).collect::<Result<Vec<_>>>()
        })
    })?;
    let (began, ended) = (done.iter().map(|part| part.0).min(), done.iter().map(|part| part.1).max());
    taken.wall = ended.zip(began).map_or(taken.wall, |(ended, began)| ended - began);
    for (_, _, sum, _) in &done {
        first.sum.merge(*sum);
    }
    if let Some(times) = times {
        done.iter().filter_map(|part| part.3.as_ref()).try_for_each(|own| times.add(own))?;
    }
    Ok(taken)
}
