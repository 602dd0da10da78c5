//! Number of random cases of a test.

/// Cases of a property test: `BYWAY_TEST_CASES` of the environment, or `usual`.
#[must_use]
pub fn cases(usual: u32) -> u32 {
    std::env::var("BYWAY_TEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}
