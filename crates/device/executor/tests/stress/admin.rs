//! The admin queue and the registers: enabling, resetting, creating and deleting queues.

use std::sync::Arc;

use byway_spec::base::admin::{AdminOpcode, CreateCqCdw11, CreateSqCdw11, QueueCdw10};
use byway_spec::base::register::{Aqa, Cc, Csts, NSSR_MAGIC, Register};
use byway_spec::vendor::{FEATURE_METHODS, Methods};
use byway_spec::{Command, Completion, Status};

use crate::host::Host;
use crate::memory::{GUARD, PAGE, Region};
use crate::pair::Life;
use crate::ring::{Completions, Submission};
use crate::stage::{Stage, Watchdog};

const ENTRIES: u32 = 16;
const SUBMISSION_PAGE: usize = 1;
const COMPLETION_PAGE: usize = 3;
const FIRST_BUFFER_PAGE: usize = 5;

/// The admin queue between two resets.
pub struct Admin {
    pub region: Arc<Region>,
    submission: Submission,
    completions: Completions,
    next_cid: u16,
}

impl Admin {
    /// Enables the controller, which is disabled.
    pub fn enable(stage: &Stage) -> Self {
        let host = &stage.host;
        let region = Region::map(host, FIRST_BUFFER_PAGE + ENTRIES as usize);
        region.memory.fill(COMPLETION_PAGE * PAGE, ENTRIES as usize * 16, 0);
        let aqa = Aqa::new().with_asqs_z(ENTRIES as u16 - 1).with_acqs_z(ENTRIES as u16 - 1);
        write(host, Register::AQA, aqa.into_bits());
        write_address(host, Register::ASQ, region.memory.bus(SUBMISSION_PAGE * PAGE));
        write_address(host, Register::ACQ, region.memory.bus(COMPLETION_PAGE * PAGE));
        write(host, Register::CC, enabled().into_bits());
        let mut watchdog = Watchdog::new(stage);
        while !status(host).rdy() {
            watchdog.wait(|| "the controller does not become ready".to_owned());
        }
        let mut admin = Self {
            region: Arc::new(region),
            submission: Submission::new(0, SUBMISSION_PAGE * PAGE, ENTRIES),
            completions: Completions::new(0, COMPLETION_PAGE * PAGE, ENTRIES),
            next_cid: 0,
        };
        admin.succeed(stage, &[enable_inline_reads()]);
        admin
    }

    /// Executes commands that each have a page for data; completions in their order.
    pub fn batch(&mut self, stage: &Stage, commands: &[Command]) -> Vec<Completion> {
        let memory = &self.region.memory;
        let first_cid = self.next_cid;
        for (at, command) in commands.iter().enumerate() {
            let mut command = *command;
            command.cdw0.set_cid(first_cid.wrapping_add(at as u16));
            if command.prp1() == 0 {
                command.set_prps(memory.bus((FIRST_BUFFER_PAGE + at) * PAGE), 0);
            }
            self.submission.push(memory, &command);
        }
        self.next_cid = first_cid.wrapping_add(commands.len() as u16);
        self.submission.ring(&stage.host);
        let mut answers: Vec<Option<Completion>> = vec![None; commands.len()];
        let mut watchdog = Watchdog::new(stage);
        while answers.iter().any(Option::is_none) {
            while let Some(entry) = self.completions.take(memory) {
                let answer = answers.get_mut(usize::from(entry.cid.wrapping_sub(first_cid)));
                let is_first = answer.is_some_and(|answer| answer.replace(entry).is_none());
                assert!(is_first && entry.sqid == 0, "{entry:?} answers no admin command");
                self.submission.take_head(entry.sqhd);
            }
            self.completions.ring(&stage.host);
            stage.host.poll();
            watchdog.wait(|| format!("{answers:?} of {commands:?}"));
        }
        memory.check_filled((FIRST_BUFFER_PAGE - 1) * PAGE, PAGE, GUARD, "a guard of the admin queue");
        answers.into_iter().flatten().collect()
    }

    /// Executes one command, which succeeds; the page of its data.
    pub fn read(&mut self, stage: &Stage, command: Command) -> Vec<u8> {
        let done = self.batch(stage, &[command])[0];
        assert!(done.status().is_success(), "{command:?}: {}", done.status());
        self.region.memory.read(FIRST_BUFFER_PAGE * PAGE, PAGE)
    }

    /// The identifier of the command `at` of the next batch.
    pub fn cid(&self, at: u16) -> u16 {
        self.next_cid.wrapping_add(at)
    }

    /// Creates the queues of a life.
    pub fn create(&mut self, stage: &Stage, life: &Life) {
        let mut commands = vec![create_completions(life)];
        commands.extend((0..life.submissions.len()).map(|at| create_submissions(life, at)));
        self.succeed(stage, &commands);
    }

    /// Deletes the submission queues of a life.
    pub fn delete_submissions(&mut self, stage: &Stage, life: &Life) {
        let delete = |(qid, _): &(u16, u32)| delete(AdminOpcode::DELETE_SQ, *qid);
        let commands: Vec<Command> = life.submissions.iter().map(delete).collect();
        self.succeed(stage, &commands);
    }

    /// Deletes the completion queue of a life.
    pub fn delete_completions(&mut self, stage: &Stage, life: &Life) {
        self.succeed(stage, &[delete(AdminOpcode::DELETE_CQ, life.cqid)]);
    }

    /// Tries to delete the completion queue of a life that has submission queues.
    pub fn delete_completions_too_early(&mut self, stage: &Stage, life: &Life) {
        let done = self.batch(stage, &[delete(AdminOpcode::DELETE_CQ, life.cqid)])[0];
        assert!(done.status().is(Status::INVALID_QUEUE_DELETION), "{}", done.status());
    }

    fn succeed(&mut self, stage: &Stage, commands: &[Command]) {
        for (done, command) in self.batch(stage, commands).iter().zip(commands) {
            assert!(done.status().is_success(), "{command:?}: {}", done.status());
        }
    }
}

/// Enables results behind completions.
fn enable_inline_reads() -> Command {
    let cdw10 = u32::from(FEATURE_METHODS.0);
    let cdw11 = Methods::new().with_inline_read(true).into_bits();
    Command { cdw10, cdw11, ..Command::new(AdminOpcode::SET_FEATURES.0, 0, 0) }
}

/// CC of a controller that is enabled.
pub fn enabled() -> Cc {
    let cc = Cc::new().with_css(Cc::CSS_IO_SETS).with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
    cc.with_en(true)
}

/// How a controller is reset.
#[derive(Debug, Clone, Copy)]
pub enum Reset {
    /// CC.EN is cleared.
    Disable,
    /// The same behind a shutdown.
    ShutDown,
    /// NVM subsystem reset.
    Subsystem,
    /// Function level reset of a served device.
    Function,
}

/// Resets the controller, and waits until it is not ready.
pub fn reset(stage: &Stage, how: Reset) {
    let host = &stage.host;
    match how {
        Reset::Disable => write(host, Register::CC, 0),
        Reset::ShutDown => {
            write(host, Register::CC, enabled().with_shn(Cc::SHN_NORMAL).into_bits());
            let mut watchdog = Watchdog::new(stage);
            while status(host).shst() != Csts::SHST_COMPLETE {
                host.poll();
                watchdog.wait(|| "the shutdown does not end".to_owned());
            }
            write(host, Register::CC, 0);
        }
        Reset::Subsystem => write(host, Register::NSSR, NSSR_MAGIC),
        Reset::Function => host.reset_function(),
    }
    let mut watchdog = Watchdog::new(stage);
    while status(host).rdy() {
        watchdog.wait(|| "the controller stays ready".to_owned());
    }
}

fn status(host: &Host) -> Csts {
    let status = Csts::from_bits(host.read_register(Register::CSTS.0));
    assert!(!status.cfs(), "fatal status");
    status
}

fn write(host: &Host, register: Register, value: u32) {
    host.write_register(register.0, value);
}

fn write_address(host: &Host, register: Register, value: u64) {
    host.write_register(register.0, value as u32);
    host.write_register(register.0 + 4, (value >> 32) as u32);
}

fn create_completions(life: &Life) -> Command {
    let mut command = Command::new(AdminOpcode::CREATE_CQ.0, 0, 0);
    let cdw10 = QueueCdw10::new().with_qid(life.cqid).with_qsize_z(life.completion_entries as u16 - 1);
    command.cdw10 = cdw10.into_bits();
    command.cdw11 = CreateCqCdw11::new().with_pc(true).with_ien(true).with_iv(life.cqid).into_bits();
    command.set_prps(life.completion_at(), 0);
    command
}

fn create_submissions(life: &Life, at: usize) -> Command {
    let (qid, entries) = life.submissions[at];
    let mut command = Command::new(AdminOpcode::CREATE_SQ.0, 0, 0);
    command.cdw10 = QueueCdw10::new().with_qid(qid).with_qsize_z(entries as u16 - 1).into_bits();
    command.cdw11 = CreateSqCdw11::new().with_pc(true).with_cqid(life.cqid).into_bits();
    command.set_prps(life.submission_at(at), 0);
    command
}

fn delete(opcode: AdminOpcode, qid: u16) -> Command {
    let mut command = Command::new(opcode.0, 0, 0);
    command.cdw10 = QueueCdw10::new().with_qid(qid).into_bits();
    command
}
