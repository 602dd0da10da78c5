//! Several controllers of one subsystem, each with the memory and the queues of its host.

use std::mem::swap;
use std::path::Path;

use byway_controller::{CmbRegisters, Controller, ControllerId, Identity, Subsystem, SubsystemOptions};
use byway_dma::BusAddr;
use byway_flash::{Flash, FlashOptions, MediaKind, OpenOptions};
use byway_link::Profile;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::reservation::{
    AcquireAction, AcquireCdw10, PersistChange, RegisterAction, RegisterCdw10, ReleaseAction, ReleaseCdw10,
    ReservationOpcode, ReservationType,
};
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::kv::{KvCdw11, KvOpcode};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Cdw0, Command, Status};

use crate::common::{TestHost, kv, nvm};

pub const MIB: u64 = 1 << 20;
pub const BLOCKS: u32 = 1;
pub const PAIRS: u32 = 2;
const SIZE_BYTES: u64 = 16 * MIB;

struct Node {
    host: TestHost,
    data: BusAddr,
}

/// The subsystem, and its controllers. Whichever acts has the subsystem in hand; the others hold another in its place.
pub struct Cluster {
    subsystem: Subsystem,
    nodes: Vec<Node>,
}

/// The identifier of host `n`; host 0 has none.
pub fn identifier(n: u8) -> [u8; 16] {
    [n; 16]
}

fn profile() -> Profile {
    Profile::by_name("gen4x4").unwrap()
}

pub fn subsystem(flash: Flash) -> Subsystem {
    let identity = Identity { nqn: String::new(), serial: String::new(), model: String::new() };
    Subsystem::new(identity, profile(), flash, SubsystemOptions::default()).unwrap()
}

impl Cluster {
    /// A controller for each of `hosts`, in memory.
    pub fn new(hosts: &[u8]) -> Self {
        Self::over(flash(MediaKind::Ram), hosts)
    }

    /// The same on a new image.
    pub fn on_image(path: &Path, hosts: &[u8]) -> Self {
        Self::over(flash(MediaKind::File(path.to_path_buf())), hosts)
    }

    /// The same on an image that there is.
    pub fn opened(path: &Path, hosts: &[u8]) -> Self {
        Self::over(Flash::open(path, OpenOptions::default()).unwrap(), hosts)
    }

    fn over(flash: Flash, hosts: &[u8]) -> Self {
        let mut cluster = Self { subsystem: subsystem(flash), nodes: Vec::new() };
        for (id, host) in (0..).zip(hosts) {
            let mut node = TestHost::disabled("gen4x4", 8 * MIB, MediaKind::Null, &[]);
            swap(&mut node.subsystem, &mut cluster.subsystem);
            node.controller = Controller::new(ControllerId(id), &mut node.subsystem, CmbRegisters::default());
            let data = start(&mut node);
            swap(&mut node.subsystem, &mut cluster.subsystem);
            cluster.nodes.push(Node { host: node, data });
            if *host != 0 {
                assert!(cluster.name(usize::from(id), &identifier(*host)).is_success());
            }
        }
        cluster
    }

    /// Has controller `n` act, with the subsystem in hand.
    pub fn on<T>(&mut self, n: usize, act: impl FnOnce(&mut TestHost) -> T) -> T {
        let Self { subsystem, nodes } = self;
        swap(&mut nodes[n].host.subsystem, subsystem);
        let result = act(&mut nodes[n].host);
        swap(&mut nodes[n].host.subsystem, subsystem);
        result
    }

    /// Resets controller `n` and enables it anew.
    pub fn reset(&mut self, n: usize) {
        self.nodes[n].data = self.on(n, |host| {
            host.reset();
            start(host)
        });
    }

    /// Sends a command over controller `n` with data to and from the device.
    pub fn io(&mut self, n: usize, mut command: Command, bytes: &[u8]) -> Status {
        let data = self.nodes[n].data;
        command.set_prps(data.0, 0);
        self.on(n, |host| {
            host.write(data, bytes);
            host.execute(1, command).status()
        })
    }

    /// Sends an I/O command whose buffer is named by an SGL of one data block.
    pub fn io_by_sgl(&mut self, n: usize, mut command: Command, len_bytes: u32) -> Status {
        command.set_sgl1(SglDescriptor::data_block(self.nodes[n].data.0, len_bytes));
        self.on(n, |host| host.execute(1, command).status())
    }

    /// What the last command of controller `n` left in its buffer.
    pub fn data(&self, n: usize, len_bytes: usize) -> Vec<u8> {
        self.nodes[n].host.read(self.nodes[n].data, len_bytes)
    }

    /// Sends a fused Compare and Write of a block of zeroes over controller `n`; the statuses of both.
    pub fn compare_and_write(&mut self, n: usize) -> [Status; 2] {
        let data = self.nodes[n].data;
        self.on(n, |host| {
            host.write(data, &[0; 512]);
            for (opcode, fuse) in
                [(NvmOpcode::COMPARE, Cdw0::FUSE_FIRST), (NvmOpcode::WRITE, Cdw0::FUSE_SECOND)]
            {
                let mut command = Command::new(opcode.0, 0, BLOCKS);
                command.cdw0.set_fuse(fuse);
                command.set_prps(data.0, 0);
                host.submit(1, command);
            }
            host.ring(1);
            host.run();
            [(); 2].map(|()| host.reap(1).expect("a completion").status().code())
        })
    }

    /// Sets the Host Identifier of controller `n`.
    pub fn name(&mut self, n: usize, identifier: &[u8]) -> Status {
        let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, 0);
        command.cdw10 = FeatureCdw10::new().with_fid(FeatureId::HOST_IDENTIFIER).into_bits();
        command.cdw11 = u32::from(identifier.len() == 16);
        self.on(n, |host| host.admin_write(command, identifier).status())
    }

    /// Reservation Register.
    pub fn register(&mut self, n: usize, nsid: u32, cdw10: RegisterCdw10, keys: (u64, u64)) -> Status {
        let mut command = Command::new(ReservationOpcode::REGISTER.0, 0, nsid);
        command.cdw10 = cdw10.into_bits();
        self.io(n, command, &pair(keys))
    }

    /// Makes the host of controller `n` a registrant.
    pub fn join(&mut self, n: usize, nsid: u32, key: u64) -> Status {
        self.register(n, nsid, RegisterCdw10::new(), (0, key))
    }

    /// The same, persisting through a loss of power.
    pub fn join_for_good(&mut self, n: usize, nsid: u32, key: u64) -> Status {
        self.register(n, nsid, RegisterCdw10::new().with_cptpl(PersistChange::KEEP), (0, key))
    }

    /// Ends the registration of the host of controller `n`.
    pub fn leave(&mut self, n: usize, nsid: u32, key: u64) -> Status {
        self.register(n, nsid, RegisterCdw10::new().with_rrega(RegisterAction::UNREGISTER), (key, 0))
    }

    /// Reservation Acquire.
    pub fn acquire_by(
        &mut self,
        n: usize,
        nsid: u32,
        action: AcquireAction,
        rtype: ReservationType,
        keys: (u64, u64),
    ) -> Status {
        let mut command = Command::new(ReservationOpcode::ACQUIRE.0, 0, nsid);
        command.cdw10 = AcquireCdw10::new().with_racqa(action).with_rtype(rtype).into_bits();
        self.io(n, command, &pair(keys))
    }

    /// Acquires a reservation.
    pub fn acquire(&mut self, n: usize, nsid: u32, rtype: ReservationType, key: u64) -> Status {
        self.acquire_by(n, nsid, AcquireAction::ACQUIRE, rtype, (key, 0))
    }

    /// Reservation Release.
    pub fn release(
        &mut self,
        n: usize,
        nsid: u32,
        action: ReleaseAction,
        rtype: ReservationType,
        key: u64,
    ) -> Status {
        let mut command = Command::new(ReservationOpcode::RELEASE.0, 0, nsid);
        command.cdw10 = ReleaseCdw10::new().with_rrela(action).with_rtype(rtype).into_bits();
        self.io(n, command, &key.to_le_bytes())
    }

    /// Reservation Report of up to 4096 bytes.
    pub fn report(&mut self, n: usize, nsid: u32, extended: bool) -> Result<Vec<u8>, Status> {
        let mut command = Command::new(ReservationOpcode::REPORT.0, 0, nsid);
        (command.cdw10, command.cdw11) = (1023, u32::from(extended));
        match self.io(n, command, &[0; 4096]) {
            status if status.is_success() => Ok(self.data(n, 4096)),
            status => Err(status),
        }
    }

    /// Reads or writes over controller `n`, by the first command of its kind.
    pub fn touch(&mut self, n: usize, nsid: u32, writes: bool) -> Status {
        let (read, write) = if nsid == BLOCKS {
            (NvmOpcode::READ.0, NvmOpcode::WRITE.0)
        } else {
            (KvOpcode::LIST.0, KvOpcode::STORE.0)
        };
        self.touch_by(n, nsid, if writes { write } else { read })
    }

    /// Sends an I/O command that would succeed if nothing were reserved.
    pub fn touch_by(&mut self, n: usize, nsid: u32, opcode: u8) -> Status {
        let mut command = Command::new(opcode, 0, nsid);
        if nsid == PAIRS {
            command.set_key(b"key");
            command.cdw11 = KvCdw11::new().with_key_len(3).into_bits();
            command.cdw10 = 64;
        }
        self.io(n, command, &[0; 512])
    }
}

fn flash(media: MediaKind) -> Flash {
    let options = FlashOptions::new(2 * SIZE_BYTES, profile().flash, media);
    Flash::create(options, &[nvm(SIZE_BYTES / 2, 512), kv(SIZE_BYTES)]).unwrap()
}

fn start(host: &mut TestHost) -> BusAddr {
    host.enable();
    host.create_pair(1, 16);
    host.alloc(4096)
}

fn pair((first, second): (u64, u64)) -> [u8; 16] {
    (u128::from(first) | u128::from(second) << 64).to_le_bytes()
}
