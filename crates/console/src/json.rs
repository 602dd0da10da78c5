//! Plain messages for JSON errors: serde's own messages name Rust types and parser states.

use serde_json::error::Category;

/// Why a text is not the JSON that was expected, without the place.
pub fn why(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Eof => "the JSON ends before it is complete".to_owned(),
        Category::Syntax => "this is not JSON".to_owned(),
        Category::Io => "the text cannot be read".to_owned(),
        Category::Data => of_content(&error.to_string()),
    }
}

/// Where a file of several lines is wrong, and why.
pub fn why_and_where(error: &serde_json::Error) -> String {
    format!("line {}, byte {}: {}", error.line(), error.column(), why(error))
}

/// What serde says of JSON that is whole and not what was expected.
fn of_content(said: &str) -> String {
    let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
    let (what, expected) = said.split_once(", expected ").unwrap_or((said, ""));
    let expected = expected.replace('`', "").replacen("one of ", "", 1);
    if let Some(name) = name_behind(what, "unknown field ") {
        return format!("the name {name:?} is not known here: known are {expected}");
    }
    if let Some(name) = name_behind(what, "missing field ") {
        return format!("the name {name:?} is missing");
    }
    if let Some(name) = name_behind(what, "duplicate field ") {
        return format!("the name {name:?} is given twice");
    }
    if let Some(value) = name_behind(what, "unknown variant ") {
        return format!("the value {value:?} is not known here: known are {expected}");
    }
    match what.strip_prefix("invalid type: ").or_else(|| what.strip_prefix("invalid value: ")) {
        Some(found) => {
            format!("{} is expected, not {}", in_words(&expected), in_words(&found.replace('`', "")))
        }
        None => "a value is not what is expected".to_owned(),
    }
}

/// The text in backticks behind `word` in an error of serde.
fn name_behind<'a>(what: &'a str, word: &str) -> Option<&'a str> {
    Some(what.strip_prefix(word)?.trim_matches('`'))
}

/// A type of serde's as JSON has it.
fn in_words(found: &str) -> String {
    let (kind, value) = found.split_once(' ').unwrap_or((found, ""));
    match kind {
        "struct" | "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" => "null".to_owned(),
        "boolean" | "integer" | "string" => format!("the {kind} {value}"),
        "floating" => format!("the number {}", value.trim_start_matches("point ")),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number".to_owned(),
        _ => match found {
            "a map" => "an object".to_owned(),
            "a sequence" => "a list".to_owned(),
            "a borrowed string" => "a string".to_owned(),
            other => other.to_owned(),
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it is read matters")]
    struct Read {
        name: String,
        count: Option<u16>,
        inner: Option<Box<Read>>,
        many: Option<Vec<String>>,
    }

    fn said(text: &str) -> String {
        why(&serde_json::from_str::<Read>(text).unwrap_err())
    }

    #[test]
    fn json_that_is_not_what_was_expected_is_explained_in_plain_words() {
        for (text, wanted) in [
            ("", "the JSON ends before it is complete"),
            (r#"{"name": "a""#, "the JSON ends before it is complete"),
            ("{name: 1}", "this is not JSON"),
            (r#"{"name": "a",}"#, "this is not JSON"),
            (r#"{"nam": 1}"#, r#"the name "nam" is not known here: known are name, count, inner, many"#),
            ("{}", r#"the name "name" is missing"#),
            (r#"{"name": "a", "name": "b"}"#, r#"the name "name" is given twice"#),
            (r#"{"name": 5}"#, "a string is expected, not the integer 5"),
            (r#"{"name": "a", "count": "b"}"#, r#"a whole number is expected, not the string "b""#),
            (r#"{"name": "a", "count": 65536}"#, "a whole number is expected, not the integer 65536"),
            (r#"{"name": "a", "inner": true}"#, "an object is expected, not the boolean true"),
            (r#"{"name": "a", "many": {}}"#, "a list is expected, not an object"),
        ] {
            assert_eq!(said(text), wanted, "{text}");
        }
    }

    #[test]
    fn json_of_several_lines_is_explained_with_the_line() {
        let error = serde_json::from_str::<Read>("{\n\"name\": 5}").unwrap_err();
        assert!(why_and_where(&error).starts_with("line 2, byte 9: a string"), "{}", why_and_where(&error));
    }
}
