//! Prometheus' text exposition format, version 0.0.4, read to the letter: what its parser would refuse, or `promtool check metrics`
//! complain of, is a panic here.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

/// Labels in order.
pub type Labels = BTreeMap<String, String>;

/// Figures by name and labels.
pub struct Exposition {
    samples: BTreeMap<(String, Labels), f64>,
    kinds: BTreeMap<String, String>,
}

impl Exposition {
    /// Reads `text`.
    pub fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n') && !text.contains('\r'), "lines end with a line feed");
        let mut read = Self { samples: BTreeMap::new(), kinds: BTreeMap::new() };
        let (mut helped, mut current) = (BTreeSet::new(), String::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a help text");
                assert!(is_name(name) && !help.trim().is_empty(), "{line}");
                assert!(helped.insert(name.to_owned()), "two help texts: {line}");
                name.clone_into(&mut current);
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type");
                assert_eq!(name, current, "a type stands behind its help: {line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "counters end with _total: {line}");
                assert!(read.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            } else {
                assert!(!line.is_empty() && !line.starts_with('#'), "{line:?}");
                read.take_sample(&current, line);
            }
        }
        read.check_histograms();
        read
    }

    fn take_sample(&mut self, current: &str, line: &str) {
        let (what, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = match what.split_once('{') {
            None => (what, Labels::new()),
            Some((name, labels)) => (name, parse_labels(labels.strip_suffix('}').expect("a brace"))),
        };
        let kind = self.kinds.get(current).unwrap_or_else(|| panic!("no type before {line}"));
        let suffix = name.strip_prefix(current).unwrap_or_else(|| panic!("not of {current}: {line}"));
        match kind.as_str() {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            _ => assert_eq!(suffix, "", "{line}"),
        }
        assert_eq!(labels.contains_key("le"), suffix == "_bucket", "{line}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        assert!(kind == "gauge" || value >= 0.0, "what only grows is not below 0: {line}");
        let again = self.samples.insert((name.to_owned(), labels), value);
        assert!(again.is_none(), "listed twice: {line}");
    }

    fn check_histograms(&self) {
        for name in self.kinds.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name) {
            let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
            for ((_, labels), count) in
                self.samples.iter().filter(|((of, _), _)| *of == format!("{name}_bucket"))
            {
                let mut labels = labels.clone();
                let bound = labels.remove("le").expect("le").parse().expect("a bound");
                buckets.entry(labels).or_default().push((bound, *count));
            }
            for (labels, mut buckets) in buckets {
                buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
                assert!(buckets.windows(2).all(|two| two[0].1 <= two[1].1), "{name}: {buckets:?}");
                let last = buckets.last().expect("a bucket");
                assert!(last.0.is_infinite(), "{name}: no +Inf");
                let of = |suffix| self.samples.get(&(format!("{name}{suffix}"), labels.clone()));
                assert_eq!(of("_count"), Some(&last.1), "{name}: the count is that of the last bucket");
                assert!(of("_sum").is_some(), "{name}: no sum");
            }
        }
    }

    /// The sum of all figures of `name` that have these labels among theirs; none where there is no such figure.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has =
            |of: &Labels| labels.iter().all(|(name, value)| of.get(*name).is_some_and(|of| of == value));
        let found: Vec<f64> = self
            .samples
            .iter()
            .filter(|((of, all), _)| of == name && has(all))
            .map(|(_, value)| *value)
            .collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }

    /// The same, where none is 0.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.get(name, labels).unwrap_or(0.0)
    }

    /// Names of the labels of a metric.
    pub fn labels_of(&self, name: &str) -> BTreeSet<&str> {
        let mine = self.samples.keys().filter(|(of, _)| of == name);
        mine.flat_map(|(_, labels)| labels.keys().map(String::as_str)).collect()
    }

    /// Names of all families.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }
}

fn is_name(name: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    name.starts_with(letter) && name.chars().all(|other| letter(other) || other.is_ascii_digit())
}

fn parse_labels(mut text: &str) -> Labels {
    let mut labels = Labels::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect("a label's value");
        assert!(is_name(name), "{name:?}");
        let (mut value, mut letters) = (String::new(), rest.char_indices());
        let end = loop {
            match letters.next().expect("a closing quote") {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next().expect("an escaped letter").1 {
                    'n' => '\n',
                    other @ ('\\' | '"') => other,
                    other => panic!("\\{other} is no escape"),
                }),
                (_, other) => value.push(other),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "a label twice: {name}");
        text = &rest[end + 1..];
        if !text.is_empty() {
            text = text.strip_prefix(',').expect("a comma between labels");
        }
    }
    labels
}
