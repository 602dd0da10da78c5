//! The address of a device of any kind: its URI, parsed.

use std::str::FromStr;

use byway_core::{Error, ErrorKind, Result};

use crate::uri::block::{BlockPlace, BlockUri, parse_options};
#[cfg(feature = "embedded")]
use crate::uri::embedded::Uri;
use crate::uri::escape::{decode, of_image};
use crate::uri::grammar::{invalid, size_of_place};
#[cfg(feature = "vfio")]
use crate::uri::pcie::PcieUri;
use crate::uri::split::split_options;
#[cfg(feature = "tcp")]
use crate::uri::tcp::TcpUri;

/// Where a device of any kind is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Address {
    /// `embedded:PATH`, `embedded-ram:SIZE`, `embedded-null:SIZE`: a device in this process.
    #[cfg(feature = "embedded")]
    Embedded(Box<Uri>),
    /// `vfio-user:PATH`, `pci:0000:04:00.0`: a PCIe device outside this process, reached by this library's own driver.
    #[cfg(feature = "vfio")]
    Pcie(Box<PcieUri>),
    /// `tcp://HOST:4420/NQN`: a controller at a TCP address.
    #[cfg(feature = "tcp")]
    Tcp(Box<TcpUri>),
    /// `file:PATH`, a path, `null-backend:SIZE`: blocks behind one of the kernel's interfaces, or behind none.
    Blocks(BlockUri),
}

/// The address of a device that this build reaches with a feature; an error without it.
macro_rules! address {
    ($feature:literal, $kind:ident, $text:expr) => {{
        #[cfg(feature = $feature)]
        let parsed = $text.parse().map(|uri| Self::$kind(Box::new(uri)));
        #[cfg(not(feature = $feature))]
        let parsed = Err(left_out($feature));
        parsed
    }};
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (place, query) = split_options(text);
        let place = match place.split_once(':') {
            _ if place.starts_with(['/', '.']) => BlockPlace::Path(place.into()),
            Some(("file", "")) => return Err(invalid(format!("{text}: a path follows file:"))),
            Some(("file", path)) => BlockPlace::File(decode(path)),
            Some(("ramdisk" | "blocks", size)) => BlockPlace::Memory(size_of_place(text, size)?),
            Some(("null-backend" | "nil", size)) => BlockPlace::Nil(size_of_place(text, size)?),
            Some(("tcp", _)) => return address!("tcp", Tcp, text),
            Some(("vfio-user" | "pci", _)) => return address!("vfio", Pcie, text),
            Some(("embedded" | "embedded-ram" | "embedded-null" | "ram" | "null", _)) => {
                return address!("embedded", Embedded, text);
            }
            _ => return Err(no_address(text)),
        };
        let options = parse_options(query.unwrap_or_default())?;
        if let (BlockPlace::Nil(_) | BlockPlace::Memory(_), Some(name)) = (&place, options.of_files()) {
            return Err(invalid(format!("{text}: option {name} is of files and block devices")));
        }
        Ok(Self::Blocks(BlockUri { place, options }))
    }
}

/// The error of a device whose feature this build does not have.
#[cfg(not(all(feature = "embedded", feature = "kernel", feature = "vfio", feature = "tcp")))]
pub(crate) fn left_out(feature: &str) -> Error {
    let said =
        format!("this program was built without feature {feature:?} of byway, which such a device needs");
    Error::host(ErrorKind::Unsupported, said)
}

fn no_address(text: &str) -> Error {
    let (place, _) = split_options(text);
    if std::path::Path::new(place).exists() {
        let said = format!("{text:?} is no device: is ./{text} or {} meant?", of_image(place));
        return Error::host(ErrorKind::InvalidArgument, said);
    }
    let said = format!(
        "{text:?} is no device, and no file of that name is here: expected a path that begins with / or ., file:PATH, \
         embedded:PATH, embedded-ram:SIZE, embedded-null:SIZE, tcp://HOST:PORT/NQN, vfio-user:PATH, pci:ADDRESS, ramdisk:SIZE or \
         null-backend:SIZE"
    );
    Error::host(ErrorKind::InvalidArgument, said)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::uri::block::BlockOptions;

    fn blocks(text: &str) -> BlockUri {
        match text.parse().unwrap() {
            Address::Blocks(uri) => uri,
            other => panic!("{other:?}"),
        }
    }

    fn error(text: &str) -> String {
        text.parse::<Address>().unwrap_err().to_string()
    }

    #[test]
    fn a_path_is_a_file_or_block_device_with_options() {
        let uri = blocks("/dev/sda?backend=psync&direct=1&lba=4K&depth=7");
        assert_eq!(uri.place, BlockPlace::Path("/dev/sda".into()));
        let BlockOptions { backend, direct, lba_bytes, depth, .. } = uri.options;
        assert_eq!((backend.as_deref(), direct, lba_bytes, depth), (Some("psync"), true, Some(4096), 7));
        assert_eq!(blocks("file:a.bin?create=1M").place, BlockPlace::File("a.bin".into()));
        assert_eq!(blocks("nil:1G").place, BlockPlace::Nil(1 << 30));
        assert_eq!(blocks("blocks:1G").place, BlockPlace::Memory(1 << 30));
    }

    #[test]
    fn older_scheme_means_what_its_new_name_does() {
        for (old, new) in [
            ("ram:64M?depth=7", "embedded-ram:64M?depth=7"),
            ("null:64M", "embedded-null:64M"),
            ("blocks:1G", "ramdisk:1G"),
            ("nil:1G?depth=4", "null-backend:1G?depth=4"),
        ] {
            assert_eq!(old.parse::<Address>().unwrap(), new.parse().unwrap());
        }
    }

    #[test]
    fn an_embedded_device_keeps_its_own_options() {
        assert!(matches!("embedded:a.img?transfer=prp".parse().unwrap(), Address::Embedded(_)));
        assert!(error("embedded:a.img?direct=1").contains("known are transfer"));
    }

    #[test]
    fn invalid_addresses_and_options_are_refused() {
        assert!(error("sda").contains("expected a path"));
        assert!(error("file:").contains("a path follows"));
        assert!(error("/dev/sda?profile=cosmos").contains("known are backend, readonly"));
        assert!(error("/dev/sda?direct=1&direct=0").contains("twice"));
        assert!(error("nil:1G?direct=1").contains("option direct is of files"));
        assert!(error("/dev/sda?sqpoll=on").contains("option sqpoll=on: expected a whole number"));
        assert!(
            error("/dev/sda?fixed-buffers=65536").contains("the number is too large: expected at most 65535")
        );
        for none in [
            "/dev/sda?depth=0",
            "nil:1G?depth=65536",
            "nil:1G?depth=5000000000",
            "ram:64M?depth=0",
            "pci:0000:04:00.0?depth=0",
        ] {
            assert!(error(none).contains("a queue is 1 to 65535 commands deep"), "{none}");
        }
        assert!(error("blocks:1G?readonly=1").contains("option readonly is of files"));
    }
}
