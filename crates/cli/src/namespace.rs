//! Namespaces as they are asked for: `kv`, `nvm:2G`.

use byway::NewNamespace;

use crate::size;

/// Parses a namespace to be made: its kind, and its size after a colon.
///
/// # Errors
/// Another kind, a text that is no size, or a size of 0.
pub fn parse(text: &str) -> Result<NewNamespace, String> {
    let (kind, bytes) = match text.split_once(':') {
        Some((kind, bytes)) => (kind, Some(bytes)),
        None => (text, None),
    };
    let namespace = match kind {
        "kv" => NewNamespace::KV,
        "nvm" => NewNamespace::NVM,
        other => return Err(format!("unknown namespace kind {other:?}: expected kv or nvm, such as nvm:2G")),
    };
    let size_bytes = bytes.map(size::parse).transpose().map_err(|error| error.to_string())?;
    if size_bytes == Some(0) {
        return Err("a namespace of 0 bytes holds nothing".to_owned());
    }
    Ok(NewNamespace { size_bytes, ..namespace })
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
    fn what_is_no_namespace_is_named() {
        for text in ["zns", "", "kv:", "kv:0", "nvm:2X"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
