//! Namespaces as they are asked for: `kv`, `nvm:2G`.

use byway::NewNamespace;

use crate::size;

/// Parses a namespace to be made: its kind, and its size after a colon.
///
/// # Errors
/// As `NewNamespace` has them: another kind, a text that is no size, a size of 0.
pub fn parse(text: &str) -> byway::Result<NewNamespace> {
    text.parse()
}

/// Parses a namespace that is to have another size: `2:8G`.
///
/// # Errors
/// A text that is no number, a colon and a size.
pub fn parse_size(text: &str) -> Result<(u32, u64), String> {
    let (nsid, bytes) =
        text.split_once(':').ok_or("expected a namespace's number and a size, such as 2:8G")?;
    let nsid = nsid.parse().map_err(|_| format!("{nsid:?} is no number of a namespace"))?;
    let size_bytes = size::parse(bytes).map_err(|error| error.to_string())?;
    Ok((nsid, size_bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_a_kind_and_perhaps_a_size() {
        assert_eq!(parse("kv").unwrap(), NewNamespace::KV);
        assert_eq!(parse("nvm:2G").unwrap(), NewNamespace { size_bytes: Some(2 << 30), ..NewNamespace::NVM });
    }

    #[test]
    fn a_namespace_that_is_to_have_another_size_is_named_by_its_number() {
        assert_eq!(parse_size("2:8G").unwrap(), (2, 8 << 30));
        assert!(parse_size("8G").is_err() && parse_size("kv:8G").is_err());
    }

    #[test]
    fn what_is_no_namespace_is_named() {
        for text in ["zns", "", "kv:", "kv:0", "nvm:2X"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
