//! Sizes as people write them: `8G`, `512`, `4KiB`.

/// A number of things, by their name for one.
pub fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// A text that is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no size: expected a number of bytes, or a number with K, M, G or T (powers of 1024), such as 8G"
)]
pub struct NotASize(String);

/// Parses a size in bytes.
///
/// # Errors
/// Anything but digits and a unit, and sizes of 2⁶⁴ bytes and more.
pub fn parse(text: &str) -> Result<u64, NotASize> {
    let error = || NotASize(text.to_owned());
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(error()),
    };
    let number: u64 = number.parse().map_err(|_| error())?;
    number.checked_mul(1 << shift).ok_or_else(error)
}

/// Parses a size in bytes that fits 32 bits.
///
/// # Errors
/// As [`parse`], and sizes of 4 GiB and more.
pub fn parse_u32(text: &str) -> Result<u32, NotASize> {
    u32::try_from(parse(text)?).map_err(|_| NotASize(text.to_owned()))
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
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse("8G").unwrap(), 8 << 30);
        assert_eq!(parse("512").unwrap(), 512);
        assert_eq!(parse("4KiB").unwrap(), 4096);
        assert_eq!(parse("2MB").unwrap(), 2 << 20);
        assert_eq!(parse("1B").unwrap(), 1);
    }

    #[test]
    fn what_is_no_size_is_named() {
        for text in ["", "G", "-1", "1.5G", "8X", "99999999999T", "8 G"] {
            assert!(parse(text).unwrap_err().to_string().contains("8G"), "{text}");
        }
        assert!(parse_u32("4G").is_err());
    }

    #[test]
    fn people_read_the_largest_unit() {
        assert_eq!(human(8 << 30), "8 GiB");
        assert_eq!(human(1536), "1.5 KiB");
        assert_eq!(human(12), "12 B");
    }
}
