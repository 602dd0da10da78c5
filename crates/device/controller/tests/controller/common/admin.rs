//! Admin commands, and the data they move.

use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::identify::{Cns, Csi, IDENTIFY_BYTES, IdentifyCdw10, IdentifyCdw11};
use byway_spec::base::log::{LogCdw10, LogCdw11, LogCdw14, LogPage};
use byway_spec::{Command, Completion, Status};

use super::TestHost;

impl TestHost {
    /// An admin command without data.
    pub fn admin(&mut self, command: Command) -> Completion {
        self.execute(0, command)
    }

    /// An admin command that reads `len_bytes` from the device.
    pub fn admin_read(&mut self, mut command: Command, len_bytes: usize) -> (Completion, Vec<u8>) {
        let mark = self.free_at;
        let at = self.alloc(len_bytes);
        self.point_prps(&mut command, at, len_bytes);
        let entry = self.admin(command);
        let bytes = self.read(at, len_bytes);
        self.free_at = mark;
        (entry, bytes)
    }

    /// An admin command that gives `bytes` to the device.
    pub fn admin_write(&mut self, mut command: Command, bytes: &[u8]) -> Completion {
        let mark = self.free_at;
        let at = self.alloc(bytes.len());
        self.write(at, bytes);
        self.point_prps(&mut command, at, bytes.len());
        let entry = self.admin(command);
        self.free_at = mark;
        entry
    }

    /// Identify.
    pub fn identify(&mut self, cns: Cns, nsid: u32, csi: Csi) -> Result<Vec<u8>, Status> {
        self.identify_of(IdentifyCdw10::new().with_cns(cns), IdentifyCdw11::new().with_csi(csi), nsid)
    }

    /// Identify with every field.
    pub fn identify_of(
        &mut self,
        cdw10: IdentifyCdw10,
        cdw11: IdentifyCdw11,
        nsid: u32,
    ) -> Result<Vec<u8>, Status> {
        let mut command = Command::new(AdminOpcode::IDENTIFY.0, 0, nsid);
        (command.cdw10, command.cdw11) = (cdw10.into_bits(), cdw11.into_bits());
        let (entry, bytes) = self.admin_read(command, IDENTIFY_BYTES);
        if entry.status().is_success() { Ok(bytes) } else { Err(entry.status()) }
    }

    /// A log page from its first byte on, its events cleared.
    pub fn log(&mut self, page: LogPage, csi: Csi, len_bytes: usize) -> Result<Vec<u8>, Status> {
        let (entry, bytes) = self.admin_read(get_log(page, csi, 0, len_bytes), len_bytes);
        if entry.status().is_success() { Ok(bytes) } else { Err(entry.status()) }
    }
}

/// Get Log Page of `len_bytes` from byte `offset` on.
pub fn get_log(page: LogPage, csi: Csi, offset: u64, len_bytes: usize) -> Command {
    let dwords_z = (len_bytes / 4 - 1) as u32;
    let mut command = Command::new(AdminOpcode::GET_LOG_PAGE.0, 0, 0);
    command.cdw10 = LogCdw10::new().with_lid(page).with_numdl_z(dwords_z as u16).into_bits();
    command.cdw11 = LogCdw11::new().with_numdu((dwords_z >> 16) as u16).into_bits();
    (command.cdw12, command.cdw13) = (offset as u32, (offset >> 32) as u32);
    command.cdw14 = LogCdw14::new().with_csi(csi.0).into_bits();
    command
}
