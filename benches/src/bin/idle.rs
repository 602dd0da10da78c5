//! Cost of an idle server: processor time and wake-ups of `--idle sleep`, without clients, and with clients that stop sending at
//! several points.
//!
//! The device's process is this program once more.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use byway::serve::{Idle, ServeOptions};
use byway::{CreateOptions, NewNamespace, Nsid, QueueOptions, create};
use byway_benches::peer::{Folder, Peer, serve_for_peer};
use byway_benches::results;
use byway_buses::VfioUserBus;
use byway_dma::DmaMemory;
use byway_driver::{AttachOptions, Bus, Driver};
use byway_queue::DoorbellIndex;
use byway_spec::base::admin::{AdminOpcode, CreateCqCdw11, CreateSqCdw11, QueueCdw10};
use byway_spec::base::register::{Aqa, Cc, Csts, Register};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Completion};
use clap::Parser;
use serde::Serialize;

/// Limit of every wait before a measurement.
const TIMEOUT: Duration = Duration::from_secs(20);
/// From the last command to the first measurement: by then the server has finished it, polled without success and gone to sleep.
const SETTLING: Duration = Duration::from_secs(1);
/// Flushes one after the other, so that the server polls doorbell buffers, and stops again.
const FLUSHES: u32 = 2000;
const NSID: u32 = 1;
const ENTRIES: u16 = 16;
const PAGE: usize = 4096;

#[derive(Parser)]
#[command(about = "Measures what an idle server takes of a processor, by what clients have done before")]
struct Arguments {
    /// Idle time of each case, in seconds.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// The device's side: what it serves at.
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Row {
    case: &'static str,
    seconds: f64,
    cpu_us: u64,
    /// Of one processor, in hundredths.
    cpu_percent: f64,
    wakeups_per_second: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.serve {
        Some(socket) => serve_device(socket),
        None => measure(&arguments),
    }
}

/// The device's side, as `byway serve IMAGE --vfio-user PATH` has it.
fn serve_device(socket: &Path) -> Result<()> {
    let image = socket.with_extension("image");
    create(&image, &CreateOptions::new(1 << 30).namespaces([NewNamespace::NVM]))?;
    let options = ServeOptions::at(socket).idle(Idle::Sleep);
    serve_for_peer(&format!("embedded:{}", image.display()), &options, |_| Ok(()))
}

/// The server's process.
struct Server(Peer);

impl Server {
    fn start(socket: &Path) -> Result<Self> {
        let started = Self(Peer::start([OsStr::new("--serve"), socket.as_os_str()])?);
        let until = Instant::now() + TIMEOUT;
        while !socket.exists() {
            ensure!(Instant::now() < until, "no server at {}", socket.display());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(started)
    }

    /// Processor time of its threads so far.
    fn taken(&self) -> Result<Taken> {
        let mut taken = Taken { cpu_ns: 0, wakeups: 0 };
        for thread in fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            let thread = thread?.path();
            // Nanoseconds on a processor come first; /proc/PID/stat has them in hundredths of a second.
            let schedule = fs::read_to_string(thread.join("schedstat"))?;
            taken.cpu_ns += schedule.split(' ').next().context("schedstat")?.parse::<u64>()?;
            let status = fs::read_to_string(thread.join("status"))?;
            let slept = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            taken.wakeups += slept.context("voluntary_ctxt_switches")?.trim().parse::<u64>()?;
        }
        Ok(taken)
    }

    /// Stays idle for so long.
    fn idle(&self, case: &'static str, time: Duration) -> Result<Row> {
        std::thread::sleep(SETTLING);
        let (begun, before) = (Instant::now(), self.taken()?);
        std::thread::sleep(time);
        let (seconds, after) = (begun.elapsed().as_secs_f64(), self.taken()?);
        let cpu_ns = after.cpu_ns - before.cpu_ns;
        Ok(Row {
            case,
            seconds,
            cpu_us: cpu_ns / 1000,
            cpu_percent: cpu_ns as f64 / 1e7 / seconds,
            wakeups_per_second: (after.wakeups - before.wakeups) as f64 / seconds,
        })
    }
}

struct Taken {
    cpu_ns: u64,
    wakeups: u64,
}

fn measure(arguments: &Arguments) -> Result<()> {
    let folder = Folder::of("idle")?;
    let rows = measure_all(&folder.path().join("socket"), Duration::from_secs(arguments.seconds))?;
    for Row { case, cpu_percent, wakeups_per_second, seconds, .. } in &rows {
        println!(
            "{case:28} {cpu_percent:7.3} % of a processor, {wakeups_per_second:5.1} wake-ups a second, over {seconds:.0} s"
        );
    }
    arguments.json.as_ref().map_or(Ok(()), |path| results::keep(path, &rows))
}

fn measure_all(socket: &Path, time: Duration) -> Result<Vec<Row>> {
    let server = Server::start(socket)?;
    let mut rows = vec![server.idle("no client", time)?];
    let bus = VfioUserBus::open(socket)?;
    rows.push(server.idle("client", time)?);
    let device = Driver::attach(Arc::new(bus), AttachOptions::default())?;
    let mut queue = device.queue(QueueOptions::default())?;
    rows.push(server.idle("queues", time)?);
    for lba in 0..u64::from(FLUSHES) {
        queue.execute_write(Nsid::FIRST, lba, 512, &[1; 512])?;
    }
    rows.push(server.idle("queues, after writes", time)?);
    drop((queue, device));
    let mut guest = Guest::start(VfioUserBus::open(socket)?)?;
    rows.push(server.idle("doorbell buffers", time)?);
    (0..FLUSHES).try_for_each(|_| guest.flush())?;
    rows.push(server.idle("doorbell buffers, after work", time)?);
    Ok(rows)
}

/// A client that configures doorbell buffers, as guests do and this library's driver does not.
struct Guest {
    bus: VfioUserBus,
    memory: Arc<DmaMemory>,
    base: u64,
    queues: [Rings; 2],
}

/// One queue pair: where it is in the memory, and how far it is.
#[derive(Default)]
struct Rings {
    tail: u16,
    head: u16,
    is_second_round: bool,
}

/// Pages of the memory: submission ring and completion ring of either queue, doorbells, event indexes.
const DOORBELLS: usize = 4 * PAGE;

impl Guest {
    fn start(bus: VfioUserBus) -> Result<Self> {
        let memory = Arc::new(bus.memory(6 * PAGE)?);
        let base = bus.map(&memory)?.0;
        let mut guest = Self { bus, memory, base, queues: Default::default() };
        guest.enable()?;
        let mut buffers = Command::new(AdminOpcode::DOORBELL_BUFFER_CONFIG.0, 0, 0);
        buffers.set_prps(base + DOORBELLS as u64, base + (DOORBELLS + PAGE) as u64);
        guest.execute(0, buffers)?;
        guest.make_queue()?;
        Ok(guest)
    }

    fn enable(&self) -> Result<()> {
        let set = |register: Register, bytes, value| self.bus.write_register(register.0, bytes, value);
        let entries = Aqa::new().with_asqs_z(ENTRIES - 1).with_acqs_z(ENTRIES - 1);
        set(Register::AQA, 4, entries.into_bits().into())?;
        set(Register::ASQ, 8, self.base)?;
        set(Register::ACQ, 8, self.base + PAGE as u64)?;
        set(Register::CC, 4, Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits().into())?;
        let until = Instant::now() + TIMEOUT;
        while !Csts::from_bits(self.bus.read_register(Register::CSTS.0, 4)? as u32).rdy() {
            ensure!(Instant::now() < until, "the controller does not become ready");
        }
        Ok(())
    }

    fn make_queue(&mut self) -> Result<()> {
        let cdw10 = QueueCdw10::new().with_qid(1).with_qsize_z(ENTRIES - 1).into_bits();
        let mut cq = Command::new(AdminOpcode::CREATE_CQ.0, 0, 0);
        cq.set_prps(self.base + 3 * PAGE as u64, 0);
        (cq.cdw10, cq.cdw11) = (cdw10, CreateCqCdw11::new().with_pc(true).into_bits());
        self.execute(0, cq)?;
        let mut sq = Command::new(AdminOpcode::CREATE_SQ.0, 0, 0);
        sq.set_prps(self.base + 2 * PAGE as u64, 0);
        (sq.cdw10, sq.cdw11) = (cdw10, CreateSqCdw11::new().with_pc(true).with_cqid(1).into_bits());
        self.execute(0, sq)
    }

    fn flush(&mut self) -> Result<()> {
        self.execute(1, Command::new(NvmOpcode::FLUSH.0, 0, NSID))
    }

    fn execute(&mut self, qid: u16, command: Command) -> Result<()> {
        let page = usize::from(qid) * 2 * PAGE;
        let rings = self.queues.get_mut(usize::from(qid)).context("two queues")?;
        self.memory.write_slot64(page + usize::from(rings.tail) * 64, &command.to_bytes())?;
        rings.tail = (rings.tail + 1) % ENTRIES;
        let (at, phase) = (page + PAGE + usize::from(rings.head) * 16, !rings.is_second_round);
        rings.head = (rings.head + 1) % ENTRIES;
        rings.is_second_round ^= rings.head == 0;
        let (tail, head) = (rings.tail, rings.head);
        self.ring(DoorbellIndex::submission(qid), tail)?;
        let until = Instant::now() + TIMEOUT;
        let entry = loop {
            let entry = Completion::from_bytes(&self.memory.load_completion(at)?);
            if entry.phase() == phase {
                break entry;
            }
            ensure!(Instant::now() < until, "no completion in queue {qid}");
        };
        ensure!(entry.status().is_success(), "{:?}", entry.status());
        self.ring(DoorbellIndex::completion(qid), head)
    }

    /// Writes a doorbell of an I/O queue to the buffer first. Rings more often than event indexes ask for, at worst.
    fn ring(&self, doorbell: DoorbellIndex, value: u16) -> Result<()> {
        if doorbell.queue() > 0 {
            self.memory.store_u32(DOORBELLS + doorbell.place() as usize * 4, value.into())?;
        }
        self.bus.ring(doorbell, value.into());
        Ok(())
    }
}
