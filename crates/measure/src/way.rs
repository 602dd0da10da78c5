//! Ways by which values are put.

use byway::Method;

/// How values are put: by a transfer method, or by something to compare it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A transfer method.
    Method(Method),
    /// Many pairs in one command, as KV-CSD.
    Bulk,
    /// Stores into a controller memory buffer, as 2B-SSD.
    ByteStore,
}

impl Way {
    /// The name it is asked for by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Method(method) => method.name(),
            Self::Bulk => "bulk",
            Self::ByteStore => "byte-store",
        }
    }
}

impl std::str::FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "bulk" => Ok(Self::Bulk),
            "byte-store" => Ok(Self::ByteStore),
            other => match other.parse() {
                Ok(method) => Ok(Self::Method(method)),
                Err(unknown) => Err(format!("{unknown}, or one of the comparators bulk and byte-store")),
            },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_way_parses_from_its_name() {
        for name in ["prp+tail", "bulk", "byte-store"] {
            assert_eq!(name.parse::<Way>().unwrap().name(), name);
        }
        let said = "warp".parse::<Way>().unwrap_err();
        assert!(said.contains("cxl+piggyback") && said.contains("byte-store"), "{said}");
    }
}
