//! What commands waited for: the vendor log C2h.

use byway_flash::StallCause;
use byway_spec::Command;
use byway_spec::base::identify::Csi;
use byway_spec::base::log::LogPage;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::{StallLog, StallRow, StallScope, name_text};
use zerocopy::FromBytes;

use crate::common::{TestHost, kv, nvm};
use crate::io::{DATA, Io, KV, QUEUE, keyed};

const LOG_BYTES: usize = 4096;
const VALUE_BYTES: usize = 4096;

fn rows(io: &mut Io) -> Vec<StallRow> {
    let log = io.host.log(LogPage::STALLS, Csi::NVM, LOG_BYTES).unwrap();
    let (head, rest) = StallLog::read_from_prefix(&log).unwrap();
    assert_eq!(&head.magic, b"BYWAYSSD");
    let (rows, _) = <[StallRow]>::ref_from_prefix_with_elems(rest, head.rows as usize).unwrap();
    rows.to_vec()
}

fn put(io: &mut Io, number: u32) {
    let mut command = keyed(KvOpcode::STORE.0, &number.to_be_bytes(), VALUE_BYTES);
    io.point_prps(&mut command, DATA, VALUE_BYTES);
    assert!(io.run(command).status().is_success());
}

#[test]
fn stall_log_of_a_new_device_has_no_command() {
    let mut io = Io::new();
    assert!(rows(&mut io).iter().all(|row| row.scope == StallScope::DEVICE.0));
}

#[test]
fn stall_log_after_overwrites_names_what_puts_waited_for() {
    let mut io = Io::new();
    // More than the namespace holds, in no order: memtables are written out, and the log is compacted.
    (0..60_000_u32).for_each(|n| put(&mut io, (n.wrapping_mul(0x9e37_79b9) >> 8) % 19_000));
    let rows = rows(&mut io);
    let of = |scope: StallScope, cause: &str| {
        let mine = |row: &&StallRow| row.scope == scope.0 && name_text(&row.cause) == cause;
        rows.iter().find(mine).copied().unwrap_or_default()
    };
    for cause in ["flush", "compaction"] {
        let [device, namespace, queue] =
            [StallScope::DEVICE, StallScope::NAMESPACE, StallScope::QUEUE].map(|scope| of(scope, cause));
        assert!(queue.count > 0 && queue.longest_ns >= 1000, "{cause}: {queue:?}");
        assert!(queue.total_ns <= namespace.total_ns && namespace.total_ns <= device.total_ns, "{cause}");
        assert_eq!((namespace.id, queue.id), (KV, u32::from(QUEUE)));
    }
    let commands = of(StallScope::QUEUE, "command");
    assert!(commands.count > 0 && commands.longest_ns <= commands.total_ns);
}

#[test]
fn stall_log_gives_a_sync_of_several_commands_to_none_of_them() {
    const WAITED_NS: u64 = 1 << 40;
    let mut io = Io::over(TestHost::synced(104 << 20, &[nvm(8 << 20, 512), kv(96 << 20)]));
    io.host.submit(QUEUE, Command::new(NvmOpcode::FLUSH.0, 0, 1));
    io.host.ring(QUEUE);
    io.host.run();
    let sync = io.host.controller.begin_sync(&mut io.host.subsystem).unwrap();
    io.host.subsystem.note_wait(StallCause::Sync, WAITED_NS);
    io.host.end_sync(sync.wait());
    assert!(io.host.reap(QUEUE).is_some());
    let mut read = Command::new(NvmOpcode::READ.0, 0, 1);
    read.set_prps(DATA, 0);
    assert!(io.run(read).status().is_success());
    let long: Vec<u16> =
        rows(&mut io).iter().filter(|row| row.total_ns >= WAITED_NS).map(|row| row.scope).collect();
    assert_eq!(long, [StallScope::DEVICE.0]);
}
