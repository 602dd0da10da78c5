//! What a scripted device does when a doorbell is rung.

use byway_dma::{BusAddr, HostMemory};
use byway_spec::base::admin::{AbortCdw10, AdminOpcode, QueueCdw10};
use byway_spec::base::feature::FeatureCdw10;
use byway_spec::base::identify::{Cns, Controller, IdentifyCdw10, Oacs, Sgls, ascii_field};
use byway_spec::base::sgl::SglKind;
use byway_spec::nvm::{LbaFormat, NvmNamespace};
use byway_spec::vendor::{self, VendorArea};
use byway_spec::{Command, Completion, Status};
use zerocopy::{FromZeros, IntoBytes};

use super::{
    Behind, Fetched, HEADER_BYTES, Reply, Ring, SEGMENT_BYTES, ScriptedBus, State, WINDOW_BYTES, blocks,
};

impl Ring {
    /// Where the next entry of the completion queue goes.
    fn next_entry(&mut self) -> BusAddr {
        let at = BusAddr(self.completion + u64::from(self.completed) * 16);
        self.completed = (self.completed + 1) % self.entries;
        self.phase ^= self.completed == 0;
        at
    }
}

impl ScriptedBus {
    pub(super) fn run(&self, state: &mut State, qid: u16, tail: u32) {
        while let Some(fetched) = self.fetch(state, qid, tail) {
            if qid == 0 {
                match &mut state.withheld_admin {
                    Some(withheld) => withheld.push(fetched),
                    None => self.administer(state, &fetched),
                }
                continue;
            }
            state.fetched.push(fetched.clone());
            match &mut state.withheld {
                Some(withheld) => withheld.push(fetched),
                None => self.answer(state, &fetched),
            }
        }
    }

    fn fetch(&self, state: &mut State, qid: u16, tail: u32) -> Option<Fetched> {
        let ring = state.rings.get_mut(&qid)?;
        if ring.head == tail {
            return None;
        }
        let mut take = || {
            let (at, mut slot) = (BusAddr(ring.submission + u64::from(ring.head) * 64), [0; 64]);
            self.space.read_slot64(at, &mut slot).unwrap();
            ring.head = (ring.head + 1) % ring.entries;
            slot
        };
        let entry = Command::from_bytes(&take());
        let has_chunks = entry.cdw0.psdt().is_sgl() && entry.sgl1().kind == SglKind::DATA_BLOCK_OFFSET;
        let count = if has_chunks { vendor::inline_chunks(entry.sgl1().length_bytes as usize) } else { 0 };
        let chunks = (0..count).flat_map(|_| take()).collect();
        let mut fetched = Fetched { qid, entry, chunks, data: Vec::new() };
        let len = match entry.opcode() {
            _ if qid == 0 || entry.dptr == [0, 0] => 0,
            _ if entry.cdw0.psdt().is_sgl() => entry.sgl1().length_bytes as usize,
            0x01 => entry.cdw10 as usize,
            0xa1 => entry.cdw10 as usize / 4096 * 4096,
            _ => 0,
        };
        if len > 0 {
            fetched.data = self.payload(&fetched, len);
        }
        Some(fetched)
    }

    pub(super) fn answer(&self, state: &mut State, fetched: &Fetched) {
        let reply = state.replies.pop_front().unwrap_or_default();
        if !reply.data.is_empty() {
            let at = if fetched.entry.cdw0.psdt().is_sgl() {
                fetched.entry.sgl1().address
            } else {
                fetched.entry.prp1()
            };
            self.space.write(BusAddr(at), &reply.data).unwrap();
        }
        self.complete(state, fetched, &reply);
    }

    fn complete(&self, state: &mut State, fetched: &Fetched, reply: &Reply) {
        let ring = state.rings.get_mut(&fetched.qid).unwrap();
        let result = u64::from(reply.dw0) | u64::from(reply.dw1) << 32;
        let completion = Completion::new(fetched.qid, ring.head as u16, fetched.entry.cid(), reply.status);
        let bytes = completion.with_result(result).with_phase(ring.phase).to_bytes();
        let at = ring.next_entry();
        let behind: Vec<(BusAddr, [u8; 16])> = match &reply.behind {
            Behind::Nothing => Vec::new(),
            Behind::Result(result) | Behind::Later(result) => result
                .chunks(vendor::RESULT_ENTRY_BYTES)
                .map(|chunk| {
                    let entry = vendor::result_entry(chunk, ring.phase);
                    (ring.next_entry(), entry)
                })
                .collect(),
            Behind::Noise(entries) => (0..*entries).map(|_| (ring.next_entry(), [0xff; 16])).collect(),
        };
        match &reply.behind {
            Behind::Later(_) => state.late.extend(behind),
            _ => behind.iter().for_each(|(at, entry)| self.space.store_completion(*at, entry).unwrap()),
        }
        self.space.store_completion(at, &bytes).unwrap();
        if state.armed.contains(&fetched.qid) {
            *state.raised.entry(fetched.qid).or_default() += 1;
        }
    }

    pub(super) fn administer(&self, state: &mut State, fetched: &Fetched) {
        let entry = fetched.entry;
        let cdw10 = QueueCdw10::from_bits(entry.cdw10);
        let mut reply = Reply::default();
        match AdminOpcode(entry.opcode()) {
            AdminOpcode::IDENTIFY => {
                let page = self.identify(state, IdentifyCdw10::from_bits(entry.cdw10).cns(), entry.nsid);
                state.identified.push(entry.nsid);
                self.space.write(BusAddr(entry.prp1()), &page).unwrap();
            }
            AdminOpcode::SET_FEATURES => {
                let feature = FeatureCdw10::from_bits(entry.cdw10).fid().0;
                state.features.push((feature, entry.nsid, entry.cdw11));
                reply.dw0 = if feature == 0xc1 { 1 } else { entry.cdw11 };
            }
            AdminOpcode::CREATE_CQ => {
                let ring = Ring {
                    completion: entry.prp1(),
                    entries: u32::from(cdw10.qsize_z()) + 1,
                    phase: true,
                    ..Ring::default()
                };
                state.rings.insert(cdw10.qid(), ring);
            }
            AdminOpcode::CREATE_SQ => {
                let ring = state.rings.get_mut(&cdw10.qid()).unwrap();
                ring.submission = entry.prp1();
            }
            AdminOpcode::DELETE_SQ | AdminOpcode::DELETE_CQ if state.keeps_queues => {
                reply.status = Status::INTERNAL_ERROR;
            }
            AdminOpcode::DELETE_SQ => {}
            AdminOpcode::DELETE_CQ => drop(state.rings.remove(&cdw10.qid())),
            AdminOpcode::ABORT if state.refused_aborts > 0 => {
                state.refused_aborts -= 1;
                reply.status = Status::ABORT_LIMIT_EXCEEDED;
            }
            AdminOpcode::ABORT => {
                let abort = AbortCdw10::from_bits(entry.cdw10);
                state.aborts.push((abort.sqid(), abort.cid()));
            }
            AdminOpcode::FORMAT_NVM => state.lbads = 12,
            other => panic!("{other:?}"),
        }
        self.complete(state, fetched, &reply);
    }

    fn identify(&self, state: &State, cns: Cns, nsid: u32) -> Vec<u8> {
        let mut page = vec![0; 4096];
        match cns {
            Cns::COMMAND_SETS => page[..24].copy_from_slice([1u64, 2, 3].as_bytes()),
            Cns::NAMESPACE_DESCRIPTORS => page[..5].copy_from_slice(&[4, 1, 0, 0, u8::from(nsid == 1)]),
            Cns::NAMESPACE => {
                let mut namespace = NvmNamespace::new_zeroed();
                namespace.nsze = if nsid == blocks().get() { 1 << 20 } else { 0 };
                namespace.lbaf[0] = LbaFormat::new().with_lbads(state.lbads);
                page.copy_from_slice(namespace.as_bytes());
            }
            Cns::CONTROLLER => page = self.controller(),
            other => panic!("identify {other}"),
        }
        page
    }

    fn controller(&self) -> Vec<u8> {
        let mut controller = Controller::new_zeroed();
        controller.mn = ascii_field("Scripted");
        controller.mdts = self.script.mdts;
        controller.acl_z = self.script.acl_z;
        controller.sgls = Sgls::new().with_supported(self.script.sgl);
        (controller.oncs, controller.cdfs) = (self.script.oncs, 1);
        controller.oacs = Oacs::new().with_format(true);
        controller.vendor = VendorArea {
            magic: vendor::MAGIC,
            version: vendor::VERSION,
            methods: self.script.methods,
            inline_max_bytes: self.script.inline_max_bytes,
            inline_read_max_bytes: self.script.inline_read_max_bytes,
            piggyback_max_bytes: self.script.piggyback_max_bytes,
            pt_payloads_max: 4,
            bulk_max_bytes: 1 << 16,
            device_memory_bytes: 1 << 20,
            cxl_window_bytes: WINDOW_BYTES,
            cxl_windows: 4,
            cxl_segment_bytes: SEGMENT_BYTES as u32,
            cxl_header_bytes: HEADER_BYTES as u32,
            cxl_align_bytes: 8,
            cxl_page_bytes: 4096,
            byte_region_bytes: 1 << 20,
            ..VendorArea::new_zeroed()
        };
        controller.as_bytes().to_vec()
    }
}
