//! A simulated daemon and its files. Every run checks the policy's promises.

use byway_tdm_policy::{
    Call, Cap, Config, Cost, Costs, Decision, FileId, Level, Order, Policy, Reason, Room, SHADOW_ONE_IN,
    Sample, Traits,
};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
pub const MIB: u64 = 1 << 20;

/// Interval of samples.
const TICK_NS: u64 = 100 * MS;

/// Calls of a program in a second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Load {
    pub writes: f64,
    pub write_bytes: f64,
    pub reads: f64,
    pub read_bytes: f64,
    pub syncs: f64,
}

/// True times of calls.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    pub costs: Costs,
    /// Time of a real sync for each byte written back.
    pub sync_byte_ns: f64,
    /// One in fifty calls of this kind above PASS takes this long.
    pub slow: Option<(Call, u64)>,
}

impl Default for Truth {
    fn default() -> Self {
        Self { costs: Costs::default(), sync_byte_ns: 0.5, slow: None }
    }
}

/// A file and its program.
pub struct Program {
    pub id: FileId,
    pub load: Load,
    pub sample: Sample,
    pub truth: Truth,
    /// Calls and bytes so far, with fractions.
    done: [f64; 5],
    opened_ns: u64,
    shadows: f64,
}

/// All files, the policy and the clock.
pub struct World {
    pub policy: Policy,
    pub config: Config,
    pub now_ns: u64,
    pub programs: Vec<Program>,
    pub moves: Vec<(u64, Decision)>,
    /// Ticks that a move takes.
    pub move_ticks: u64,
    pending: Vec<(u64, FileId)>,
    moved_bytes: u64,
    opened: u64,
}

impl World {
    pub fn new(config: Config) -> Self {
        Self {
            policy: Policy::new(config),
            config,
            now_ns: 5 * SECOND,
            programs: Vec::new(),
            moves: Vec::new(),
            move_ticks: 0,
            pending: Vec::new(),
            moved_bytes: 0,
            opened: 0,
        }
    }

    /// A device of 1 GiB, filled at 4 GB/s.
    pub fn gib() -> Self {
        Self::new(Config::new(1 << 30, 4_000_000_000))
    }

    pub fn open(&mut self, traits: Traits, size_bytes: u64, load: Load) -> FileId {
        self.open_with(traits, size_bytes, load, Truth::default(), None)
    }

    pub fn open_with(
        &mut self,
        traits: Traits,
        size_bytes: u64,
        load: Load,
        truth: Truth,
        rule: Option<Order>,
    ) -> FileId {
        self.opened += 1;
        let id = FileId(self.opened);
        let sample = Sample { size_bytes, traits, ..Sample::default() };
        self.programs.push(Program {
            id,
            load,
            sample,
            truth,
            done: [0.0; 5],
            opened_ns: self.now_ns,
            shadows: 0.0,
        });
        self.policy.open(self.now_ns, id, rule);
        id
    }

    pub fn program(&mut self, id: FileId) -> &mut Program {
        self.programs.iter_mut().find(|program| program.id == id).unwrap()
    }

    pub fn set(&mut self, id: FileId, load: Load) {
        self.program(id).load = load;
    }

    pub fn hinder(&mut self, id: FileId, cap: Option<Cap>) {
        self.program(id).sample.cap = cap;
    }

    pub fn level(&self, id: FileId) -> Level {
        self.policy.level(id).unwrap()
    }

    /// Why a file does not move.
    pub fn held(&self, id: FileId) -> Reason {
        self.policy.explain(self.now_ns, id).unwrap().held.unwrap()
    }

    pub fn why(&self, id: FileId) -> Reason {
        self.policy.explain(self.now_ns, id).unwrap().why
    }

    /// Levels that a file was moved to, in order.
    pub fn ways(&self, id: FileId) -> Vec<Level> {
        self.moves
            .iter()
            .filter(|(_, decision)| decision.file == id)
            .map(|(_, decision)| decision.to)
            .collect()
    }

    /// When a move to that level was first decided, since the file was opened.
    pub fn reached_ns(&self, id: FileId, level: Level) -> Option<u64> {
        let opened_ns = self.programs.iter().find(|program| program.id == id)?.opened_ns;
        let (at_ns, _) = self.moves.iter().find(|(_, to)| to.file == id && to.to == level)?;
        Some(at_ns - opened_ns)
    }

    pub fn run(&mut self, seconds: f64) {
        let ticks = (seconds * SECOND as f64) as u64 / TICK_NS;
        for _ in 0..ticks {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.now_ns += TICK_NS;
        for program in &mut self.programs {
            program.work(self.policy.level(program.id).unwrap(), TICK_NS);
            self.policy.observe(self.now_ns, program.id, &program.sample);
        }
        let (over, pending) = self.pending.iter().partition(|(at_ns, _)| *at_ns <= self.now_ns);
        self.pending = pending;
        let over: Vec<(u64, FileId)> = over;
        over.iter().for_each(|(_, file)| self.policy.moved(self.now_ns, *file));
        let decisions = self.policy.decide(self.now_ns);
        for decision in decisions {
            self.check(&decision);
            self.moves.push((self.now_ns, decision));
            self.pending.push((self.now_ns + self.move_ticks * TICK_NS, decision.file));
        }
        self.check_rooms();
        if self.move_ticks == 0 {
            let over = std::mem::take(&mut self.pending);
            over.iter().for_each(|(_, file)| self.policy.moved(self.now_ns, *file));
        }
    }

    /// Checks that hold for every decision.
    fn check(&mut self, decision: &Decision) {
        let program = self.programs.iter().find(|program| program.id == decision.file).unwrap();
        assert!(!self.pending.iter().any(|(_, file)| *file == decision.file), "{decision:?} on its way");
        let demoted = decision.to < decision.from;
        assert!(!demoted || program.sample.writes_in_flight == 0, "{decision:?} with a write in flight");
        let last = self.moves.iter().rev().find(|(_, before)| before.file == decision.file);
        let stayed_ns = last.map_or(u64::MAX, |(at_ns, _)| self.now_ns - at_ns);
        let is_capped = decision.why.is_stored();
        let reported = is_capped || matches!(decision.why, Reason::Ordered(_) | Reason::Ruled(_));
        assert!(reported || stayed_ns >= 2 * SECOND, "{decision:?} after {stayed_ns} ns");
        self.check_moved(decision, reported);
    }

    fn check_moved(&mut self, decision: &Decision, reported: bool) {
        let must = reported
            || matches!(
                decision.why,
                Reason::CostsMore { .. } | Reason::SlowTail { .. } | Reason::NeedsMore { .. }
            );
        if must || decision.to != Level::Dax {
            return;
        }
        let size =
            self.programs.iter().find(|program| program.id == decision.file).unwrap().sample.size_bytes;
        let bytes = decision.room_bytes.min(size);
        let a_second = self.config.device_bytes_per_s / 10;
        let seconds = (self.now_ns - 5 * SECOND) as f64 / 1e9 + 1.0;
        let allowed = seconds * a_second as f64 + bytes.saturating_sub(a_second) as f64;
        self.moved_bytes += bytes;
        assert!(self.moved_bytes as f64 <= allowed, "{} bytes in {seconds} s", self.moved_bytes);
    }

    fn check_rooms(&self) {
        for room in Room::ALL {
            let usage = self.policy.usage(room);
            assert!(usage.used_bytes <= usage.budget_bytes, "{room}: {usage:?}");
        }
    }
}

impl Program {
    /// Makes calls for so long and counts them.
    fn work(&mut self, level: Level, ns: u64) {
        let seconds = ns as f64 / 1e9;
        let Load { writes, write_bytes, reads, read_bytes, syncs } = self.load;
        let more = [reads, reads * read_bytes, writes, writes * write_bytes, syncs];
        for (done, more) in self.done.iter_mut().zip(more) {
            *done += more * seconds;
        }
        let before = self.sample.counts;
        let counts = &mut self.sample.counts;
        [counts.reads, counts.read_bytes, counts.writes, counts.written_bytes, counts.syncs] =
            self.done.map(|done| done as u64);
        let calls = [
            (Call::Read, counts.reads - before.reads, read_bytes),
            (Call::Write, counts.writes - before.writes, write_bytes),
            (Call::Sync, counts.syncs - before.syncs, 0.0),
        ];
        for (call, calls, bytes) in calls {
            self.time(level, call, calls, bytes);
        }
    }

    fn time(&mut self, level: Level, call: Call, calls: u64, bytes: f64) {
        let lower_ns = self.lower_ns(call, bytes);
        if level == Level::Pass {
            let timed = if call == Call::Sync { calls } else { calls / 16 };
            self.sample.lower[call].record_many(lower_ns, timed);
            return;
        }
        self.shadows += calls as f64 / SHADOW_ONE_IN as f64;
        let shadows = self.shadows as u64;
        self.shadows -= shadows as f64;
        self.sample.lower[call].record_many(lower_ns, shadows);
        let costs = if level == Level::Dax { &self.truth.costs.dax } else { &self.truth.costs.absorb };
        let ns = cost_ns(cost(costs, call), bytes);
        let slow = self.truth.slow.filter(|(kind, _)| *kind == call);
        let slow_calls = slow.map_or(0, |_| calls / 50);
        self.sample.level[call].record_many(slow.map_or(0, |(_, ns)| ns), slow_calls);
        self.sample.level[call].record_many(ns, calls - slow_calls);
    }

    fn lower_ns(&self, call: Call, bytes: f64) -> u64 {
        let ns = cost_ns(cost(&self.truth.costs.lower, call), bytes);
        if call != Call::Sync || self.load.syncs == 0.0 {
            return ns;
        }
        let a_sync = self.load.writes * self.load.write_bytes / self.load.syncs;
        ns + (a_sync * self.truth.sync_byte_ns) as u64
    }
}

fn cost(costs: &byway_tdm_policy::CallCosts, call: Call) -> Cost {
    match call {
        Call::Read => costs.read,
        Call::Write => costs.write,
        Call::Sync => costs.sync,
    }
}

fn cost_ns(cost: Cost, bytes: f64) -> u64 {
    (cost.call_ns + cost.byte_ns * bytes) as u64
}
