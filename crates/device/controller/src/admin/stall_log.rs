//! The vendor log C2h: what commands waited for, of the device, by namespace and by queue.

use byway_flash::{Stall, StallCause, Stalls};
use byway_spec::vendor::{MAGIC, StallLog, StallRow, StallScope, VERSION, name_field};
use zerocopy::IntoBytes;

use crate::counting::{CommandStalls, StallSnapshot};

/// Name of the row that counts commands, whatever they waited for.
const COMMAND: &str = "command";
/// Name of the row that counts quanta of upkeep.
const QUANTUM: &str = "quantum";

/// The log page.
pub(super) fn page(stalls: &StallSnapshot) -> Vec<u8> {
    let rows = rows(stalls);
    let head = StallLog { magic: MAGIC, version: VERSION, rows: rows.len() as u32 };
    [head.as_bytes(), rows.as_bytes()].concat()
}

/// Its rows. Those without a wait are left out.
pub(super) fn rows(stalls: &StallSnapshot) -> Vec<StallRow> {
    let mut rows = Vec::new();
    add_causes(&mut rows, scope(StallScope::DEVICE, 0, 0), &stalls.device);
    for (nsid, stalls) in &stalls.namespaces {
        add_commands(&mut rows, scope(StallScope::NAMESPACE, 0, *nsid), stalls);
    }
    for (queue, stalls) in &stalls.queues {
        add_commands(&mut rows, scope(StallScope::QUEUE, queue.controller.0, queue.qid.into()), stalls);
    }
    let upkeep = scope(StallScope::UPKEEP, 0, 0);
    if stalls.upkeep.quanta.count > 0 {
        rows.push(row(upkeep, QUANTUM, &stalls.upkeep.quanta));
    }
    add_causes(&mut rows, upkeep, &stalls.upkeep.by_cause);
    rows
}

fn scope(scope: StallScope, cntlid: u16, id: u32) -> StallRow {
    StallRow { scope: scope.0, cntlid, id, ..StallRow::default() }
}

fn add_commands(rows: &mut Vec<StallRow>, of: StallRow, stalls: &CommandStalls) {
    let total_ns = stalls.by_cause.total_ns();
    let all = Stall { count: stalls.commands, total_ns, longest_ns: stalls.longest_ns };
    rows.push(row(of, COMMAND, &all));
    add_causes(rows, of, &stalls.by_cause);
}

fn add_causes(rows: &mut Vec<StallRow>, of: StallRow, stalls: &Stalls) {
    let waits = stalls.rows().filter(|(_, stall)| stall.count > 0);
    rows.extend(waits.map(|(cause, stall)| row(of, cause.name(), stall)));
}

fn row(of: StallRow, cause: &str, stall: &Stall) -> StallRow {
    let Stall { count, total_ns, longest_ns } = *stall;
    StallRow { cause: name_field(cause), count, total_ns, longest_ns, ..of }
}

const _: () = {
    let mut at = 0;
    while at < StallCause::ALL.len() {
        assert!(StallCause::ALL[at].name().len() <= 16, "the name of a cause fits its field");
        at += 1;
    }
};
