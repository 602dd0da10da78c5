//! Which operations of the medium fail, by rule and by seed.
//!
//! The text form is a list of rules joined by `,`. A rule is an operation (`program`, `erase`, `read`) and what
//! restricts it, joined by `:`.
//!
//! | part | the rule fires |
//! |---|---|
//! | `block=N`, `page=N` | on operations on that block, on that page of it |
//! | `nth=N` | on the Nth operation that it looks at, from 1 |
//! | `ppm=N` | with a chance of N in a million each time |
//! | `once` | a single time: the default of a rule without `ppm` |
//! | `always` | from the first time on, each time that it looks at; a rule with `ppm`, each time that chance says |
//! | `correctable` | (reads) without harm: the read is counted as one that was corrected |
//!
//! `seed=N` stands as a part of its own in the list and decides all chances: the same operations fail again.

use std::str::FromStr;

use thiserror::Error;

/// An operation of the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaOperation {
    /// A page is programmed.
    Program,
    /// A block is erased.
    Erase,
    /// A page is read.
    Read,
}

/// When operations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// What fails.
    pub operation: MediaOperation,
    /// On this block alone.
    pub block: Option<u32>,
    /// On this page of a block alone.
    pub page: Option<u32>,
    /// From this one on of the operations that are looked at; 1 is the first.
    pub nth: u64,
    /// The chance of each operation from there on, in a million; `None` is certainty.
    pub ppm: Option<u32>,
    /// Whether it fails again after it failed.
    pub always: bool,
    /// Whether what is read is right nevertheless.
    pub correctable: bool,
}

impl Rule {
    /// The first operation of that kind fails.
    #[must_use]
    pub const fn new(operation: MediaOperation) -> Self {
        Self { operation, block: None, page: None, nth: 1, ppm: None, always: false, correctable: false }
    }
}

/// Rules by which a medium fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injection {
    /// The first rule that fires decides.
    pub rules: Vec<Rule>,
    /// What chances are drawn from.
    pub seed: u64,
}

/// A text that is no list of rules.
#[derive(Debug, Error)]
#[error(
    "{0:?} is no part of a rule for media errors: expected program, erase or read, then :block=, :page=, :nth=, :ppm=, :once, :always or :correctable; or seed="
)]
pub struct BadInjection(String);

impl FromStr for Injection {
    type Err = BadInjection;

    fn from_str(text: &str) -> Result<Self, BadInjection> {
        let mut injection = Self::default();
        for part in text.split(',') {
            match part.strip_prefix("seed=") {
                Some(seed) => injection.seed = number(part, seed)?,
                None => injection.rules.push(parse_rule(part)?),
            }
        }
        Ok(injection)
    }
}

fn parse_rule(text: &str) -> Result<Rule, BadInjection> {
    let mut parts = text.split(':');
    let mut rule = Rule::new(match parts.next() {
        Some("program") => MediaOperation::Program,
        Some("erase") => MediaOperation::Erase,
        Some("read") => MediaOperation::Read,
        _ => return Err(BadInjection(text.to_owned())),
    });
    let mut once = None;
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name {
            "block" => rule.block = Some(number(part, value)?),
            "page" => rule.page = Some(number(part, value)?),
            "nth" => rule.nth = number(part, value)?,
            "ppm" => rule.ppm = Some(number(part, value)?),
            "once" if value.is_empty() => once = Some(true),
            "always" if value.is_empty() => once = Some(false),
            "correctable" if value.is_empty() => rule.correctable = true,
            _ => return Err(BadInjection(part.to_owned())),
        }
    }
    rule.always = !once.unwrap_or(rule.ppm.is_none());
    let makes_sense = rule.operation == MediaOperation::Read || !rule.correctable;
    if makes_sense { Ok(rule) } else { Err(BadInjection(text.to_owned())) }
}

fn number<T: FromStr>(part: &str, value: &str) -> Result<T, BadInjection> {
    value.parse().map_err(|_| BadInjection(part.to_owned()))
}

/// What becomes of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    Corrected,
    Failed,
}

/// Rules at work.
#[derive(Debug)]
pub(crate) struct Triggers {
    rules: Vec<Trigger>,
    random: u64,
    corrected: u64,
}

#[derive(Debug)]
struct Trigger {
    rule: Rule,
    seen: u64,
    spent: bool,
}

impl Triggers {
    pub(crate) fn new(injection: &Injection) -> Self {
        let rules = injection.rules.iter().map(|rule| Trigger { rule: *rule, seen: 0, spent: false });
        Self { rules: rules.collect(), random: injection.seed, corrected: 0 }
    }

    pub(crate) fn outcome(&mut self, operation: MediaOperation, block: u32, page: Option<u32>) -> Outcome {
        let random = &mut self.random;
        let fired = self
            .rules
            .iter_mut()
            .filter(|trigger| trigger.rule.looks_at(operation, block, page))
            .find_map(|trigger| trigger.fires(random).then_some(trigger.rule.correctable));
        match fired {
            None => Outcome::Good,
            Some(false) => Outcome::Failed,
            Some(true) => {
                self.corrected += 1;
                Outcome::Corrected
            }
        }
    }

    pub(crate) const fn corrected(&self) -> u64 {
        self.corrected
    }
}

impl Trigger {
    fn fires(&mut self, random: &mut u64) -> bool {
        self.seen += 1;
        if self.spent || self.seen < self.rule.nth {
            return false;
        }
        let fires = self.rule.ppm.is_none_or(|ppm| splitmix(random) % 1_000_000 < u64::from(ppm));
        self.spent = fires && !self.rule.always;
        fires
    }
}

impl Rule {
    fn looks_at(&self, operation: MediaOperation, block: u32, page: Option<u32>) -> bool {
        self.operation == operation
            && self.block.is_none_or(|wanted| wanted == block)
            && self.page.is_none_or(|wanted| page == Some(wanted))
    }
}

/// The next number of a sequence that its start decides.
pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn outcomes(text: &str, pages: u32) -> Vec<Outcome> {
        let mut triggers = Triggers::new(&text.parse().unwrap());
        (0..pages).map(|page| triggers.outcome(MediaOperation::Program, page / 4, Some(page % 4))).collect()
    }

    fn failures(text: &str, pages: u32) -> Vec<usize> {
        let outcomes = outcomes(text, pages);
        (0..pages as usize).filter(|at| outcomes[*at] == Outcome::Failed).collect()
    }

    #[test]
    fn injection_rule_fires_at_its_place_and_rate() {
        assert_eq!(failures("program", 8), [0]);
        assert_eq!(failures("program:always", 3), [0, 1, 2]);
        assert_eq!(failures("program:nth=3", 8), [2]);
        assert_eq!(failures("program:nth=7:always", 8), [6, 7]);
        assert_eq!(failures("program:block=1", 12), [4]);
        assert_eq!(failures("program:page=2:always", 12), [2, 6, 10]);
        assert_eq!(failures("read:always,erase:always", 8), [0_usize; 0]);
        assert_eq!(failures("program:block=2:page=1,program:nth=2", 12), [1, 9]);
    }

    #[test]
    fn one_seed_fails_the_same_operations() {
        let some = failures("seed=7,program:ppm=200000", 1000);
        assert_eq!(some, failures("seed=7,program:ppm=200000", 1000));
        assert_ne!(some, failures("seed=8,program:ppm=200000", 1000));
        assert!((150..250).contains(&some.len()), "{}", some.len());
        assert_eq!(failures("seed=7,program:ppm=200000:once", 1000), some[..1]);
    }

    #[test]
    fn invalid_injection_rule_is_refused_with_its_part() {
        for (text, part) in [
            ("", "\"\""),
            ("write", "\"write\""),
            ("read:nth", "\"nth\""),
            ("read:ppm=many", "\"ppm=many\""),
            ("program:correctable", "\"program:correctable\""),
            ("read,seed=x", "\"seed=x\""),
        ] {
            let said = text.parse::<Injection>().unwrap_err().to_string();
            assert!(said.starts_with(part), "{said}");
        }
    }
}
