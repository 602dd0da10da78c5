//! A line as words: blanks part them, and quotes hold blanks.

/// The words of a line; none of a comment, or an empty line.
///
/// # Errors
/// A quote without its end, or an escape that is none, as a sentence.
pub fn words(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start().as_bytes();
    if rest.first() == Some(&b'#') {
        return Ok(words);
    }
    while let Some(first) = rest.first() {
        if first.is_ascii_whitespace() {
            rest = &rest[1..];
            continue;
        }
        let (word, behind) = word(rest)?;
        words.push(word);
        rest = behind;
    }
    Ok(words)
}

/// One word, and what follows it.
fn word(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let mut word = Vec::new();
    while let Some((first, behind)) = rest.split_first() {
        rest = match first {
            b'\'' => {
                let end = behind.iter().position(|byte| *byte == b'\'');
                let end = end.ok_or("a ' has no end: put \"…\" around a word that has one")?;
                word.extend_from_slice(&behind[..end]);
                &behind[end + 1..]
            }
            b'"' => quoted(behind, &mut word)?,
            blank if blank.is_ascii_whitespace() => break,
            byte => {
                word.push(*byte);
                behind
            }
        };
    }
    Ok((word, rest))
}

/// Adds what stands before the closing quote, and gives what follows it.
fn quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], String> {
    loop {
        rest = match rest {
            [] => return Err("a \" has no end".to_owned()),
            [b'"', behind @ ..] => return Ok(behind),
            [b'\\', b'x', high, low, behind @ ..] => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let (Some(high), Some(low)) = (digit(high), digit(low)) else {
                    return Err("\\x is followed by two hexadecimal digits".to_owned());
                };
                word.push((16 * high + low) as u8);
                behind
            }
            [b'\\', escaped, behind @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'0' => 0,
                    b'\\' | b'"' | b'\'' => *escaped,
                    other => {
                        return Err(format!(
                            "\\{} is no escape: there are \\n, \\r, \\t, \\0, \\\\, \\\" and \\x00 to \\xff",
                            char::from(*other)
                        ));
                    }
                });
                behind
            }
            [byte, behind @ ..] => {
                word.push(*byte);
                behind
            }
        };
    }
}

/// A word as it is typed: quoted where it has to be.
pub fn typed(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'\'' | b'"' | b'#' | b'\\');
    match std::str::from_utf8(word) {
        Ok(text) if !word.is_empty() && word.iter().all(is_plain) => text.to_owned(),
        _ => format!("\"{}\"", word.escape_ascii()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_hold_blanks_and_escapes() {
        let found = words(r#"put  'a b' "c\t\"\xff" d'e 'f "" # "#).unwrap();
        let wanted: [&[u8]; 6] = [b"put", b"a b", b"c\t\"\xff", b"de f", b"", b"#"];
        assert_eq!(found, wanted);
        assert!(words("  # a comment").unwrap().is_empty() && words(" \t").unwrap().is_empty());
    }

    #[test]
    fn quote_without_end_and_unknown_escape_are_refused() {
        for line in ["get 'a", "get \"a", "get \"\\q\"", "get \"\\xg0\"", "get \"\\"] {
            assert!(words(line).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_word_comes_back_as_it_was_typed(word in proptest::collection::vec(any::<u8>(), 0..20)) {
            prop_assert_eq!(words(&typed(&word)).unwrap(), vec![word]);
        }

        #[test]
        fn any_line_is_words_or_an_error(line in ".*") {
            drop(words(&line));
        }
    }
}
