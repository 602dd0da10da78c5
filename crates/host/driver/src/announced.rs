//! What a device announced, in the form that the transfer methods ask for it.

use byway_core::{
    AdminOptions, Capabilities, Key, KvCommands, Limits, Methods, NvmCommands, NvmLimits, identify,
};
use byway_link::Method;
use byway_spec::base::identify::Controller;
use byway_spec::base::register::Cap;
use byway_spec::vendor::{self, VendorArea};

/// What a device announced in Identify Controller and its registers. 0 stands for "not at all".
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced {
    /// Vendor methods, to be enabled by the vendor feature.
    pub vendor: vendor::Methods,
    /// Transfer methods that a queue may have.
    pub methods: Methods,
    /// Most bytes of one command's data.
    pub transfer_max_bytes: u64,
    /// Longest payload of `inline`.
    pub inline_max_bytes: u64,
    /// Longest payload of `piggyback`, and tail of `prp+tail`.
    pub piggyback_max_bytes: u64,
    /// Most unfinished payloads of `piggyback-pt`.
    pub piggyback_pt_unfinished: u32,
    /// Longest result behind its completion.
    pub inline_read_max_bytes: u64,
    /// Longest payload of a bulk store.
    pub bulk_max_bytes: u64,
    /// Bytes of the controller memory buffer that can be stored into.
    pub byte_region_bytes: u64,
    /// Most entries of a ring.
    pub ring_entries_max: u32,
    /// Windows of device memory, where there are any.
    pub windows: Option<WindowLayout>,
    /// Aborts that may be outstanding at once.
    pub abort_limit: usize,
    /// Whether the vendor area is there.
    pub byway: bool,
    /// Optional commands of the NVM command set.
    pub nvm: NvmCommands,
    /// Commands on ranges of keys and on many keys.
    pub kv: KvCommands,
    /// Limits of those, as the device announced them.
    pub kv_limits: Limits,
    /// Limits of commands that move no data.
    pub nvm_limits: NvmLimits,
    /// What admin commands may ask for.
    pub admin: AdminOptions,
}

/// How windows of device memory are laid out, and the records in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowLayout {
    /// Where the first window begins in device memory.
    pub offset: u64,
    /// Windows that each namespace has.
    pub windows: u32,
    /// Bytes of a window.
    pub window_bytes: u64,
    /// A record never spans a multiple of this.
    pub segment_bytes: u64,
    /// Bytes of a record before its key.
    pub header_bytes: u64,
    /// Records begin at multiples of this.
    pub align_bytes: u64,
    /// A page of this size is needed until the device's write pointer has left it.
    pub page_bytes: u64,
}

impl Announced {
    /// Reads what a controller announced, of which a bus with or without memory of the device is in the way.
    pub(crate) fn read(
        controller: &Controller,
        cap: Cap,
        has_device_memory: bool,
        has_byte_memory: bool,
    ) -> Self {
        let mut announced = Self {
            transfer_max_bytes: identify::transfer_max_bytes(controller.mdts, cap.mpsmin()),
            ring_entries_max: u32::from(cap.mqes_z()) + 1,
            methods: Methods::NONE.with(Method::Prp).with(Method::Adaptive),
            nvm: identify::nvm_commands(controller),
            admin: identify::admin_options(controller),
            abort_limit: usize::from(controller.acl_z) + 1,
            ..Self::default()
        };
        // The driver's descriptors are of any length and alignment, which those that are dword aligned (2) are not.
        if controller.sgls.supported() == 1 {
            announced.methods = announced.methods.with(Method::Sgl);
        }
        if controller.vendor.is_known() {
            announced.read_vendor(&controller.vendor, has_device_memory, has_byte_memory);
        }
        announced
    }

    fn read_vendor(&mut self, area: &VendorArea, has_device_memory: bool, has_byte_memory: bool) {
        self.byway = true;
        self.windows = window_layout(area).filter(|_| has_device_memory);
        let mut vendor = area.methods;
        vendor.set_cxl(vendor.cxl() && self.windows.is_some());
        vendor.set_cxl_piggyback(vendor.cxl_piggyback() && self.windows.is_some());
        vendor.set_byte_store(vendor.byte_store() && has_byte_memory && area.byte_region_bytes > 0);
        self.vendor = vendor;
        self.inline_max_bytes = area.inline_max_bytes.into();
        self.piggyback_max_bytes = area.piggyback_max_bytes.into();
        self.piggyback_pt_unfinished = area.pt_payloads_max;
        self.inline_read_max_bytes = if vendor.inline_read() { area.inline_read_max_bytes.into() } else { 0 };
        self.bulk_max_bytes = if vendor.bulk() { area.bulk_max_bytes.into() } else { 0 };
        self.byte_region_bytes = if vendor.byte_store() { area.byte_region_bytes } else { 0 };
        self.kv = KvCommands::of(area);
        self.kv_limits = Limits::default().with_kv(area, Key::MAX_BYTES as u32);
        let announced = [
            (vendor.piggyback(), Method::Piggyback),
            (vendor.piggyback_pt(), Method::PiggybackPt),
            (vendor.prp_tail(), Method::PrpTail),
            (vendor.inline(), Method::Inline),
            (vendor.inline() && vendor.piggyback(), Method::Hybrid),
            (vendor.cxl(), Method::Cxl),
            (vendor.cxl_piggyback(), Method::CxlPiggyback),
        ];
        let methods = announced.into_iter().filter(|(has, _)| *has).map(|(_, method)| method);
        self.methods = methods.fold(self.methods, Methods::with);
    }

    /// The same as the error that the program gets.
    pub(crate) fn capabilities(&self, queues: u16) -> Capabilities {
        Capabilities {
            methods: self.methods,
            limits: Limits {
                transfer_bytes: self.transfer_max_bytes,
                queues,
                ring_entries: self.ring_entries_max,
                // One entry of a ring stays free.
                queue_depth: self.ring_entries_max - 1,
                inline_bytes: self.inline_max_bytes as u32,
                piggyback_bytes: self.piggyback_max_bytes as u32,
                inline_read_bytes: self.inline_read_max_bytes as u32,
                piggyback_pt_unfinished: self.piggyback_pt_unfinished.min(u32::from(u16::MAX)) as u16,
                bulk_bytes: u32::try_from(self.bulk_max_bytes).unwrap_or(u32::MAX),
                window_bytes: self.windows.map_or(0, |windows| windows.window_bytes as u32),
                byte_memory_bytes: self.byte_region_bytes,
                ..self.kv_limits
            },
            raw_commands: true,
            admin_commands: true,
            bulk_store: self.bulk_max_bytes > 0,
            kv: self.kv,
            cancel: true,
            nvm: self.nvm,
            nvm_limits: self.nvm_limits,
            admin: self.admin,
            memory_align_bytes: 1,
            event: false,
            overlaps: true,
        }
    }
}

/// The layout of windows, if what the device says of it can be.
fn window_layout(area: &VendorArea) -> Option<WindowLayout> {
    let layout = WindowLayout {
        offset: area.cxl_window_offset,
        windows: area.cxl_windows,
        window_bytes: area.cxl_window_bytes,
        segment_bytes: area.cxl_segment_bytes.into(),
        header_bytes: area.cxl_header_bytes.into(),
        align_bytes: area.cxl_align_bytes.max(1).into(),
        page_bytes: match area.cxl_page_bytes {
            0 => area.cxl_segment_bytes.into(),
            other => other.into(),
        },
    };
    let whole = layout.segment_bytes > 0 && layout.window_bytes.is_multiple_of(layout.segment_bytes);
    (area.cxl_windows > 0 && layout.window_bytes > 0 && whole).then_some(layout)
}
