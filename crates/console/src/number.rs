//! Numbers as data sheets write them: `6`, `0x06`, `06h`.

/// A text that is no number, or one that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no number of at most {1} bits: expected one such as 6, 0x06 or 06h")]
pub struct NotANumber(String, usize);

/// Parses a number that fits `T`.
///
/// # Errors
/// Anything else.
pub fn parse<T: TryFrom<u64>>(text: &str) -> Result<T, NotANumber> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_suffix('h'));
    let number = match hex {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let fits = number.ok().and_then(|number| T::try_from(number).ok());
    fits.ok_or_else(|| NotANumber(text.to_owned(), size_of::<T>() * 8))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_every_spelling() {
        assert_eq!(["6", "0x06", "06h"].map(|text| parse::<u8>(text).unwrap()), [6; 3]);
        assert_eq!(parse::<u64>("0xffffffffffffffff").unwrap(), u64::MAX);
    }

    #[test]
    fn number_too_large_is_refused_with_the_width_in_bits() {
        assert!(parse::<u8>("256").unwrap_err().to_string().contains("8 bits"));
        assert!(parse::<u32>("six").is_err() && parse::<u32>("").is_err() && parse::<u8>("-1").is_err());
    }
}
