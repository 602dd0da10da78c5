//! Data on the command line: keys and values, which may begin with a hyphen as a number below zero does.

use std::ffi::OsStr;

/// Takes a key, a value or a part of one as it is. What begins with two hyphens is more likely an option that is written
/// wrongly: it is taken behind `--`, or joined to its option by `=`.
///
/// # Errors
/// A text that begins with `--` and is not marked so.
pub fn parse(text: &str) -> Result<String, String> {
    if !text.starts_with("--") || is_marked(text, std::env::args_os()) {
        return Ok(text.to_owned());
    }
    Err(format!("there is no option {text}; to pass it as data, put -- before it"))
}

/// Whether the caller says that a text is data: every argument that is this text comes after `--`, or the text is joined to
/// its option. The parser does not say which argument a text is, so one before `--` counts for all.
fn is_marked(text: &str, args: impl Iterator<Item = impl AsRef<OsStr>>) -> bool {
    let joined = format!("={text}");
    let mut is_joined = false;
    for arg in args {
        let arg = arg.as_ref();
        if arg == "--" {
            return true;
        }
        if arg == text {
            return false;
        }
        is_joined |= arg.to_str().is_some_and(|arg| arg.ends_with(&joined));
    }
    is_joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_with_a_hyphen_is_taken_and_an_unknown_option_is_not() {
        assert_eq!(parse("-5"), Ok("-5".to_owned()));
        assert_eq!(parse("-"), Ok("-".to_owned()));
        assert!(parse("--if-absnt").is_err_and(|said| said.contains("no option --if-absnt")));
    }

    #[test]
    fn data_with_two_hyphens_is_taken_where_it_is_marked() {
        assert!(is_marked("--x", ["kv", "put", "img", "k", "--", "--x"].iter()));
        assert!(is_marked("--x", ["kv", "list", "img", "--prefix=--x"].iter()));
        assert!(!is_marked("--x", ["kv", "put", "img", "k", "--x"].iter()));
        assert!(!is_marked("--x", ["kv", "put", "img", "--x", "--", "v"].iter()));
        assert!(is_marked("--x", ["kv", "put", "img", "--", "--x", "v"].iter()));
    }
}
