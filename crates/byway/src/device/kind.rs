//! What is behind a device of any kind: one case for each backend.

#[cfg(feature = "kernel")]
use byway_backends::{IoUring, IoUringCmd, Libaio, NvmeIoctl, NvmeTarget, PosixAio, Psync, Threads};
use byway_backends::{Nil, Ram};
#[cfg(feature = "vfio")]
use byway_buses::{VfioBus, VfioUserBus};
#[cfg(feature = "vfio")]
use byway_driver::Driver;
#[cfg(feature = "tcp")]
use byway_tcp_initiator::{NvmeTcp, NvmeTcpPaths};

#[cfg(feature = "embedded")]
use crate::embedded;

/// A device behind the backend that serves it.
pub(crate) enum DeviceKind {
    #[cfg(feature = "embedded")]
    Embedded(Box<embedded::EmbeddedDevice>),
    #[cfg(feature = "vfio")]
    VfioUser(Driver<VfioUserBus>),
    #[cfg(feature = "vfio")]
    Vfio(Driver<VfioBus>),
    #[cfg(feature = "kernel")]
    Libaio(Libaio),
    Nil(Nil),
    #[cfg(feature = "kernel")]
    PosixAio(PosixAio),
    #[cfg(feature = "kernel")]
    IoUring(IoUring),
    #[cfg(feature = "kernel")]
    IoUringCmd(IoUringCmd),
    #[cfg(feature = "kernel")]
    NvmeIoctl(NvmeIoctl),
    #[cfg(feature = "kernel")]
    NvmeThreads(Threads<NvmeTarget>),
    #[cfg(feature = "kernel")]
    Psync(Psync),
    Ram(Ram),
    #[cfg(feature = "tcp")]
    Tcp(NvmeTcp),
    #[cfg(feature = "tcp")]
    TcpPaths(NvmeTcpPaths),
    #[cfg(feature = "kernel")]
    Threads(Threads),
}

/// The same words for every kind of device.
macro_rules! each {
    ($kind:expr, $backend:ident => $what:expr) => {
        match $kind {
            #[cfg(feature = "embedded")]
            DeviceKind::Embedded(device) => {
                let $backend = device.driver();
                $what
            }
            #[cfg(feature = "vfio")]
            DeviceKind::VfioUser($backend) => $what,
            #[cfg(feature = "vfio")]
            DeviceKind::Vfio($backend) => $what,
            #[cfg(feature = "kernel")]
            DeviceKind::Libaio($backend) => $what,
            DeviceKind::Nil($backend) => $what,
            #[cfg(feature = "kernel")]
            DeviceKind::PosixAio($backend) => $what,
            #[cfg(feature = "kernel")]
            DeviceKind::IoUring($backend) => $what,
            #[cfg(feature = "kernel")]
            DeviceKind::IoUringCmd($backend) => $what,
            #[cfg(feature = "kernel")]
            DeviceKind::NvmeIoctl($backend) => $what,
            #[cfg(feature = "kernel")]
            DeviceKind::NvmeThreads($backend) => $what,
            #[cfg(feature = "kernel")]
            DeviceKind::Psync($backend) => $what,
            DeviceKind::Ram($backend) => $what,
            #[cfg(feature = "tcp")]
            DeviceKind::Tcp($backend) => $what,
            #[cfg(feature = "tcp")]
            DeviceKind::TcpPaths($backend) => $what,
            #[cfg(feature = "kernel")]
            DeviceKind::Threads($backend) => $what,
        }
    };
}
pub(crate) use each;
