//! byway-driver.
