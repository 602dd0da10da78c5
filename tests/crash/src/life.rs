//! One life of a writer: a process that does a workload's steps until it is killed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use byway::{
    BackendQueue, Command, ErrorKind, Key, KvCommand, LbaRange, LbaRanges, NvmCommand, Payload, StoreOptions,
};

use crate::content::key_of;
use crate::journal::{Journal, StepState};
use crate::runner::{Runner, blocks_of};
use crate::workload::{Op, Workload};

/// A writer gives a command up after this long: then the device hangs.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A writer's parameters.
#[derive(Debug, Clone)]
pub struct Life {
    /// The image.
    pub image: PathBuf,
    /// Where its journal goes.
    pub journal: PathBuf,
    /// What it does.
    pub workload: Workload,
    /// From which its steps follow.
    pub seed: u64,
    /// Its first step.
    pub first_step: u64,
    /// Commands on their way at once.
    pub depth: u32,
    /// Options of the device's URI.
    pub options: String,
}

impl Life {
    /// The parameters as arguments of a process.
    #[must_use]
    pub fn to_args(&self) -> Vec<String> {
        vec![
            self.image.display().to_string(),
            self.journal.display().to_string(),
            self.workload.to_string(),
            self.seed.to_string(),
            self.first_step.to_string(),
            self.depth.to_string(),
            self.options.clone(),
        ]
    }

    /// The parameters that [`Life::to_args`] made.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn from_args(args: &[String]) -> Result<Self, String> {
        let [image, journal, workload, seed, first_step, depth, options] = args else {
            return Err("a life takes seven arguments".into());
        };
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
        Ok(Self {
            image: image.into(),
            journal: journal.into(),
            workload: workload.parse()?,
            seed: number(seed)?,
            first_step: number(first_step)?,
            depth: number(depth)? as u32,
            options: options.clone(),
        })
    }

    /// The device's URI.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("embedded:{}?depth={}{}", self.image.display(), self.depth, self.options)
    }

    fn open(&self) -> byway::Result<Runner> {
        Runner::open(&self.uri(), self.workload, self.seed, None)
    }

    /// Lives it. `opened` is called once the image is open.
    ///
    /// # Errors
    /// What the device answered, where that ends it. It has no other end than being killed.
    pub fn live(&self, opened: impl FnOnce()) -> Result<(), String> {
        if self.workload == Workload::Create && !Path::new(&self.image).exists() {
            byway::create(&self.image, &self.workload.image()).map_err(|error| error.to_string())?;
        }
        let mut writer = Writer::start(self)?;
        opened();
        (self.first_step..).try_for_each(|step| writer.step(step))
    }
}

struct Writer<'a> {
    life: &'a Life,
    journal: Journal,
    /// `None` only while it is closed.
    runner: Option<Runner>,
}

impl<'a> Writer<'a> {
    fn start(life: &'a Life) -> Result<Self, String> {
        let runner = life.open().map_err(|error| error.to_string())?;
        let journal = Journal::create(&life.journal, life.first_step).map_err(|error| error.to_string())?;
        Ok(Self { life, journal, runner: Some(runner) })
    }

    fn step(&mut self, step: u64) -> Result<(), String> {
        let op = self.life.workload.op(self.life.seed, step);
        let failed = |error| format!("the journal: {error}");
        self.journal.record(step, StepState::Begun).map_err(failed)?;
        if self.life.depth > 1 && self.submit(op, step)? {
            return Ok(());
        }
        self.drain()?;
        let done = match self.execute(op, step) {
            Ok(()) => StepState::Done,
            Err(error) if is_refusal(&error) => StepState::Refused,
            Err(error) => return Err(format!("step {step}, {op:?}: {error}")),
        };
        self.journal.record(step, done).map_err(failed)
    }

    fn runner(&mut self) -> byway::Result<&mut Runner> {
        self.runner.as_mut().ok_or_else(|| byway::Error::host(ErrorKind::DeviceLost, "the device is closed"))
    }

    /// One op from its beginning to its end.
    fn execute(&mut self, op: Op, step: u64) -> byway::Result<()> {
        match op {
            Op::Reopen => self.reopen(),
            op => self.runner()?.execute(op, step),
        }
    }

    fn reopen(&mut self) -> byway::Result<()> {
        if let Some(Runner { pairs, blocks, device, .. }) = self.runner.take() {
            drop((pairs, blocks));
            device.close()?;
        }
        self.runner = Some(self.life.open()?);
        Ok(())
    }

    /// Submits an op that has a command of its own; false if it has none.
    fn submit(&mut self, op: Op, step: u64) -> Result<bool, String> {
        let failed = |error: byway::Error| format!("step {step}, {op:?}: {error}");
        let Some(mut command) = self.command(op, step).map_err(failed)? else { return Ok(false) };
        let of_pairs = matches!(command, Command::Kv(_));
        loop {
            let runner = self.runner().map_err(failed)?;
            let submitted = match of_pairs {
                true => runner.pairs.queue().submit(command, step),
                false => runner.blocks.queue().submit(command, step),
            };
            match submitted {
                Ok(()) => break,
                Err(refused) if refused.error.kind() == ErrorKind::QueueFull => command = refused.command,
                Err(refused) if is_refusal(&refused.error) => {
                    let recorded = self.journal.record(step, StepState::Refused);
                    return recorded.map(|()| true).map_err(|error| format!("the journal: {error}"));
                }
                Err(refused) => return Err(failed(refused.error)),
            }
            self.take_completions(1)?;
        }
        self.take_completions(0)?;
        Ok(true)
    }

    fn command(&mut self, op: Op, step: u64) -> byway::Result<Option<Command>> {
        let runner = self.runner()?;
        let value = match op {
            Op::Put { key, .. } => Payload::copy_of(&runner.value(step, key))?,
            Op::Write { lba, blocks } => Payload::copy_of(&blocks_of(step, lba, blocks))?,
            _ => Payload::Empty,
        };
        let (pairs, nsid) = (runner.pairs.nsid(), byway::Nsid::new(2)?);
        let key_named = |key| Key::new(&key_of(key)).map_err(byway::Error::from);
        Ok(Some(match op {
            Op::Put { key, .. } => {
                let (key, options) = (key_named(key)?, StoreOptions::NONE);
                KvCommand::Store { nsid: pairs, key, value, options }.into()
            }
            Op::Delete { key } => KvCommand::Delete { nsid: pairs, key: key_named(key)? }.into(),
            Op::Write { lba, blocks } => {
                NvmCommand::Write { nsid, slba: lba.into(), blocks, data: value }.into()
            }
            Op::Trim { lba, blocks } => {
                let ranges = LbaRanges::new(&[LbaRange { slba: lba.into(), blocks }])?;
                NvmCommand::Deallocate { nsid, ranges }.into()
            }
            Op::Zero { lba, blocks } => {
                NvmCommand::WriteZeroes { nsid, slba: lba.into(), blocks, deallocate: true }.into()
            }
            Op::Flush => NvmCommand::Flush { nsid }.into(),
            _ => return Ok(None),
        }))
    }

    /// Takes what is finished on both queues, after waiting for at least `least` on one that has commands on their way.
    fn take_completions(&mut self, least: usize) -> Result<(), String> {
        let Some(runner) = &mut self.runner else { return Ok(()) };
        let mut outcome = Ok(());
        let (life, journal) = (self.life, &self.journal);
        let mut on = |finished: byway::Finished| {
            let step = finished.tag;
            let state = match finished.result.map_err(byway::Error::from) {
                Ok(_) => StepState::Done,
                Err(error) if is_refusal(&error) => StepState::Refused,
                Err(error) => {
                    outcome = Err(format!("step {step}, {:?}: {error}", life.workload.op(life.seed, step)));
                    return;
                }
            };
            if let Err(error) = journal.record(step, state) {
                outcome = Err(format!("the journal: {error}"));
            }
        };
        let waited = runner
            .pairs
            .queue()
            .wait(least, TIMEOUT, &mut on)
            .and_then(|_| runner.blocks.queue().wait(least, TIMEOUT, &mut on));
        waited.map_err(|error| error.to_string())?;
        outcome
    }

    fn drain(&mut self) -> Result<(), String> {
        let on_their_way =
            |runner: &mut Runner| runner.pairs.queue().outstanding() + runner.blocks.queue().outstanding();
        while self.runner.as_mut().map_or(0, on_their_way) > 0 {
            self.take_completions(1)?;
        }
        Ok(())
    }
}

/// No room, or more than the transfer method carries: refused, and acknowledged as that. So are stores through a window
/// of device memory behind one that found no room, as that closed the window.
#[must_use]
pub fn is_refusal(error: &byway::Error) -> bool {
    let closed = |status: byway_spec::Status| status.is(byway_spec::Status::COMMAND_SEQUENCE_ERROR);
    matches!(error.kind(), ErrorKind::CapacityExceeded | ErrorKind::TooLarge)
        || error.nvme_status().is_some_and(closed)
}
