//! Any text as a URI of a device.

use byway::Uri;
use byway::uri::parse_size;

/// Parses `bytes` as a URI, and as a size.
pub fn uri(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let parsed: Result<Uri, _> = text.parse();
    if let Err(error) = parsed {
        let said = error.to_string();
        assert!(!said.is_empty());
    }
    let _ = parse_size(&text);
}
