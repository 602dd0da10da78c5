//! SMART's counters of hosts' commands and data: what hosts moved, whatever the flash did for it.

use byway_flash::HostCounters;
use byway_spec::Status;
use byway_spec::base::identify::Csi;
use byway_spec::base::log::LogPage;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::{self, VendorOpcode};

use crate::common::number;
use crate::exported::Exported;
use crate::io::{BLOCKS_512, DATA, Io, QUEUE, assert_status, blocks, keyed};

fn counted(io: &Io) -> HostCounters {
    io.host.subsystem.flash().counters().host
}

fn write(io: &mut Io, slba: u64, count: usize) {
    let mut command = blocks(NvmOpcode::WRITE, BLOCKS_512, slba, count);
    io.point_prps(&mut command, DATA, count * 512);
    assert_status(io.run(command), Status::SUCCESS);
}

fn read(io: &mut Io, slba: u64, count: usize) {
    let mut command = blocks(NvmOpcode::READ, BLOCKS_512, slba, count);
    io.point_prps(&mut command, DATA, count * 512);
    assert_status(io.run(command), Status::SUCCESS);
}

/// Data Units Read and Written, Host Read and Write Commands.
fn smart(io: &mut Io) -> [u64; 4] {
    let log = io.host.log(LogPage::SMART, Csi::NVM, 512).unwrap();
    [32, 48, 64, 80].map(|at| number(&log, at, 8))
}

#[test]
fn a_read_of_one_block_counts_one_block_however_much_the_flash_reads() {
    let mut io = Io::new();
    write(&mut io, 0, 64);
    (0..64).for_each(|slba| read(&mut io, slba, 1));
    let expected = HostCounters { reads: 64, read_bytes: 64 * 512, writes: 1, written_bytes: 64 * 512 };
    assert_eq!(counted(&io), expected);
}

#[test]
fn data_units_are_thousands_of_512_bytes_rounded_up() {
    let mut io = Io::new();
    assert_eq!(smart(&mut io), [0; 4]);
    write(&mut io, 0, 1);
    read(&mut io, 0, 1);
    assert_eq!(smart(&mut io), [1, 1, 1, 1]);
    (0..999).for_each(|_| read(&mut io, 0, 1));
    assert_eq!(smart(&mut io), [1, 1, 1000, 1], "a thousand blocks are one unit");
    read(&mut io, 0, 1);
    assert_eq!(smart(&mut io), [2, 1, 1001, 1]);
}

#[test]
fn a_failed_command_counts_and_moves_nothing() {
    let mut io = Io::new();
    let past_the_end = io.block_count(BLOCKS_512);
    for opcode in [NvmOpcode::WRITE, NvmOpcode::READ] {
        let mut command = blocks(opcode, BLOCKS_512, past_the_end, 1);
        io.point_prps(&mut command, DATA, 512);
        assert_status(io.run(command), Status::LBA_OUT_OF_RANGE);
    }
    assert_eq!(counted(&io), HostCounters { reads: 1, read_bytes: 0, writes: 1, written_bytes: 0 });
}

#[test]
fn commands_that_move_no_data_of_the_host_count_no_bytes() {
    let mut io = Io::new();
    for opcode in [NvmOpcode::WRITE_ZEROES, NvmOpcode::VERIFY, NvmOpcode::FLUSH] {
        assert_status(io.run(blocks(opcode, BLOCKS_512, 0, 8)), Status::SUCCESS);
    }
    assert_eq!(counted(&io), HostCounters::default());
}

#[test]
fn values_count_by_their_bytes_whichever_way_they_come() {
    let mut io = Io::new();
    io.enable_methods();
    let value = [7; 300];
    io.put(DATA, &value);
    let mut store = keyed(KvOpcode::STORE.0, b"by prp", 300);
    io.point_prps(&mut store, DATA, 300);
    assert_status(io.run(store), Status::SUCCESS);
    assert_status(io.run_inline(keyed(KvOpcode::STORE.0, b"inline", 100), &value[..100]), Status::SUCCESS);
    assert_eq!(counted(&io), HostCounters { writes: 2, written_bytes: 400, ..HostCounters::default() });
    let mut piggyback = keyed(VendorOpcode::KV_WRITE_PIGGYBACK.0, b"piggyback", 20);
    vendor::pack_write(&mut piggyback, &value[..20]);
    assert_status(io.run(piggyback), Status::SUCCESS);
    assert_eq!(counted(&io), HostCounters { writes: 3, written_bytes: 420, ..HostCounters::default() });
    let mut retrieve = keyed(KvOpcode::RETRIEVE.0, b"by prp", 4096);
    io.point_prps(&mut retrieve, DATA, 4096);
    assert_status(io.run(retrieve), Status::SUCCESS);
    let expected = HostCounters { reads: 1, read_bytes: 300, writes: 3, written_bytes: 420 };
    assert_eq!(counted(&io), expected, "the value, not the buffer");
    for opcode in [KvOpcode::EXIST, KvOpcode::DELETE] {
        assert_status(io.run(keyed(opcode.0, b"by prp", 0)), Status::SUCCESS);
    }
    assert_eq!(counted(&io), expected);
}

#[test]
fn delegated_queue_counts_as_its_controller_does() {
    let mut totals = Vec::new();
    for is_delegated in [false, true] {
        let mut io = Io::new();
        io.put(DATA, &[3; 4096]);
        let mut commands = vec![
            blocks(NvmOpcode::WRITE, BLOCKS_512, 0, 8),
            blocks(NvmOpcode::READ, BLOCKS_512, 0, 8),
            blocks(NvmOpcode::READ, BLOCKS_512, u64::MAX / 2, 8),
            keyed(KvOpcode::STORE.0, b"key", 1000),
            keyed(KvOpcode::RETRIEVE.0, b"key", 4096),
            keyed(KvOpcode::RETRIEVE.0, b"no such key", 4096),
        ];
        for command in &mut commands {
            io.point_prps(command, DATA, 4096);
            io.host.submit(QUEUE, *command);
        }
        io.host.ring(QUEUE);
        if is_delegated {
            io.host.run_delegated(QUEUE);
        }
        io.host.run();
        let answers = std::iter::from_fn(|| io.host.reap(QUEUE)).count();
        assert_eq!(answers, commands.len());
        totals.push(counted(&io));
    }
    let expected = HostCounters { reads: 4, read_bytes: 5096, writes: 2, written_bytes: 5096 };
    assert_eq!(totals, [expected, expected]);
}

#[test]
fn commands_of_an_exported_namespace_count_too() {
    let mut device = Exported::shaped(|_| {});
    device.move_some_blocks(4);
    let host = device.host().subsystem.flash().counters().host;
    assert_eq!(host, HostCounters { reads: 1, read_bytes: 2048, writes: 1, written_bytes: 2048 });
}
