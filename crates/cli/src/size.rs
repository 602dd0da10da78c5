//! Sizes as people write and read them: `8G`, `512`, `4KiB`.

/// A number of things, by their name for one.
pub fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Parses a size in bytes, by the grammar that URIs and every other entry have.
///
/// # Errors
/// A text that is no size; see [`byway::uri::parse_size`].
pub fn parse(text: &str) -> byway::Result<u64> {
    byway::uri::parse_size(text)
}

/// Parses a size in bytes that fits 32 bits.
///
/// # Errors
/// As [`parse`], and sizes of 4 GiB and more.
pub fn parse_u32(text: &str) -> Result<u32, String> {
    let bytes = parse(text).map_err(|error| error.to_string())?;
    u32::try_from(bytes).map_err(|_| format!("{text:?} is too large: less than 4G is expected"))
}

/// A size for people: with the largest unit that divides it, or one decimal.
pub fn human(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|&(unit, _)| bytes >= unit) {
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
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
            crate::namespace::parse_size(&format!("1:{text}")).ok().map(|(_, bytes)| bytes),
            format!("emu:x?size={text}").parse::<Description>().ok().and_then(|region| region.size_bytes),
        ]
    }

    proptest! {
        #[test]
        fn size_is_read_alike_by_every_entry(
            text in r"-?[0-9]{0,5}(\.[0-9]{0,4})?( )?[kKmMgGtTx]?[iI]?[bB]?"
        ) {
            // Nothing has a size of 0.
            let wanted = parse(&text).ok().filter(|bytes| *bytes > 0);
            for (entry, read) in entries(&text).into_iter().enumerate() {
                prop_assert_eq!(read.filter(|bytes| *bytes > 0), wanted, "entry {}", entry);
            }
        }
    }

    #[test]
    fn size_of_4_gib_is_refused_where_32_bits_are_what_there_is() {
        assert_eq!(parse_u32("4095M"), Ok(4095 << 20));
        assert!(parse_u32("4G").unwrap_err().contains("less than 4G"));
        assert!(parse_u32("8X").unwrap_err().contains("is no size"));
    }

    #[test]
    fn people_read_the_largest_unit() {
        assert_eq!(human(8 << 30), "8 GiB");
        assert_eq!(human(1536), "1.5 KiB");
        assert_eq!(human(12), "12 B");
    }
}
