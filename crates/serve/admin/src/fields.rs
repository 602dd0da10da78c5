//! The text of a frame: a word, then fields between tabs, in which tabs and ends of lines are escaped.

use std::str::FromStr;

/// A text that is made.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// One that begins with a word, which needs no escapes.
    #[must_use]
    pub fn of(word: &str) -> Self {
        Self(word.to_owned())
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, field: impl ToString) -> Self {
        self.0.push('\t');
        for letter in field.to_string().chars() {
            match letter {
                '\\' => self.0.push_str("\\\\"),
                '\t' => self.0.push_str("\\t"),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// Adds a field that may be missing.
    #[must_use]
    pub fn with_option(self, field: Option<impl ToString>) -> Self {
        match field {
            Some(field) => self.with(field),
            None => self.with(""),
        }
    }

    /// Adds fields.
    #[must_use]
    pub fn with_all(self, fields: &[impl ToString]) -> Self {
        fields.iter().fold(self, |text, field| text.with(field.to_string()))
    }

    /// As it is sent: one line, without its end.
    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }
}

/// A text that is read, field by field.
#[derive(Debug)]
pub struct Fields<'a>(std::str::Split<'a, char>);

impl<'a> Fields<'a> {
    /// The word of a text, and what follows.
    #[must_use]
    pub fn of(text: &'a str) -> (&'a str, Self) {
        let mut fields = text.split('\t');
        (fields.next().unwrap_or_default(), Self(fields))
    }

    /// The next field, as text.
    pub fn text(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut letters = self.0.next()?.chars();
        while let Some(letter) = letters.next() {
            text.push(match letter {
                '\\' => match letters.next()? {
                    't' => '\t',
                    'n' => '\n',
                    other => other,
                },
                other => other,
            });
        }
        Some(text)
    }

    /// The next field, which may be missing.
    pub fn option(&mut self) -> Option<Option<String>> {
        Some(Some(self.text()?).filter(|text| !text.is_empty()))
    }

    /// The next field, decoded.
    pub fn parsed<T: FromStr>(&mut self) -> Option<T> {
        self.text()?.parse().ok()
    }

    /// All that are left.
    pub fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.text()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_any_bytes_round_trip() {
        let fields = ["a\tb", "", "back\\slash\nend", "\\t"];
        let text = Text::of("word").with_all(&fields).finish();
        assert!(!text.contains('\n'));
        let (word, mut read) = Fields::of(&text);
        assert_eq!((word, read.rest()), ("word", fields.map(str::to_owned).to_vec()));
    }

    #[test]
    fn field_with_a_truncated_escape_is_rejected() {
        assert_eq!(Fields::of("word\tab\\").1.text(), None);
    }
}
