//! Options among the words of a command.

use super::help::About;
use super::words::typed;

/// The options that a command was given.
#[derive(Debug, Default)]
pub struct Options(Vec<(&'static str, Vec<u8>)>);

impl Options {
    /// Parts the options of a command from its other words. Words behind `--` are none.
    ///
    /// # Errors
    /// An option that the command has not, one without its value, and one that comes twice, as a sentence.
    pub fn of(about: &About, words: &[Vec<u8>]) -> Result<(Self, Vec<Vec<u8>>), String> {
        let (mut options, mut others) = (Self::default(), Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == b"--" {
                others.extend(words.cloned());
                break;
            }
            if !word.starts_with(b"--") {
                others.push(word.clone());
                continue;
            }
            let (name, value) = match word.iter().position(|byte| *byte == b'=') {
                Some(at) => (&word[..at], Some(word[at + 1..].to_vec())),
                None => (&word[..], None),
            };
            let known = about.options.iter().find(|(there, _)| there.as_bytes() == name);
            let (name, has_value) = known.ok_or_else(|| unknown(about, name))?;
            let value = match (has_value, value) {
                (true, value) => {
                    value.or_else(|| words.next().cloned()).ok_or(format!("{name} lacks its value"))?
                }
                (false, None) => Vec::new(),
                (false, Some(_)) => return Err(format!("{name} has no value")),
            };
            if options.has(name) {
                return Err(format!("{name} is said twice"));
            }
            options.0.push((name, value));
        }
        Ok((options, others))
    }

    /// Whether an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The value of an option that was given.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find_map(|(there, value)| (*there == name).then_some(&value[..]))
    }
}

fn unknown(about: &About, name: &[u8]) -> String {
    let command = about.names.first().copied().unwrap_or_default();
    let there: Vec<_> = about.options.iter().map(|(name, _)| *name).collect();
    let there = match there.as_slice() {
        [] => "it has none".to_owned(),
        there => format!("it has {}", there.join(", ")),
    };
    format!(
        "{command} has no option {}: {there}; a key or value that begins so stands behind a word --",
        typed(name)
    )
}
