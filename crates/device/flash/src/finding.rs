//! A finding of a check: structure, place, defect, affected data, remedy.

use std::fmt;

/// A defect found by a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The structure: `superblock`, `block table`, `map`, …
    pub structure: &'static str,
    /// Which part of it: `slot 3`, `block 7, page 12`; empty where there is only one.
    pub place: String,
    /// What is wrong, in one sentence.
    pub what: String,
    /// The hosts' data that is lost by it or cannot be read.
    pub hits: Vec<Hit>,
    /// What a repair does about it.
    pub remedy: Remedy,
}

impl Finding {
    /// Whether the image cannot be used as it is, and no repair helps.
    #[must_use]
    pub fn is_beyond_repair(&self) -> bool {
        self.remedy == Remedy::None
    }
}

/// Data of hosts that a finding hits. Not `non_exhaustive`: `byway check` has to print each kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hit {
    /// Logical blocks of a namespace.
    Blocks {
        /// The namespace.
        nsid: u32,
        /// The first block.
        first_lba: u64,
        /// Number of blocks.
        count: u64,
    },
    /// Flash pages of a key-value namespace; which keys have records there, the check of its engine says.
    Pages {
        /// The namespace.
        nsid: u32,
        /// The first page.
        first: u64,
        /// Number of pages.
        count: u64,
    },
    /// One key.
    Key {
        /// The namespace.
        nsid: u32,
        /// The key's bytes.
        key: Vec<u8>,
    },
    /// A whole namespace.
    Namespace {
        /// The namespace.
        nsid: u32,
    },
}

/// What a repair does about a finding. Not `non_exhaustive`: the command and the C binding have a word for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// It restores the structure from what is kept twice or can be counted anew; no data is lost.
    Restore,
    /// It drops what cannot be read, and says what that was.
    Drop,
    /// It can do nothing.
    None,
}

impl Remedy {
    /// The name reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restore => "restore",
            Self::Drop => "drop",
            Self::None => "none",
        }
    }
}

/// How far a check is: what it looks at, how much of it is done, and how much there is.
pub type Watch<'a> = &'a mut dyn FnMut(&'static str, u64, u64);

impl Finding {
    /// A finding that hits no data of hosts.
    #[must_use]
    pub fn new(
        structure: &'static str,
        place: impl Into<String>,
        what: impl Into<String>,
        remedy: Remedy,
    ) -> Self {
        Self { structure, place: place.into(), what: what.into(), hits: Vec::new(), remedy }
    }

    /// The same with data that it hits.
    #[must_use]
    pub fn hitting(mut self, hit: Hit) -> Self {
        self.hits.push(hit);
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.structure)?;
        if !self.place.is_empty() {
            write!(f, " {}", self.place)?;
        }
        write!(f, ": {}", self.what)?;
        self.hits.iter().try_for_each(|hit| write!(f, "; hits {hit}"))
    }
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocks { nsid, first_lba, count: 1 } => write!(f, "block {first_lba} of namespace {nsid}"),
            Self::Blocks { nsid, first_lba, count } => {
                write!(f, "blocks {first_lba} to {} of namespace {nsid}", first_lba + (count - 1))
            }
            Self::Pages { nsid, first, count: 1 } => write!(f, "page {first} of namespace {nsid}"),
            Self::Pages { nsid, first, count } => {
                write!(f, "pages {first} to {} of namespace {nsid}", first + (count - 1))
            }
            Self::Key { nsid, key } => write!(f, "key {} of namespace {nsid}", shown(key)),
            Self::Namespace { nsid } => write!(f, "namespace {nsid}"),
        }
    }
}

/// A key as text where it is some, else in hexadecimal.
fn shown(key: &[u8]) -> String {
    let printable = |byte: &u8| byte.is_ascii_graphic();
    match std::str::from_utf8(key) {
        Ok(text) if key.iter().all(printable) => text.to_owned(),
        _ => key.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_names_structure_place_and_affected_blocks() {
        let hit = Hit::Blocks { nsid: 2, first_lba: 8, count: 8 };
        let finding = Finding::new("page", "block 1, page 3", "its data does not match", Remedy::Drop);
        assert_eq!(
            finding.hitting(hit).to_string(),
            "page block 1, page 3: its data does not match; hits blocks 8 to 15 of namespace 2"
        );
        assert_eq!(Hit::Key { nsid: 1, key: b"a b".to_vec() }.to_string(), "key 612062 of namespace 1");
    }
}
