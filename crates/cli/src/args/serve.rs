//! The command that serves a device to hosts elsewhere.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};

/// `byway serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway serve disk.img --vfio-user /run/disk.sock
  byway serve 'embedded:disk.img?flush=command' --vfio-user /run/disk.sock --sgl off
  byway serve ram:1G --vfio-user /run/ram.sock --idle poll
  byway serve disk.img --vfio-user /run/disk.sock --threads 4
  byway serve disk.img --vfio-user /run/disk.sock --json | jq -r .event

QEMU takes the socket as -device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"/run/disk.sock\"}}', and \
needs the guest's memory in a file that it shares: -object memory-backend-memfd,id=m,size=1G,share=on -machine q35,memory-backend=m.

SIGINT and SIGTERM end the service in order: what was asked for is done, the image is closed, the socket removed. A second one ends it at once, as SIGKILL does: nothing acknowledged is lost.")]
pub struct Serve {
    /// The image, or embedded:PATH or ram:SIZE with options after `?`, as `byway --help` tells.
    #[arg(value_name = "IMAGE")]
    pub device: String,
    /// Serve a PCIe NVMe controller to vfio-user clients at this socket, one after the other: QEMU guests, or Byway's
    /// own driver. A socket that a dead server left is replaced.
    #[arg(long, value_name = "PATH")]
    pub vfio_user: PathBuf,
    /// What the server does while no command comes.
    #[arg(long, default_value = "sleep")]
    pub idle: Idle,
    /// Threads that share the queues of the client: one answers messages as well, and each queue pair that is busy goes to
    /// the one that its number says. They fetch commands, move data and complete beside each other; the
    /// device itself is one thread's at a time. Not under clock=paced and flush=media, which want one.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=64))]
    pub threads: u16,
    /// Whether the controller announces SGLs: `sgl=` of a URI, which an image's path alone has no place for.
    #[arg(long)]
    pub sgl: Option<Sgl>,
    /// Print one JSON object a line for whatever happens: `event` is listening, client_came, client_left, client_sent_away
    /// (with why), client_refused or closed.
    #[arg(long)]
    pub json: bool,
}

/// What a server does while no command comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// It sleeps, and each doorbell is a message; drivers that know doorbell buffers send few.
    Sleep,
    /// It looks for doorbells, which clients map and write without a message: a processor is kept busy as long as one is there.
    Poll,
}

/// Whether a controller announces SGLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sgl {
    /// It does; recent drivers use them for whatever programs pass through.
    On,
    /// It does not: everything comes by PRPs.
    Off,
}
