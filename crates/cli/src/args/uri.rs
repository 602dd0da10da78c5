//! How devices are named: the one place where URIs are explained.

use clap::Args;

use super::fold::folded;
use crate::target::Target;

/// `byway uri`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway uri
  byway uri disk.img /dev/nvme0n1 embedded-ram:64M
  byway uri disk.img --json | jq -r '.[].uri'")]
pub struct Names {
    /// Names of devices [default: explain how devices are named].
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<Target>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Column at which descriptions start.
const DESCRIPTION_COLUMN: usize = 33;

const INTRO: &str = "A command that works on a device takes its path or its URI, as its first argument. `byway uri DEVICE`, `byway info \
                     DEVICE` and --verbose say what a name is taken for.";

const PATHS: [(&str, &str); 4] = [
    ("disk.img", "an image that `byway create` made: the device in it, as embedded:disk.img"),
    ("/dev/nvme0n1, /dev/sda", "a block device of the kernel"),
    ("/dev/nvme0, /dev/ng0n1", "an NVMe controller or namespace of the kernel, for commands of any kind"),
    ("blocks.bin", "any other file: its bytes are the blocks"),
];

const URIS: [(&str, &str); 10] = [
    ("embedded:PATH", "the device in an image, in this process"),
    ("embedded-ram:SIZE", "a device in memory, gone when the command ends"),
    ("embedded-null:SIZE", "the same, which keeps no data"),
    ("tcp://HOST[:PORT]/NQN", "an NVMe/TCP controller"),
    ("tcp://HOST[:PORT]", "the only subsystem there, by discovery"),
    ("vfio-user:PATH", "a PCIe device that another process serves at a socket"),
    ("pci:0000:04:00.0", "a PCIe device that vfio-pci has"),
    ("file:PATH", "the bytes of a file as blocks, also of an image"),
    ("ramdisk:SIZE", "blocks in memory"),
    ("null-backend:SIZE", "blocks that keep no data"),
];

const OPTIONS: &str = "Options begin at the first `?` that a `name=` follows, or the name of an option, and are joined by `&`: quote \
                       them from the shell. In embedded:PATH, file:PATH and vfio-user:PATH % and two hexadecimal digits are a byte: \
                       %3F is a `?` that belongs to the path. A path alone is taken as it is, and has options of the URI that it is \
                       taken for. --ns of a command is ns= of the URI.";

/// The names of devices, and what may stand behind the `?` of a URI.
pub fn names_of_devices() -> String {
    let names =
        |names: &[(&str, &str)]| names.iter().map(|(name, about)| line(name, about)).collect::<String>();
    let options = |options: &[(&str, &str, &str)]| {
        options
            .iter()
            .map(|(name, values, about)| line(&format!("{name}={values}"), about))
            .collect::<String>()
    };
    let of_host =
        format!("Options of vfio-user:PATH and pci:ADDRESS, of these: {}", byway::PCIE_OPTIONS.join(", "));
    format!(
        "Say how devices are named, or what a name is taken for.\n\n{}\n\nPaths:{}\n\nURIs:{}\n\n{}\n\n\
         Options of embedded:PATH, embedded-ram:SIZE and embedded-null:SIZE:{}\n\n{}\n\n\
         Options of tcp://HOST[:PORT]/NQN:{}\n\n\
         Options of a path, file:PATH, ramdisk:SIZE and null-backend:SIZE:{}",
        folded(INTRO, 0),
        names(&PATHS),
        names(&URIS),
        folded(OPTIONS, 0),
        options(&byway::uri::OPTIONS),
        folded(&of_host, 0),
        options(&byway::TCP_OPTIONS),
        options(&byway::BLOCK_OPTIONS),
    )
}

/// A name and what it is, whose further lines begin below its first.
fn line(name: &str, about: &str) -> String {
    format!("\n{:DESCRIPTION_COLUMN$}{}", format!("  {name}"), folded(about, DESCRIPTION_COLUMN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::fold::COLUMNS;

    #[test]
    fn no_name_is_explained_in_lines_wider_than_a_terminal() {
        let names = names_of_devices();
        for line in names.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
        assert!(names.contains("  digests=none|header|data|both  what"), "{names}");
    }
}
