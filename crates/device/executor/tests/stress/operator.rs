//! The thread that has the admin queue: it creates, deletes, aborts, resets and looks while other threads load the queues.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use byway_kit::Random;
use byway_spec::base::admin::{AbortCdw10, AdminOpcode};
use byway_spec::base::identify::{Cns, Csi, IdentifyCdw10, IdentifyCdw11};
use byway_spec::base::log::{LogCdw10, LogPage};
use byway_spec::{Command, Status};

use crate::admin::{Admin, Reset, reset};
use crate::commands::{KV, NVM};
use crate::memory::Region;
use crate::pair::{Life, Owner, Pair};
use crate::stage::{Stage, Watchdog};

/// Lives whose memory is watched after their end.
const BURIED: usize = 16;

/// Most commands between two acts.
const PAUSE: u64 = 400;

/// The thread that has the admin queue.
pub struct Operator<'a> {
    stage: &'a Stage,
    admin: Admin,
    /// The present life of each owner's queue pair.
    lives: Vec<Arc<Life>>,
    buried: VecDeque<Buried>,
    random: Random,
    next_life: u8,
}

/// Memory that the device must not write any more.
enum Buried {
    Life(Arc<Life>),
    Admin(Arc<Region>),
}

impl Buried {
    fn region(&self) -> &Region {
        match self {
            Self::Life(life) => &life.region,
            Self::Admin(region) => region,
        }
    }
}

impl<'a> Operator<'a> {
    /// Enables the controller, and creates a queue pair for each owner.
    pub fn start(stage: &'a Stage, owners: Vec<Owner>, seed: u64) -> Self {
        let admin = Admin::enable(stage);
        let (lives, buried, random) = (Vec::new(), VecDeque::new(), Random::new(seed));
        let mut operator = Self { stage, admin, lives, buried, random, next_life: 0 };
        let count = owners.len() as u16;
        operator.lives =
            owners.iter().map(|owner| Arc::new(operator.new_life(owner.number, count))).collect();
        for owner in owners {
            let life = operator.lives[usize::from(owner.number)].clone();
            operator.admin.create(stage, &life);
            stage.give(Pair::new(owner, life));
        }
        operator
    }

    /// One random act, after some commands were answered.
    pub fn act(&mut self) {
        self.stage.wait_for_answers(1 + self.random.below(PAUSE));
        match self.random.below(12) {
            0..=3 => self.look(),
            4..=6 => self.abort(),
            7..=9 => self.delete(),
            10 => self.reset(),
            _ => self.request_event(),
        }
    }

    /// Deletes every queue; returns the owners.
    pub fn finish(&mut self, pairs: Vec<Pair>) {
        for pair in pairs {
            assert!(!pair.is_busy());
            let life = pair.life.clone();
            self.admin.delete_submissions(self.stage, &life);
            self.admin.delete_completions(self.stage, &life);
            life.is_dead.store(true, SeqCst);
            pair.end(self.stage);
            self.bury(Buried::Life(life));
        }
        while let Some(buried) = self.buried.pop_front() {
            buried.region().check_buried();
        }
    }

    fn new_life(&mut self, owner: u16, owners: u16) -> Life {
        self.next_life = self.next_life.wrapping_add(1);
        Life::new(&self.stage.host, owner, self.next_life, owners, &mut self.random)
    }

    fn random_life(&mut self) -> Arc<Life> {
        let at = self.random.index(self.lives.len());
        self.lives[at].clone()
    }

    /// Identify and Get Log Page.
    fn look(&mut self) {
        let pages = [LogPage::SMART, LogPage::ERROR, LogPage::EFFECTS, LogPage::LEDGER, LogPage::STALLS];
        let page = pages[self.random.index(pages.len())];
        let mut log = Command::new(AdminOpcode::GET_LOG_PAGE.0, 0, 0);
        log.cdw10 = LogCdw10::new().with_lid(page).with_numdl_z(127).into_bits();
        self.admin.read(self.stage, log);
        let mut identify = Command::new(AdminOpcode::IDENTIFY.0, 0, 0);
        identify.cdw10 = IdentifyCdw10::new().with_cns(Cns::ACTIVE_NAMESPACES).into_bits();
        let namespaces = self.admin.read(self.stage, identify);
        let expected = [KV, NVM, 0].map(u32::to_le_bytes).concat();
        assert_eq!(namespaces[..expected.len()], expected);
        (identify.nsid, identify.cdw10) = (KV, IdentifyCdw10::new().with_cns(Cns::SET_NAMESPACE).into_bits());
        identify.cdw11 = IdentifyCdw11::new().with_csi(Csi::KV).into_bits();
        self.admin.read(self.stage, identify);
    }

    /// Aborts commands that may be under way. A command runs to its end at once, so none is aborted.
    fn abort(&mut self) {
        let count = 1 + self.random.below(4);
        let aborts: Vec<Command> = (0..count).map(|_| self.random_abort()).collect();
        for done in self.admin.batch(self.stage, &aborts) {
            assert!(done.status().is_success() && done.dw0 == 1, "{done:?}");
        }
    }

    fn random_abort(&mut self) -> Command {
        let life = self.random_life();
        let (qid, _) = life.submissions[self.random.index(life.submissions.len())];
        abort(qid, u16::from(life.number) << 8 | self.random.below(256) as u16)
    }

    /// Asks for an event and aborts the request: it is answered once, by the event or as aborted.
    fn request_event(&mut self) {
        let request = Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0, 0);
        let abort = abort(0, self.admin.cid(0));
        let done = self.admin.batch(self.stage, &[request, abort]);
        let was_aborted = done[0].status().is(Status::ABORT_REQUESTED);
        assert!(done[0].status().is_success() || was_aborted, "{:?}", done[0]);
        assert!(done[1].status().is_success() && done[1].dw0 == u32::from(!was_aborted), "{done:?}");
    }

    /// Deletes a queue pair that is in use, and creates it anew.
    fn delete(&mut self) {
        let life = self.random_life();
        if self.random.one_in(2) {
            self.admin.delete_completions_too_early(self.stage, &life);
        }
        life.is_deleting.store(true, SeqCst);
        self.admin.delete_submissions(self.stage, &life);
        life.is_dead.store(true, SeqCst);
        let is_first = self.random.one_in(2);
        if is_first {
            self.admin.delete_completions(self.stage, &life);
        }
        let owner = self.wait_for_owner();
        if !is_first {
            self.admin.delete_completions(self.stage, &life);
        }
        self.renew(owner, life);
    }

    /// Resets the controller under load, and creates every queue anew.
    fn reset(&mut self) {
        let last = if self.stage.host.is_served() { Reset::Function } else { Reset::Disable };
        let hows = [Reset::Disable, Reset::ShutDown, Reset::Subsystem, last];
        let (how, unmaps) = (hows[self.random.index(hows.len())], self.random.one_in(2));
        self.stage.is_resetting.store(true, SeqCst);
        reset(self.stage, how);
        for life in &self.lives {
            *life.last_completions.lock().unwrap() = Some(life.completions());
            if unmaps {
                life.region.unmap(&self.stage.host);
            }
            life.is_dead.store(true, SeqCst);
        }
        self.bury(Buried::Admin(self.admin.region.clone()));
        let owners: Vec<_> = self.lives.iter().map(|_| self.wait_for_owner()).collect();
        self.stage.is_resetting.store(false, SeqCst);
        self.admin = Admin::enable(self.stage);
        for owner in owners {
            let life = self.lives[usize::from(owner.number)].clone();
            self.renew(owner, life);
        }
    }

    /// Waits until the thread that holds a dead pair has given it up.
    fn wait_for_owner(&self) -> Owner {
        let mut watchdog = Watchdog::new(self.stage);
        loop {
            if let Some((owner, life)) = self.stage.take_ended() {
                let last = life.last_completions.lock().unwrap();
                let is_same = last.as_ref().is_none_or(|last| *last == life.completions());
                assert!(is_same, "a completion was posted after the reset: {life:?}");
                return owner;
            }
            watchdog.wait(|| "no thread gives up a dead pair".to_owned());
        }
    }

    /// Begins the next life of a queue pair, in other memory.
    fn renew(&mut self, owner: Owner, dead: Arc<Life>) {
        self.bury(Buried::Life(dead));
        let life = Arc::new(self.new_life(owner.number, self.lives.len() as u16));
        self.lives[usize::from(owner.number)] = life.clone();
        self.admin.create(self.stage, &life);
        self.stage.give(Pair::new(owner, life));
    }

    fn bury(&mut self, dead: Buried) {
        dead.region().bury();
        self.buried.push_back(dead);
        if self.buried.len() > BURIED
            && let Some(oldest) = self.buried.pop_front()
        {
            oldest.region().check_buried();
            oldest.region().unmap(&self.stage.host);
        }
    }
}

fn abort(sqid: u16, cid: u16) -> Command {
    let mut command = Command::new(AdminOpcode::ABORT.0, 0, 0);
    command.cdw10 = AbortCdw10::new().with_sqid(sqid).with_cid(cid).into_bits();
    command
}
