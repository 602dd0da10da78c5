//! How the tests' controller behaves, and what it does wrong once.

use byway_nvme_tcp::Digests;
use byway_spec::base::identify::Oncs;

/// How the controller behaves.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    pub digests: Digests,
    /// In-capsule data of I/O commands, in bytes.
    pub capsule_bytes: u32,
    /// CAP.MQES: entries of a queue, zero-based.
    pub mqes_z: u16,
    /// MAXCMD: commands of a queue at once, 0 for none reported.
    pub maxcmd: u16,
    /// MDTS: pages of a transfer, as a power of two; 0 for no limit.
    pub mdts: u8,
    /// KAS: 0 where Keep Alive is not supported.
    pub kas: u16,
    /// I/O queues that are granted, zero-based.
    pub queues_z: u16,
    /// ONCS.
    pub oncs: Oncs,
    /// ACL: Aborts at once, zero-based.
    pub acl_z: u8,
    /// FUSES.
    pub fuses: u16,
    /// DLFEAT of the namespace.
    pub dlfeat: u8,
    /// RESCAP of the namespace.
    pub rescap: u8,
    /// Most bytes that one R2T asks for.
    pub r2t_bytes: u32,
    /// Most bytes of one data PDU to the host.
    pub data_bytes: usize,
    /// Reads end with SUCCESS in the last data.
    pub success: bool,
    /// What is asked of hosts before anything else.
    pub asks: Asks,
    /// So many times Connect of an I/O queue is refused first: the queue of that name has not ended yet.
    pub busy_connects: u32,
    /// The first question for a namespace ends its connection.
    pub drops_identify: bool,
    /// I/O command of this number, from 1, meets the fault.
    pub fault_at: u32,
    pub fault: Fault,
}

/// What hosts are asked for by Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Nothing.
    Nothing,
    /// To authenticate, and then nothing is said.
    AndIsSilent,
    /// To authenticate, and then every message is of zeroes.
    AndTalksNonsense,
}

/// What happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The connection is closed instead of an answer.
    Drop,
    /// The command is done, and then the connection is closed.
    DropAfterwards,
    /// Data whose digest is not its own.
    WrongDigest,
    /// A termination request.
    Terminate,
    /// Data for a command that was not sent.
    UnknownCommand,
    /// Nothing, until the command is aborted; then it ends as aborted.
    Silence,
    /// Nothing, whether it is aborted or not.
    Deafness,
    /// Success, and only a part of the data.
    ShortRead,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            digests: Digests::BOTH,
            capsule_bytes: 8192,
            mqes_z: 1023,
            maxcmd: 0,
            mdts: 0,
            kas: 10,
            queues_z: 3,
            oncs: Oncs::new().with_compare(true),
            acl_z: 3,
            fuses: 0,
            dlfeat: 0,
            rescap: 0,
            r2t_bytes: 1 << 20,
            data_bytes: 1 << 20,
            success: true,
            asks: Asks::Nothing,
            busy_connects: 0,
            drops_identify: false,
            fault_at: 0,
            fault: Fault::None,
        }
    }
}
