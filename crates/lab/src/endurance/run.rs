//! The run itself.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use byway::embedded::{EmbeddedDevice, FlashReport};
use byway::{Cause, CreateOptions, FlashCounters, Kv, MediaNamespaceKind, NewNamespace, Nvm};
use byway_console::terminal::{Interrupt, Progress};
use byway_measure::random::Random;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use super::greedy::{Greedy, Shape};
use super::idle::IdleQueue;
use super::{Kind, LongestPut, Pass, Plan, Summary, UpkeepDone, Wear};

const UNIT_BYTES: u64 = 4096;

/// What a pair takes beside its value: header, key, and what is reserved for it in the index. Of it, too, the capacity of a
/// namespace is made.
const PAIR_BYTES: u64 = 20 + KEY_BYTES + 36;
const KEY_BYTES: u64 = 8;

/// Blocks that the device keeps free for garbage collection whatever happens.
const RESERVED_BLOCKS: u32 = 3;

/// Passes that fill the empty device.
const FILLS: [&str; 3] = ["fill", "fill 2", "fill 3"];

/// Writes between two looks at the bar and for an interruption.
const STEP: u64 = 1024;

/// A device, what is written to it, and the model beside it.
pub struct Run<'a> {
    plan: &'a Plan,
    /// Dropped before the device.
    _idle: Vec<IdleQueue>,
    device: EmbeddedDevice,
    target: Target,
    /// Writes that fill the device as far as it is to be filled.
    writes: u64,
    model: Option<Greedy>,
    interrupt: &'a Interrupt,
    progress: &'a Progress,
    passes: Vec<Pass>,
}

enum Target {
    Units(Nvm),
    Pairs(Box<Kv>, Vec<u8>),
}

impl Target {
    fn write(&mut self, index: u64, step: u64) -> byway::Result<()> {
        match self {
            Self::Units(nvm) => {
                let mut unit = [0x5A; UNIT_BYTES as usize];
                unit[..8].copy_from_slice(&step.to_le_bytes());
                nvm.write(index, &unit)
            }
            Self::Pairs(kv, value) => {
                value.iter_mut().zip(step.to_le_bytes()).for_each(|(place, byte)| *place = byte);
                kv.put(&index.to_be_bytes(), value)
            }
        }
    }

    const fn payload_bytes(&self) -> u64 {
        match self {
            Self::Units(_) => UNIT_BYTES,
            Self::Pairs(_, value) => value.len() as u64,
        }
    }
}

impl<'a> Run<'a> {
    /// Makes the device at `image`.
    ///
    /// # Errors
    /// A plan that cannot be, or what the file system says.
    pub fn new(
        plan: &'a Plan,
        image: &Path,
        interrupt: &'a Interrupt,
        progress: &'a Progress,
    ) -> Result<Self> {
        let blocks = MediaNamespaceKind::Nvm { lba_bytes: UNIT_BYTES as u32 };
        let namespace = match plan.kind {
            Kind::Nvm => NewNamespace { kind: blocks, size_bytes: None },
            Kind::Kv => NewNamespace::KV,
        };
        let options = CreateOptions::new(plan.size_bytes)
            .profile(plan.profile.clone())
            .namespaces([namespace])
            .over_provisioning_percent(plan.over_provisioning_percent);
        let uri = byway::uri::of_image(image);
        byway::create(&uri, &options)?;
        let uri = byway::uri::with_options(
            &uri,
            &format!("flash=off&ledger=off&gc={}&upkeep={}", plan.gc, plan.upkeep),
        );
        let device = byway::embedded::open(&uri)?;
        let filled_bytes = plan.size_bytes / 100 * u64::from(plan.fill_percent);
        let (target, writes) = match plan.kind {
            Kind::Nvm => (Target::Units(device.nvm(None)?), filled_bytes / UNIT_BYTES),
            Kind::Kv => {
                let pair_bytes = PAIR_BYTES + u64::from(plan.value_bytes);
                let value = vec![0x5A; plan.value_bytes as usize];
                (Target::Pairs(Box::new(device.kv(None)?), value), filled_bytes / pair_bytes)
            }
        };
        ensure!(
            writes > 0,
            "a device of {} bytes cannot be filled by {} %",
            plan.size_bytes,
            plan.fill_percent
        );
        let model = (plan.kind == Kind::Nvm).then(|| Greedy::new(shape(&device.flash(), writes)));
        let idle = (0..plan.idle_queues).map(|_| IdleQueue::poll(device.queue()?)).collect::<Result<_>>()?;
        Ok(Self { plan, _idle: idle, device, target, writes, model, interrupt, progress, passes: Vec::new() })
    }

    /// Steps of the whole run, for its progress bar: writes to the device and to the model.
    fn steps(&self) -> u64 {
        let passes = u64::from(self.plan.overwrites) + FILLS.len() as u64;
        passes * self.writes * if self.model.is_some() { 2 } else { 1 }
    }

    /// Fills, overwrites, and says what that came to.
    ///
    /// # Errors
    /// What the device says, or an interruption.
    pub fn run(mut self) -> Result<(Vec<Pass>, Summary)> {
        let mut random = Random::new(self.plan.seed);
        let scattered = Scattered::new(self.writes);
        self.progress.set_total(self.steps());
        for name in FILLS {
            self.empty()?;
            self.pass(name, None, |step| scattered.at(step))?;
            self.run_model(name, |step| scattered.at(step) as u32)?;
        }
        for number in 1..=self.plan.overwrites {
            let mut order = random.clone();
            let (writes, skew) = (self.writes, self.plan.skew);
            let before = self.model.as_ref().map(|model| (model.written, model.moved));
            self.run_model(&number.to_string(), |_| skew.place(&mut random, writes) as u32)?;
            let model = self.model.as_ref().zip(before).map(|(model, (written, moved))| {
                1.0 + (model.moved - moved) as f64 / (model.written - written) as f64
            });
            self.pass(&number.to_string(), model, |_| skew.place(&mut order, writes))?;
            random = order;
        }
        Ok(self.summary())
    }

    /// Has the model do one pass, where there is one.
    fn run_model(&mut self, name: &str, mut place: impl FnMut(u64) -> u32) -> Result<()> {
        let Some(model) = &mut self.model else { return Ok(()) };
        self.progress.begin(&format!("endurance: model of {name}"), self.writes);
        for begin in (0..self.writes).step_by(STEP as usize) {
            let end = (begin + STEP).min(self.writes);
            (begin..end).for_each(|step| model.write(place(step)));
            self.progress.advance(end - begin);
            self.interrupt.check()?;
        }
        Ok(())
    }

    /// Empties the device. What is written then goes to blocks that were written before, once all of them were: it
    /// costs the host's page cache nothing new.
    fn empty(&mut self) -> Result<()> {
        match &mut self.target {
            Target::Units(nvm) => {
                let blocks =
                    u32::try_from(nvm.blocks()).context("the device is too large to be trimmed at once")?;
                nvm.trim(0, blocks)?;
            }
            Target::Pairs(kv, _) => self.device.format(kv.nsid(), 0, false)?,
        }
        Ok(())
    }

    fn pass(
        &mut self,
        name: &str,
        model_write_amplification: Option<f64>,
        mut index: impl FnMut(u64) -> u64,
    ) -> Result<()> {
        self.progress.begin(&format!("endurance: {name}"), self.writes);
        let before = self.device.flash().counters;
        let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
        let (started, cpu_started) = (Instant::now(), cpu_seconds());
        for step in 0..self.writes {
            let index = index(step);
            let began = Instant::now();
            self.target.write(index, step).with_context(|| format!("write {step} of pass {name}"))?;
            times.saturating_record(began.elapsed().as_nanos() as u64);
            if (step + 1).is_multiple_of(STEP) {
                self.interrupt.check()?;
                self.progress.advance(STEP);
            }
        }
        self.progress.advance(self.writes % STEP);
        let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu_started);
        let payload_bytes = (self.writes * self.target.payload_bytes()) as f64;
        let after = self.device.flash().counters;
        let us = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
        let by_cause = by_cause(&before, &after, payload_bytes);
        self.passes.push(Pass {
            pass: name.to_owned(),
            mb_per_s: payload_bytes / 1e6 / seconds,
            cpu_us_per_write: cpu_seconds * 1e6 / self.writes as f64,
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: us(1.0),
            write_amplification: by_cause.iter().map(|(_, part)| part).sum(),
            by_cause,
            model_write_amplification,
            erases: after.total().erases - before.total().erases,
        });
        Ok(())
    }

    fn longest_put(&self) -> Option<LongestPut> {
        match &self.target {
            Target::Units(_) => None,
            Target::Pairs(kv, _) => self.device.kv_stats(kv.nsid()).map(|stats| LongestPut::of(&stats)),
        }
    }

    fn summary(self) -> (Vec<Pass>, Summary) {
        let report = self.device.flash();
        let wear = report.health.wear;
        let wear = Wear { min: wear.min, mean: wear.mean, max: wear.max, variation: wear.variation() };
        let fills = self.passes.iter().filter(|pass| pass.pass.starts_with("fill"));
        let empty_mb_per_s = fills.clone().map(|pass| pass.mb_per_s).fold(0.0, f64::max);
        let empty_cpu_us = fills.map(|pass| pass.cpu_us_per_write).fold(f64::INFINITY, f64::min);
        let last = self.passes.last();
        let (last_mb_per_s, write_amplification, model_write_amplification) = last
            .map_or((0.0, 0.0, None), |pass| {
                (pass.mb_per_s, pass.write_amplification, pass.model_write_amplification)
            });
        let raw_bytes = report.geometry.raw_bytes() as f64;
        let summary = Summary {
            size_bytes: self.plan.size_bytes,
            fill_percent: self.plan.fill_percent,
            over_provisioning_percent: self.plan.over_provisioning_percent,
            raw_beyond_percent: (raw_bytes / self.plan.size_bytes as f64 - 1.0) * 100.0,
            gc: self.plan.gc.clone(),
            empty_mb_per_s,
            last_mb_per_s,
            kept: last_mb_per_s / empty_mb_per_s,
            kept_by_cpu: last.map_or(0.0, |pass| empty_cpu_us / pass.cpu_us_per_write),
            write_amplification,
            model_write_amplification,
            difference_percent: model_write_amplification
                .map(|model| (write_amplification / model - 1.0) * 100.0),
            wear,
            wear_spread: wear.spread(),
            wear_variation: wear.variation,
            model_wear: self.model.as_ref().map(Greedy::wear),
            longest_put: self.longest_put(),
            upkeep: UpkeepDone::of(&self.device.upkeep()),
        };
        (self.passes, summary)
    }
}

/// Processor time of this thread, which runs the device too.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn shape(report: &FlashReport, logical_units: u64) -> Shape {
    let geometry = &report.geometry;
    Shape {
        blocks: geometry.block_count(),
        units_per_block: geometry.units_per_block(),
        logical_units: logical_units as u32,
        kept_free: geometry.plane_count() / 2 + geometry.channels / 2 + RESERVED_BLOCKS,
    }
}

fn by_cause(before: &FlashCounters, after: &FlashCounters, payload_bytes: f64) -> Vec<(&'static str, f64)> {
    let part = |cause: Cause| {
        let bytes = after[cause].program_bytes - before[cause].program_bytes;
        (cause.name(), bytes as f64 / payload_bytes)
    };
    Cause::ALL.into_iter().map(part).filter(|(_, part)| *part > 0.0).collect()
}

/// Every number below a bound once, in steps of a stride coprime to it.
struct Scattered {
    bound: u64,
    stride: u64,
}

impl Scattered {
    fn new(bound: u64) -> Self {
        let divides = |a: u64, b: u64| {
            let (mut a, mut b) = (a, b);
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a != 1
        };
        // The golden section of the bound, or the next number that has no divisor in common with it.
        let mut stride = ((bound as f64 * 0.618_033_988_75) as u64).max(1);
        while divides(stride, bound) {
            stride += 1;
        }
        Self { bound, stride }
    }

    fn at(&self, step: u64) -> u64 {
        (u128::from(step) * u128::from(self.stride) % u128::from(self.bound)) as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::endurance::skew::Skew;

    #[test]
    fn scattered_numbers_come_once_each() {
        for bound in [1, 2, 6, 97, 1000, 4096] {
            let scattered = Scattered::new(bound);
            let mut all: Vec<u64> = (0..bound).map(|step| scattered.at(step)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..bound).collect::<Vec<_>>());
        }
    }

    fn small(gc: &str, overwrites: u32) -> Summary {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan {
            size_bytes: 48 << 20,
            profile: "cosmos".into(),
            over_provisioning_percent: 28,
            gc: gc.into(),
            upkeep: "off".into(),
            idle_queues: 0,
            kind: Kind::Nvm,
            value_bytes: 0,
            fill_percent: 95,
            overwrites,
            skew: Skew::NONE,
            seed: 1,
        };
        let (interrupt, progress) = (Interrupt::listen().unwrap(), Progress::of_phases("test", 0));
        let run = Run::new(&plan, &dir.path().join("image"), &interrupt, &progress).unwrap();
        let steps = run.steps();
        let summary = run.run().unwrap().1;
        assert_eq!(progress.counts(), (steps, steps), "every step is counted");
        summary
    }

    #[test]
    fn the_device_amplifies_and_wears_as_the_simple_model_says() {
        let summary = small("greedy", 5);
        let difference = summary.difference_percent.unwrap();
        assert!(difference.abs() < 10.0, "{summary:?}");
        let model = summary.model_wear.unwrap();
        assert!((summary.wear.mean / model.mean - 1.0).abs() < 0.1, "{summary:?}");
        assert!(summary.wear.max - summary.wear.min <= 4, "{summary:?}");
        assert!((summary.wear.variation - model.variation).abs() < 0.05, "{summary:?}");
        assert!(summary.write_amplification < 2.0, "{summary:?}");
    }
}
