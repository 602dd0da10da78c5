//! The image file: what is where, and what makes it a Byway image.

pub(crate) mod layout;
pub(crate) mod namespaces;
pub(crate) mod superblock;
