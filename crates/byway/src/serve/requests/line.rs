//! A line of a request or an answer: fields between tabs, in which tabs and ends of lines are escaped.

use std::str::FromStr;

use byway_tcp_target::PortId;

/// Value of the ports field that means all ports.
const EVERY_PORT: &str = "all";

/// A line that is made.
#[derive(Debug)]
pub(super) struct Line(String);

impl Line {
    /// One that begins with a word.
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

    /// Adds a field of ports; `None` for all.
    #[must_use]
    pub fn with_ports(self, ports: Option<&[PortId]>) -> Self {
        let numbers = |ports: &[PortId]| ports.iter().map(|port| port.0.to_string()).collect::<Vec<_>>();
        self.with(ports.map_or_else(|| EVERY_PORT.to_owned(), |ports| numbers(ports).join(",")))
    }

    /// Adds fields.
    #[must_use]
    pub fn with_all(self, fields: &[impl ToString]) -> Self {
        fields.iter().fold(self, |line, field| line.with(field.to_string()))
    }

    /// With its end.
    pub fn finish(mut self) -> String {
        self.0.push('\n');
        self.0
    }
}

/// A line that is read, field by field.
#[derive(Debug)]
pub(super) struct Fields<'a>(std::str::Split<'a, char>);

impl<'a> Fields<'a> {
    /// Of a line without its end: its word, and what follows.
    pub fn of(line: &'a str) -> (&'a str, Self) {
        let mut fields = line.split('\t');
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

    /// The next field, as ports; `None` for all.
    pub fn ports(&mut self) -> Option<Option<Vec<PortId>>> {
        let text = self.text()?;
        if text == EVERY_PORT {
            return Some(None);
        }
        let numbers = text.split(',').filter(|number| !number.is_empty());
        numbers.map(|number| number.parse().ok().map(PortId)).collect::<Option<_>>().map(Some)
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
        let line = Line::of("word").with_all(&fields).finish();
        assert_eq!(line.matches('\n').count(), 1);
        let (word, mut read) = Fields::of(line.trim_end_matches('\n'));
        assert_eq!((word, read.rest()), ("word", fields.map(str::to_owned).to_vec()));
    }

    #[test]
    fn field_with_a_truncated_escape_is_rejected() {
        assert_eq!(Fields::of("word\tab\\").1.text(), None);
    }
}
