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

/// Figures by families, in the order in which these were begun first.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    families: Vec<(&'static str, String)>,
    /// The subsystem that figures are of, where there are several.
    subsystem: Option<String>,
}

/// Figures of one name.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    subsystem: Option<&'a str>,
}

impl Exposition {
    /// Begins a family, or goes on with it.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let at = self.families.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
            self.families.push((name, format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")));
            self.families.len() - 1
        });
        Family { text: &mut self.families[at].1, name, subsystem: self.subsystem.as_deref() }
    }

    /// Has figures labelled as a subsystem's from here on, or not.
    pub fn set_subsystem(&mut self, nqn: Option<&str>) {
        self.subsystem = nqn.map(str::to_owned);
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
        self.families.into_iter().map(|(_, text)| text).collect()
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
        let Self { text, name, subsystem } = self;
        put(text, format_args!("{name}{suffix}"));
        let whose = subsystem.map(|nqn| ("subsystem", nqn));
        let labels = whose.into_iter().chain(labels.iter().copied()).chain(bound.map(|bound| ("le", bound)));
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
    fn labels_are_escaped_histograms_end_with_all_of_them_and_a_family_stays_together() {
        let mut text = Exposition::default();
        text.family("a", Kind::Gauge, "Of a.").sample(&[("x", "q\"\\\n"), ("y", "")], 1.5);
        let buckets = [(0.5, 1), (1.0, 1)].into_iter();
        text.family("h", Kind::Histogram, "Of h.").histogram(&[("x", "1")], buckets, (3.25, 2));
        text.counter("c", "Of c.", 7);
        text.set_subsystem(Some("n"));
        text.family("a", Kind::Gauge, "Of a.").sample(&[("x", "0")], 2);
        let wanted = "# HELP a Of a.\n# TYPE a gauge\na{x=\"q\\\"\\\\\\n\",y=\"\"} 1.5\n\
            a{subsystem=\"n\",x=\"0\"} 2\n\
            # HELP h Of h.\n# TYPE h histogram\nh_bucket{x=\"1\",le=\"0.5\"} 1\nh_bucket{x=\"1\",le=\"1\"} 1\n\
            h_bucket{x=\"1\",le=\"+Inf\"} 2\nh_sum{x=\"1\"} 3.25\nh_count{x=\"1\"} 2\n\
            # HELP c Of c.\n# TYPE c counter\nc 7\n";
        assert_eq!(text.finish(), wanted);
    }
}
