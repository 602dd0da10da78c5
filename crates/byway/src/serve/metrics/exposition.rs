//! Writing figures as Prometheus reads them: the text exposition format, version 0.0.4.

use std::fmt::{Display, Write};

/// The media type of what is written.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a family of figures is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows.
    Counter,
    /// It comes and goes.
    Gauge,
    /// Counts by buckets.
    Histogram,
}

/// Figures, written one family after the other.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

/// Figures of one name.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Exposition {
    /// Begins a family.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        put(&mut self.0, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family { text: &mut self.0, name }
    }

    /// A counter alone.
    pub fn counter(&mut self, name: &'static str, help: &str, value: u64) {
        self.family(name, Kind::Counter, help).sample(&[], value);
    }

    /// A gauge alone.
    pub fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, Kind::Gauge, help).sample(&[], value);
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// Adds a figure.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Adds a histogram: each bound with how many are at most that, then the sum and the count.
    pub fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: impl Iterator<Item = (f64, u64)>,
        (sum, count): (f64, u64),
    ) {
        for (bound, at_most) in buckets {
            self.line("_bucket", labels, Some(&bound.to_string()), at_most);
        }
        self.line("_bucket", labels, Some("+Inf"), count);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<&str>, value: impl Display) {
        let Self { text, name } = self;
        put(text, format_args!("{name}{suffix}"));
        let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut opening = '{';
        for (label, words) in labels {
            put(text, format_args!("{opening}{label}=\"{}\"", escaped(words)));
            opening = ',';
        }
        if opening == ',' {
            text.push('}');
        }
        put(text, format_args!(" {value}\n"));
    }
}

/// Writing to memory does not fail.
fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
}

/// A label's value as it stands between quotes.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_histograms_end_with_all_of_them() {
        let mut text = Exposition::default();
        text.family("a", Kind::Gauge, "Of a.").sample(&[("x", "q\"\\\n"), ("y", "")], 1.5);
        let buckets = [(0.5, 1), (1.0, 1)].into_iter();
        text.family("h", Kind::Histogram, "Of h.").histogram(&[("x", "1")], buckets, (3.25, 2));
        text.counter("c", "Of c.", 7);
        let wanted = "# HELP a Of a.\n# TYPE a gauge\na{x=\"q\\\"\\\\\\n\",y=\"\"} 1.5\n\
            # HELP h Of h.\n# TYPE h histogram\nh_bucket{x=\"1\",le=\"0.5\"} 1\nh_bucket{x=\"1\",le=\"1\"} 1\n\
            h_bucket{x=\"1\",le=\"+Inf\"} 2\nh_sum{x=\"1\"} 3.25\nh_count{x=\"1\"} 2\n\
            # HELP c Of c.\n# TYPE c counter\nc 7\n";
        assert_eq!(text.finish(), wanted);
    }
}
