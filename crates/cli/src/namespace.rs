//! Namespaces as they are asked for: `kv`, `nvm:2G`.

use byway::NewNamespace;
use byway_console::size;

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
    use byway::uri::{Place, Uri};
    use byway::{Address, NewNamespace};
    use byway_tdm_region::Description;
    use proptest::prelude::*;

    use super::*;

    /// What each entry reads a text as.
    fn entries(text: &str) -> [Option<u64>; 6] {
        let uri = |uri: String| uri.parse::<Uri>().ok();
        let blocks = match format!("./x?create={text}").parse() {
            Ok(Address::Blocks(uri)) => uri.options.create_bytes,
            _ => None,
        };
        [
            uri(format!("ram:{text}")).and_then(|uri| match uri.place {
                Place::Ram(bytes) => Some(bytes),
                _ => None,
            }),
            uri(format!("embedded:x?cache={text}")).map(|uri| uri.options.cache_bytes as u64),
            blocks,
            format!("nvm:{text}").parse::<NewNamespace>().ok().and_then(|namespace| namespace.size_bytes),
            parse_size(&format!("1:{text}")).ok().map(|(_, bytes)| bytes),
            format!("emu:x?size={text}").parse::<Description>().ok().and_then(|region| region.size_bytes),
        ]
    }

    proptest! {
        #[test]
        fn size_is_read_alike_by_every_entry(
            text in r"-?[0-9]{0,5}(\.[0-9]{0,4})?( )?[kKmMgGtTx]?[iI]?[bB]?"
        ) {
            // Nothing has a size of 0.
            let wanted = size::parse(&text).ok().filter(|bytes| *bytes > 0);
            for (entry, read) in entries(&text).into_iter().enumerate() {
                prop_assert_eq!(read.filter(|bytes| *bytes > 0), wanted, "entry {}", entry);
            }
        }
    }

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
    fn invalid_namespace_is_refused() {
        for text in ["zns", "", "kv:", "kv:0", "nvm:2X"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
