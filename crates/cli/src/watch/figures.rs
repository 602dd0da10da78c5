//! Figures of one moment by name and labels, as a server exposes them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

/// Most figures of one text: a server with more is not a Byway server.
const FIGURES_MAX: usize = 200_000;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    labels: Vec<(String, String)>,
    /// Its value.
    pub value: f64,
}

impl Figure {
    /// The value of a label; empty where it has none of that name.
    pub fn label(&self, name: &str) -> &str {
        let found = self.labels.iter().find(|(label, _)| label == name);
        found.map_or("", |(_, value)| value)
    }

    /// Whether it has the same labels as another.
    pub fn has_labels_of(&self, other: &Self) -> bool {
        self.labels == other.labels
    }
}

/// Figures of one moment.
#[derive(Clone, Debug, Default)]
pub struct Figures(BTreeMap<String, Vec<Figure>>);

impl Figures {
    /// Reads Prometheus' text format.
    ///
    /// # Errors
    /// A line that is none of it.
    pub fn parse(text: &str) -> Result<Self> {
        let mut figures = Self::default();
        let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        for (count, line) in lines.enumerate() {
            ensure!(count < FIGURES_MAX, "more than {FIGURES_MAX} figures");
            let (name, figure) = parse_line(line).with_context(|| format!("not a figure: {line:?}"))?;
            figures.0.entry(name).or_default().push(figure);
        }
        Ok(figures)
    }

    /// Adds one.
    pub fn add(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.0.entry(name.to_owned()).or_default().push(Figure { labels, value });
    }

    /// All of a name.
    pub fn of(&self, name: &str) -> &[Figure] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The sum of some of them; nothing where there are none.
    pub fn sum_where(&self, name: &str, wanted: impl Fn(&Figure) -> bool) -> Option<f64> {
        let found: Vec<f64> =
            self.of(name).iter().filter(|figure| wanted(figure)).map(|one| one.value).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }
}

fn parse_line(line: &str) -> Option<(String, Figure)> {
    let (name, labels, value) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, value) = parse_labels(rest)?;
            (name, labels, value)
        }
        None => {
            let (name, value) = line.split_once(' ')?;
            (name, Vec::new(), value)
        }
    };
    // A time may follow.
    let value = value.split_whitespace().next()?.parse().ok()?;
    Some((name.to_owned(), Figure { labels, value }))
}

/// Labels, and the text behind their brace.
fn parse_labels(mut text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let (value, rest) = parse_value(rest)?;
        labels.push((name.to_owned(), value));
        text = rest;
    }
}

/// The value of a label, and the text behind its quote.
fn parse_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    loop {
        match letters.next()? {
            (at, '"') => return Some((value, text.get(at + 1..)?)),
            (_, '\\') => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            (_, other) => value.push(other),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures_are_found_by_name_and_label() {
        let text = "# HELP a b\n# TYPE a counter\na{x=\"1\",y=\"q\\\"\\\\\\n}\"} 2\na{x=\"2\"} 3 1700000000\n\nb 1.5\nc +Inf\n";
        let figures = Figures::parse(text).unwrap();
        let sum = |name| figures.sum_where(name, |_| true);
        assert_eq!((sum("a"), sum("b"), sum("d")), (Some(5.0), Some(1.5), None));
        assert_eq!(figures.of("a")[0].label("y"), "q\"\\\n}");
        assert_eq!(figures.sum_where("a", |figure| figure.label("x") == "2"), Some(3.0));
        assert_eq!(sum("c"), Some(f64::INFINITY));
        for bad in ["a", "a{x=\"1\" 2", "a{x=1} 2", "a{x=\"1\"} two", "a{x=\"1"] {
            assert!(Figures::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_figures_or_an_error(text in "[ -~\\n]{0,200}") {
            let _ = Figures::parse(&text);
        }
    }
}
