//! Lines of a reply from another process, of bounded length.

use std::io::{self, BufRead, ErrorKind, Read};

/// Bytes of a reply at most: room for the names of 16 requests, each as long as a request may be.
pub(crate) const REPLY_BYTES_MAX: u64 = 16 << 20;

/// The next line, without its end; `None` at the end of the reply.
///
/// # Errors
/// What the system says; `InvalidData` for more than `most_bytes`, and for bytes that are not UTF-8.
pub(crate) fn next_line(from: &mut impl BufRead, most_bytes: u64) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    from.by_ref().take(most_bytes).read_until(b'\n', &mut line)?;
    let has_end = line.pop_if(|last| *last == b'\n').is_some();
    if !has_end && line.len() as u64 == most_bytes {
        let why = format!("the reply is longer than {} MiB, which is the most", REPLY_BYTES_MAX >> 20);
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    if !has_end && line.is_empty() {
        return Ok(None);
    }
    let not_text = |_| io::Error::new(ErrorKind::InvalidData, "the reply is not UTF-8 text");
    String::from_utf8(line).map(Some).map_err(not_text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_up_to_the_limit_and_a_longer_one_is_refused() {
        let mut reply = &b"abc\n\nend"[..];
        for line in [Some("abc"), Some(""), Some("end"), None] {
            assert_eq!(next_line(&mut reply, 4).unwrap().as_deref(), line);
        }
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        let error = next_line(&mut endless, REPLY_BYTES_MAX).unwrap_err();
        assert!(error.to_string().contains("longer than 16 MiB"), "{error}");
        assert!(next_line(&mut &b"\xff\n"[..], 4).unwrap_err().to_string().contains("UTF-8"));
    }
}
