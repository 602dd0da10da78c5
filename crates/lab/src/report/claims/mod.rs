//! The papers' claims: what they say, what we get, and what is left between.
//!
//! Every claim of the papers of docs/reference/link-model.md is here once. Byte claims are compared under every
//! [`Account`](super::account::Account); which account the papers used is not said in them, so each residual is shown.

mod bandslim;
mod byteexpress;
mod reckon;
pub mod times;

use self::times::Statement;
use super::measured::Measured;

/// Sections of the report that have claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Bytes by value size.
    Traffic,
    /// Time by value size.
    Latency,
    /// Time over link speeds, and ÷6.4.
    Links,
    /// Mixed workloads.
    Workloads,
    /// NAND page writes.
    Packing,
}

/// A figure that a paper gives or that we get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A share, in percent.
    Percent(f64),
    /// One figure over another.
    Times(f64),
    /// Bytes.
    Bytes(f64),
    /// A statement that holds or does not.
    Holds(bool),
}

impl Figure {
    /// The figure for people.
    pub fn text(self) -> String {
        match self {
            Self::Percent(percent) => format!("{} %", decimals(percent)),
            Self::Times(times) => format!("{} ×", decimals(times)),
            Self::Bytes(bytes) if bytes >= 1e9 => format!("{:.2} GB", bytes / 1e9),
            Self::Bytes(bytes) => format!("{bytes:.0} B"),
            Self::Holds(true) => "holds".to_owned(),
            Self::Holds(false) => "does not hold".to_owned(),
        }
    }

    /// What is left between a claim and ours: `ours - claim`.
    pub fn residual(self, ours: Self) -> String {
        match (self, ours) {
            (Self::Percent(claim), Self::Percent(ours)) => format!("{} points", signed(ours - claim)),
            (Self::Times(claim), Self::Times(ours)) | (Self::Bytes(claim), Self::Bytes(ours)) => {
                format!("{} %", signed((ours / claim - 1.0) * 100.0))
            }
            (claim, ours) if claim == ours => "none".to_owned(),
            _ => "the contrary".to_owned(),
        }
    }

    /// Whether ours is the claim, within the precision such claims are quoted with: half a point, or 5 percent.
    pub fn agrees(self, ours: Self) -> bool {
        match (self, ours) {
            (Self::Percent(claim), Self::Percent(ours)) => (claim - ours).abs() <= 0.5,
            (Self::Times(claim), Self::Times(ours)) | (Self::Bytes(claim), Self::Bytes(ours)) => {
                (ours / claim - 1.0).abs() <= 0.05
            }
            (claim, ours) => claim == ours,
        }
    }
}

/// One decimal with a sign, and a true minus; what rounds to nothing has none.
fn signed(number: f64) -> String {
    match format!("{number:+.1}").as_str() {
        "+0.0" | "-0.0" => "0.0".to_owned(),
        text => text.replace('-', "\u{2212}"),
    }
}

fn decimals(number: f64) -> String {
    let text = if number.abs() >= 99.95 { format!("{number:.0}") } else { format!("{number:.1}") };
    text.replace('-', "\u{2212}")
}

/// What we get, by one way of reckoning.
#[derive(Clone, Debug, PartialEq)]
pub struct Ours {
    /// The account or the setting.
    pub by: &'static str,
    /// The figure.
    pub figure: Figure,
}

/// A claim of a paper.
pub struct Claim {
    /// A short name that stays.
    pub id: &'static str,
    /// Section that lists it.
    pub topic: Topic,
    /// Which paper says it, and where.
    pub paper: &'static str,
    /// The claim as a sentence.
    pub says: &'static str,
    /// Its figure.
    pub figure: Figure,
    /// What it says of times, for the fit; empty for a claim about bytes.
    pub times: &'static [Statement],
    /// How ours is found.
    pub how: &'static str,
    /// What explains a residual.
    pub why: &'static str,
    ours: fn(&Measured) -> Vec<Ours>,
}

/// How a claim fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// At least one way of reckoning agrees with the paper.
    Reproduced(&'static str),
    /// None does.
    Residual,
    /// What it needs was not measured in this run.
    NotMeasured,
}

impl Claim {
    /// Every claim, ByteExpress first.
    pub fn all() -> impl Iterator<Item = &'static Claim> {
        byteexpress::CLAIMS.iter().chain(bandslim::CLAIMS)
    }

    /// What we get.
    pub fn ours(&self, measured: &Measured) -> Vec<Ours> {
        (self.ours)(measured)
    }

    /// How it fared.
    pub fn verdict(&self, measured: &Measured) -> Verdict {
        let ours = self.ours(measured);
        match ours.iter().find(|ours| self.figure.agrees(ours.figure)) {
            Some(ours) => Verdict::Reproduced(ours.by),
            None if ours.is_empty() => Verdict::NotMeasured,
            None => Verdict::Residual,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::measured::tests::modelled_all;
    use super::*;
    use std::collections::HashSet;

    fn verdict(id: &str) -> Verdict {
        Claim::all().find(|claim| claim.id == id).unwrap().verdict(&modelled_all())
    }

    #[test]
    fn every_claim_has_its_own_name_and_is_measured() {
        let measured = modelled_all();
        let ids: HashSet<&str> = Claim::all().map(|claim| claim.id).collect();
        assert_eq!(ids.len(), Claim::all().count());
        for claim in Claim::all() {
            assert_ne!(claim.verdict(&measured), Verdict::NotMeasured, "{}", claim.id);
        }
    }

    #[test]
    fn nothing_measured_is_said_so() {
        let nothing = Measured::default();
        assert!(
            Claim::all()
                .all(|claim| claim.verdict(&nothing) == Verdict::NotMeasured || claim.topic == Topic::Links)
        );
    }

    #[test]
    fn the_byte_claims_that_the_notes_reproduce_are_reproduced_by_the_same_account() {
        // docs/reference/link-model.md, "Claims".
        assert_eq!(verdict("be-130"), Verdict::Reproduced("payload"));
        assert_eq!(verdict("bs-97.9"), Verdict::Reproduced("payload"));
        assert_eq!(verdict("be-96.3"), Verdict::Reproduced("payload"));
        assert_eq!(verdict("bs-m-traffic"), Verdict::Reproduced("payload"));
        assert_eq!(verdict("bs-c-traffic"), Verdict::Reproduced("+ pointer read"));
        assert_eq!(verdict("be-98"), Verdict::Residual);
        assert_eq!(verdict("be-39.8"), Verdict::Residual);
    }

    #[test]
    fn every_claim_is_in_the_reference_by_its_name_and_in_its_words() {
        let page = include_str!("../../../../../docs/reference/link-model.md");
        for claim in Claim::all() {
            let row = format!("| `{}` | {} |", claim.id, claim.says);
            assert!(page.contains(&row), "docs/reference/link-model.md lacks {row}");
        }
    }

    #[test]
    fn residuals_are_ours_less_the_claim() {
        assert_eq!(Figure::Percent(96.3).residual(Figure::Percent(93.1)), "\u{2212}3.2 points");
        assert_eq!(Figure::Times(130.0).residual(Figure::Times(151.0)), "+16.2 %");
        assert_eq!(Figure::Holds(true).residual(Figure::Holds(false)), "the contrary");
        assert_eq!(Figure::Bytes(4e9).text(), "4.00 GB");
        assert_eq!(Figure::Times(130.75).text(), "131 ×");
    }
}
