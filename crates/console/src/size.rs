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
    parse_within(text, "4G")
}

/// Parses a size in bytes that fits 16 bits.
///
/// # Errors
/// As [`parse`], and sizes of 64 KiB and more.
pub fn parse_u16(text: &str) -> Result<u16, String> {
    parse_within(text, "64K")
}

fn parse_within<T: TryFrom<u64>>(text: &str, limit: &str) -> Result<T, String> {
    let bytes = parse(text).map_err(|error| error.to_string())?;
    T::try_from(bytes).map_err(|_| format!("{text:?} is too large: less than {limit} is expected"))
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
    use super::*;

    #[test]
    fn size_is_refused_where_its_bits_are_too_few() {
        assert_eq!(parse_u16("63K"), Ok(63 << 10));
        assert!(parse_u16("64K").unwrap_err().contains("less than 64K"));
        assert_eq!(parse_u32("4095M"), Ok(4095 << 20));
        assert!(parse_u32("4G").unwrap_err().contains("less than 4G"));
        assert!(parse_u32("8X").unwrap_err().contains("is no size"));
    }

    #[test]
    fn sizes_are_printed_in_the_largest_unit() {
        assert_eq!(human(8 << 30), "8 GiB");
        assert_eq!(human(1536), "1.5 KiB");
        assert_eq!(human(12), "12 B");
    }
}
