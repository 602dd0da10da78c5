//! Bytes for people: sixteen a line with their place and what of them is text.

use std::io::{self, Write};

/// Bytes of a line.
const LINE_BYTES: usize = 16;

/// Writes bytes with their offsets. Lines equal to the one before are replaced by one `*`.
///
/// # Errors
/// Those of `out`.
pub fn write(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    let (mut before, mut starred) = (None, false);
    for (index, line) in bytes.chunks(LINE_BYTES).enumerate() {
        let is_same = before.replace(line) == Some(line);
        match (is_same, starred) {
            (true, true) => {}
            (true, false) => writeln!(out, "*")?,
            (false, _) => write_line(index * LINE_BYTES, line, out)?,
        }
        starred = is_same;
    }
    writeln!(out, "{:08x}", bytes.len())
}

fn write_line(at: usize, line: &[u8], out: &mut impl Write) -> io::Result<()> {
    write!(out, "{at:08x} ")?;
    for index in 0..LINE_BYTES {
        let gap = if index % 8 == 0 { " " } else { "" };
        match line.get(index) {
            Some(byte) => write!(out, "{gap}{byte:02x} ")?,
            None => write!(out, "{gap}   ")?,
        }
    }
    let shown = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
    writeln!(out, " |{}|", line.iter().map(shown).collect::<String>())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn hexdump_shows_offsets_and_collapses_equal_lines() {
        let mut bytes = b"BYWAYSSD".to_vec();
        bytes.resize(68, 0);
        let mut out = Vec::new();
        write(&bytes, &mut out).unwrap();
        let wanted = "00000000  42 59 57 41 59 53 53 44  00 00 00 00 00 00 00 00  |BYWAYSSD........|\n\
                      00000010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n\
                      *\n\
                      00000040  00 00 00 00                                       |....|\n\
                      00000044\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
