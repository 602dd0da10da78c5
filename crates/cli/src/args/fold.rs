//! Wraps help text at 80 columns with a hanging indent.

/// Columns of a terminal, and of every line here.
pub const COLUMNS: usize = 80;

/// Words in lines of `COLUMNS`. The first line begins at column `indent` already.
pub fn folded(text: &str, indent: usize) -> String {
    let (mut out, mut column) = (String::new(), indent);
    for word in text.split_whitespace() {
        let letters = word.chars().count();
        if column > indent && column + 1 + letters > COLUMNS {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if !out.is_empty() {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += letters;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_lines_begin_below_the_first() {
        let text = "an image that `byway create` has made for you: the device in it";
        let indented = format!("\n{}", " ".repeat(32));
        assert_eq!(folded(text, 32), text.replace(" the device", &format!("{indented}the device")));
        assert_eq!(folded(text, 0), text);
    }
}
