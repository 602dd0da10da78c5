//! `byway kv exec`.

use std::path::PathBuf;

use byway_console::{number, size};
use byway_programs::BuiltIn;
use clap::Args;

use super::{Device, Key};
use crate::data;

/// `byway kv exec`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway kv exec 'disk.img?exec=1:crc32c' photo crc32c --json
  byway kv exec tcp://10.0.0.1 archive decompress --output archive.tar
  byway kv exec tcp://10.0.0.1 readings 77 --input conditions.bin
  byway kv exec tcp://10.0.0.1 readings 0x4d --input-hex 2a00 --max-output-bytes 4K

Which programs may run over the values of a namespace is decided where its device is opened, by exec= in the URI of `byway serve` or of an \
image. A checksum or a sum is an output of 8 bytes, the least significant first.

Exit codes: 0 done, 1 there is no such key, 2 an error.")]
pub struct Exec {
    #[command(flatten)]
    pub device: Device,
    #[command(flatten)]
    pub key: Key,
    /// The program: filter, aggregate, crc32c, crc64 or decompress, or the number that a program was loaded with.
    #[arg(allow_hyphen_values = true, value_parser = parse_operation)]
    pub program: u32,
    /// What the program takes beside the value; - is standard input.
    #[arg(long, short = 'i', value_name = "PATH", conflicts_with = "input_hex")]
    pub input: Option<PathBuf>,
    /// The same as hexadecimal digits.
    #[arg(long, value_name = "DIGITS", value_parser = parse_hex)]
    pub input_hex: Option<Hex>,
    /// Write the output to a new file instead of standard output.
    #[arg(long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Take at most so many bytes of the output, from its first one on, up to 1M.
    #[arg(long = "max-output-bytes", value_name = "SIZE", default_value = "1M", value_parser = parse_output_bytes)]
    pub output_max_bytes: u32,
    /// Print one JSON object; with --output it says what was written.
    #[arg(long)]
    pub json: bool,
}

/// Bytes that were given as hexadecimal digits.
#[derive(Debug, Clone)]
pub struct Hex(pub Vec<u8>);

fn parse_hex(text: &str) -> Result<Hex, String> {
    byway_console::records::parse_hex(text).map(Hex)
}

/// Most bytes of output: what one command moves. Byway's device takes 1 MiB.
const OUTPUT_MAX_BYTES: u32 = 16 << 20;

fn parse_output_bytes(text: &str) -> Result<u32, String> {
    let bytes = size::parse_u32(text)?;
    if bytes > OUTPUT_MAX_BYTES { Err(format!("{text:?} is too large: at most 16M")) } else { Ok(bytes) }
}

/// The operation that a program is run by.
fn parse_operation(text: &str) -> Result<u32, String> {
    let text = data::parse(text)?;
    if let Some(built_in) = BuiltIn::ALL.into_iter().find(|built_in| built_in.name() == text) {
        return Ok(built_in.identifier() as u32);
    }
    if text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("a SHA-256 allows a program (exec= of the device's URI); it is run by the number that it was loaded with".into());
    }
    number::parse(&text).map_err(|_| {
        let names = BuiltIn::ALL.map(BuiltIn::name).join(", ");
        format!("{text:?} is neither the number of a program nor one of the device's: {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_a_name_or_the_number_that_it_was_loaded_with() {
        assert_eq!(parse_operation("filter"), Ok(1));
        assert_eq!(parse_operation("decompress"), Ok(5));
        assert_eq!(parse_operation("0x4d"), Ok(77));
        assert_eq!(parse_operation("4294967295"), Ok(u32::MAX));
        for (text, said) in [
            ("crc16", "filter, aggregate, crc32c, crc64, decompress"),
            ("4294967296", "neither the number"),
            ("-1", "neither the number"),
            ("--filter", "no option --filter"),
            (&"af".repeat(32), "the number that it was loaded with"),
        ] {
            assert!(parse_operation(text).is_err_and(|error| error.contains(said)), "{text}");
        }
    }
}
