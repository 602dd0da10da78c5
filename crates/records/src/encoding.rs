//! Bytes as text: as they are, as hexadecimal digits, as Base64.

use base64ct::{Base64, Encoding as _};
use byway_console::records::{parse_hex, to_hex};

/// How the bytes of a key or a value stand in a column of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Encoding {
    /// As they are (UTF-8).
    #[default]
    Text,
    /// Two hexadecimal digits a byte.
    Hex,
    /// Base64 (RFC 4648), with padding.
    Base64,
}

impl Encoding {
    /// What is added to the name of a column of this encoding.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Text => "",
            Self::Hex => "_hex",
            Self::Base64 => "_base64",
        }
    }

    /// The bytes that a field stands for.
    ///
    /// # Errors
    /// A field that is not of the encoding, as a phrase.
    pub(crate) fn decode(self, field: Vec<u8>) -> Result<Vec<u8>, String> {
        if self == Self::Text {
            return Ok(field);
        }
        let text = std::str::from_utf8(&field).map_err(|_| format!("it is no {}", self.name()))?;
        match self {
            Self::Hex => parse_hex(text),
            _ => Base64::decode_vec(text).map_err(|_| format!("{text:?} is no Base64 (with padding)")),
        }
    }

    /// The field that stands for bytes; none where they are no text and the encoding is text.
    pub(crate) fn encode(self, bytes: &[u8]) -> Option<String> {
        match self {
            Self::Text => std::str::from_utf8(bytes).ok().map(str::to_owned),
            Self::Hex => Some(to_hex(bytes)),
            Self::Base64 => Some(Base64::encode_string(bytes)),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Hex => "hexadecimal number",
            Self::Base64 => "Base64",
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_each_encoding_that_takes_them() {
        let bytes = [0, 0xff, b'a'];
        for encoding in [Encoding::Hex, Encoding::Base64] {
            let field = encoding.encode(&bytes).unwrap();
            assert_eq!(encoding.decode(field.into_bytes()).unwrap(), bytes);
        }
        assert_eq!(Encoding::Text.encode(&bytes), None);
        for (encoding, field) in
            [(Encoding::Hex, "0g"), (Encoding::Base64, "AA"), (Encoding::Base64, "\u{ff}")]
        {
            assert!(encoding.decode(field.into()).is_err(), "{field}");
        }
    }
}
