//! What Execute Program costs of a program that returns at once, beside a Flush and a Memory Fill: the median from the submission of a
//! command to its completion, through rings and doorbells of a controller in the same thread.
//!
//!     cargo run --release -p byway-controller --example execute

#[path = "../tests/controller/common/mod.rs"]
mod common;

use std::time::Instant;

use byway_controller::ProgramRunner;
use byway_spec::Command;
use byway_spec::base::admin::{AdminOpcode, NamespaceCdw11};
use byway_spec::base::identify::{Csi, IDENTIFY_BYTES};
use byway_spec::memory::MemoryOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::programs::{
    ExecuteCdw2, LoadProgramCdw10, ProgramActivationCdw10, ProgramOpcode, ProgramType,
};

use common::{TestHost, nvm};

/// Commands of each kind.
const COUNT: usize = 1_000_000;

/// Namespaces: blocks, memory, programs.
const BLOCKS: u32 = 1;
const MEMORY: u32 = 2;
const PROGRAMS: u32 = 3;

/// The index of the program.
const INDEX: u16 = 5;

/// `r0 = 0; exit`.
const EMPTY: [u8; 16] = [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];

/// A device's clock, with no thread behind it.
struct Clock(Instant);

impl ProgramRunner for Clock {
    fn wake(&self) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

fn create(host: &mut TestHost, set: Csi, size_bytes: u64, nsid: u32) {
    let mut create = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, 0);
    create.cdw11 = NamespaceCdw11::new().with_csi(set.0).into_bits();
    let mut page = [0; IDENTIFY_BYTES];
    page[..8].copy_from_slice(&size_bytes.to_le_bytes());
    assert_eq!(host.admin_write(create, &page).dw0, nsid);
    page.fill(0);
    page[0] = 1;
    let attach = Command::new(AdminOpcode::NAMESPACE_ATTACHMENT.0, 0, nsid);
    assert!(host.admin_write(attach, &page).status().is_success());
}

fn load(host: &mut TestHost) {
    let mut load = Command::new(AdminOpcode::LOAD_PROGRAM.0, 0, PROGRAMS);
    load.cdw10 = LoadProgramCdw10::new().with_pind(INDEX).with_ptype(ProgramType::EBPF.0).into_bits();
    (load.cdw11, load.cdw14) = (EMPTY.len() as u32, EMPTY.len() as u32);
    assert!(host.admin_write(load, &EMPTY).status().is_success());
    let mut activate = Command::new(AdminOpcode::PROGRAM_ACTIVATION.0, 0, PROGRAMS);
    let selected = ProgramActivationCdw10::new().with_pind(INDEX).with_sel(ProgramActivationCdw10::ACTIVATE);
    activate.cdw10 = selected.into_bits();
    assert!(host.admin(activate).status().is_success());
}

/// Medians in nanoseconds. The commands take turns, so that what else the machine does meets all of them.
fn medians<const KINDS: usize>(host: &mut TestHost, commands: [Command; KINDS]) -> [u64; KINDS] {
    let mut times = commands.map(|_| Vec::with_capacity(COUNT));
    for _ in 0..COUNT {
        for (command, times) in commands.iter().zip(&mut times) {
            let begun = Instant::now();
            let completion = host.execute(1, *command);
            times.push(begun.elapsed().as_nanos() as u64);
            assert!(completion.status().is_success());
        }
    }
    times.map(|mut times| *times.select_nth_unstable(COUNT / 2).1)
}

fn main() {
    let mut host = TestHost::new(64 << 20, &[nvm(8 << 20, 512)]);
    host.subsystem.set_program_runner(Box::new(Clock(Instant::now())));
    host.create_pair(1, 64);
    create(&mut host, Csi::SLM, 4096, MEMORY);
    create(&mut host, Csi::CP, 0, PROGRAMS);
    load(&mut host);
    let mut fill = Command::new(MemoryOpcode::FILL.0, 0, MEMORY);
    fill.cdw12 = 4;
    let mut execute = Command::new(ProgramOpcode::EXECUTE.0, 0, PROGRAMS);
    execute.cdw2 = ExecuteCdw2::new().with_pind(INDEX).into_bits();
    let [flush_ns, fill_ns, execute_ns] =
        medians(&mut host, [Command::new(NvmOpcode::FLUSH.0, 0, BLOCKS), fill, execute]);
    println!("Flush: {flush_ns} ns");
    println!("Memory Fill of 4 bytes: {fill_ns} ns");
    println!("Execute of an empty program: {execute_ns} ns");
}
