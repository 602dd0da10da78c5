//! The kernel's structures and numbers (`linux/vfio.h`, Linux 6.12; unchanged since 5.4; `linux/iommufd.h`, since 6.6).

use libc::c_ulong;

/// `VFIO_API_VERSION`.
pub(super) const API_VERSION: i32 = 0;
/// `VFIO_TYPE1v2_IOMMU`.
pub(super) const TYPE1_V2: c_ulong = 3;
/// `VFIO_GROUP_FLAGS_VIABLE`.
pub(super) const GROUP_VIABLE: u32 = 1 << 0;
/// `VFIO_DEVICE_FLAGS_RESET` and `VFIO_DEVICE_FLAGS_PCI`.
pub(super) const DEVICE_RESET: u32 = 1 << 0;
pub(super) const DEVICE_PCI: u32 = 1 << 1;
/// `VFIO_REGION_INFO_FLAG_MMAP` and `_CAPS`, and `VFIO_REGION_INFO_CAP_SPARSE_MMAP`.
pub(super) const REGION_MMAP: u32 = 1 << 2;
pub(super) const REGION_CAPS: u32 = 1 << 3;
pub(super) const CAP_SPARSE_MMAP: u16 = 1;
/// `VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER`.
pub(super) const IRQ_EVENTFD_TRIGGER: u32 = 1 << 2 | 1 << 5;
/// `VFIO_IOMMU_INFO_CAPS`, and `VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE`.
pub(super) const IOMMU_CAPS: u32 = 1 << 1;
pub(super) const CAP_IOVA_RANGE: u16 = 1;
/// `VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE`.
pub(super) const DMA_READ_WRITE: u32 = 0b11;

/// `struct vfio_group_status`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct GroupStatus {
    pub argsz: u32,
    pub flags: u32,
}

/// `struct vfio_device_info`, without what comes after 5.4.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct DeviceInfo {
    pub argsz: u32,
    pub flags: u32,
    pub regions: u32,
    pub irqs: u32,
}

/// `struct vfio_region_info`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RegionInfo {
    pub argsz: u32,
    pub flags: u32,
    pub index: u32,
    pub cap_offset: u32,
    pub size: u64,
    pub offset: u64,
}

/// `struct vfio_irq_info`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct IrqInfo {
    pub argsz: u32,
    pub flags: u32,
    pub index: u32,
    pub count: u32,
}

/// `struct vfio_iommu_type1_info`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct IommuInfo {
    pub argsz: u32,
    pub flags: u32,
    pub pgsizes: u64,
    pub cap_offset: u32,
    pub pad: u32,
}

/// `struct vfio_iommu_type1_dma_map`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct DmaMap {
    pub argsz: u32,
    pub flags: u32,
    pub vaddr: u64,
    pub iova: u64,
    pub size: u64,
}

/// `struct vfio_iommu_type1_dma_unmap`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct DmaUnmap {
    pub argsz: u32,
    pub flags: u32,
    pub iova: u64,
    pub size: u64,
}

/// `IOMMU_IOAS_MAP_FIXED_IOVA | IOMMU_IOAS_MAP_WRITEABLE | IOMMU_IOAS_MAP_READABLE`.
pub(super) const IOAS_MAP_FIXED_READ_WRITE: u32 = 0b111;

/// `struct vfio_device_bind_iommufd`, without what comes after 6.6.
#[repr(C, align(8))]
#[derive(Debug, Default)]
pub(super) struct BindIommufd {
    pub argsz: u32,
    pub flags: u32,
    pub iommufd: i32,
    pub out_devid: u32,
}

/// `struct vfio_device_attach_iommufd_pt`, without what comes after 6.6.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct AttachIommufd {
    pub argsz: u32,
    pub flags: u32,
    pub pt_id: u32,
}

/// `struct iommu_ioas_alloc`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct IoasAlloc {
    pub size: u32,
    pub flags: u32,
    pub out_ioas_id: u32,
}

/// `struct iommu_iova_range`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct IovaRange {
    pub start: u64,
    pub last: u64,
}

/// `struct iommu_ioas_iova_ranges`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct IoasIovaRanges {
    pub size: u32,
    pub ioas_id: u32,
    pub num_iovas: u32,
    pub reserved: u32,
    pub allowed_iovas: u64,
    pub out_iova_alignment: u64,
}

/// `struct iommu_ioas_map`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct IoasMap {
    pub size: u32,
    pub flags: u32,
    pub ioas_id: u32,
    pub reserved: u32,
    pub user_va: u64,
    pub length: u64,
    pub iova: u64,
}

/// `struct iommu_ioas_unmap`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct IoasUnmap {
    pub size: u32,
    pub ioas_id: u32,
    pub iova: u64,
    pub length: u64,
}

const _: () = assert!(size_of::<BindIommufd>() == 16 && size_of::<AttachIommufd>() == 12);
const _: () = assert!(size_of::<IoasAlloc>() == 12 && size_of::<IoasIovaRanges>() == 32);
const _: () = assert!(size_of::<IoasMap>() == 40 && size_of::<IoasUnmap>() == 24);
const _: () = assert!(size_of::<RegionInfo>() == 32 && size_of::<IommuInfo>() == 24);
const _: () = assert!(size_of::<DmaMap>() == 32 && size_of::<DmaUnmap>() == 24);

/// Numbers of `ioctl` requests.
pub(super) mod request {
    use super::c_ulong;

    pub const GET_API_VERSION: c_ulong = none(0);
    pub const CHECK_EXTENSION: c_ulong = none(1);
    pub const SET_IOMMU: c_ulong = none(2);
    pub const GROUP_GET_STATUS: c_ulong = none(3);
    pub const GROUP_SET_CONTAINER: c_ulong = none(4);
    pub const GROUP_GET_DEVICE_FD: c_ulong = none(6);
    pub const DEVICE_GET_INFO: c_ulong = none(7);
    pub const DEVICE_GET_REGION_INFO: c_ulong = none(8);
    pub const DEVICE_GET_IRQ_INFO: c_ulong = none(9);
    pub const DEVICE_SET_IRQS: c_ulong = none(10);
    pub const DEVICE_RESET: c_ulong = none(11);
    pub const IOMMU_GET_INFO: c_ulong = none(12);
    pub const IOMMU_MAP_DMA: c_ulong = none(13);
    pub const IOMMU_UNMAP_DMA: c_ulong = none(14);
    pub const DEVICE_BIND_IOMMUFD: c_ulong = none(18);
    pub const DEVICE_ATTACH_IOMMUFD: c_ulong = none(19);

    // `IOMMUFD_CMD_BASE` is 0x80, of the same type as VFIO's.
    pub const IOAS_ALLOC: c_ulong = none(0x81 - 100);
    pub const IOAS_IOVA_RANGES: c_ulong = none(0x84 - 100);
    pub const IOAS_MAP: c_ulong = none(0x85 - 100);
    pub const IOAS_UNMAP: c_ulong = none(0x86 - 100);

    /// `_IO(';', 100 + number)`.
    const fn none(number: c_ulong) -> c_ulong {
        (b';' as c_ulong) << 8 | (100 + number)
    }
}
