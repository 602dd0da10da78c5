//! Devices that commands open by a URI, and the depth of queues that the URI asks for.

use byway::{Address, Backend, Device, Error, ErrorKind, Result, SystemCause};

/// Opens a device that is written to. A note on standard error says if `depth=` of the URI is more than its queues hold.
///
/// # Errors
/// As [`byway::open`].
pub fn open(uri: &str) -> Result<Device> {
    let opened = byway::open(uri).map_err(|error| in_use(uri, error)).map_err(|error| missing(uri, error));
    opened.inspect(|device| note_if_lowered(uri, device))
}

/// The error of an image that another process has open, with what a writer can do: a follower only reads.
fn in_use(uri: &str, error: Error) -> Error {
    let is_image = matches!(uri.parse(), Ok(Address::Embedded(_)));
    if !is_image || error.kind() != ErrorKind::Busy || !error.to_string().contains(FOLLOW) {
        return error;
    }
    let said = error.to_string().replace(FOLLOW, "");
    Error::host(ErrorKind::Busy, format!("{said}; if a server has it open, use its tcp:// address"))
        .with_retry(error.retry())
}

/// The error of an image that is not there, with the command that makes one.
fn missing(uri: &str, error: Error) -> Error {
    let not_found = rustix::io::Errno::NOENT.raw_os_error();
    let is_missing = SystemCause::of(&error).is_some_and(|cause| cause.errno == not_found);
    match uri.parse() {
        Ok(Address::Embedded(_)) if is_missing => {
            let said =
                format!("{error}; an image is made by byway create, such as byway create disk.img --size 1G");
            Error::kernel(said, std::io::Error::from_raw_os_error(not_found)).covering_source()
        }
        _ => error,
    }
}

/// The advice of the library, which is for readers.
const FOLLOW: &str = "; follow=1 reads it beside a writer";

/// The same for a command that only reads.
///
/// # Errors
/// As [`byway::open_to_read`].
pub fn open_to_read(uri: &str) -> Result<Device> {
    byway::open_to_read(uri).inspect(|device| note_if_lowered(uri, device))
}

fn note_if_lowered(uri: &str, device: &Device) {
    if let Some(why) = lowered(uri, device) {
        note!("byway: {why}");
    }
}

/// The sentence that says so, where `depth=` of a URI is more than the device's queues hold.
pub fn lowered(uri: &str, device: &Device) -> Option<String> {
    let most = device.capabilities().limits.depth_max();
    let asked = depth_of(uri).filter(|asked| *asked > most)?;
    Some(format!("depth={asked} is lowered to {most}: a queue of {uri} holds no more"))
}

/// Commands outstanding on a queue that a URI asks for by `depth=`.
pub fn depth_of(uri: &str) -> Option<u32> {
    byway::uri::option_of(uri, "depth")?.parse().ok()
}

/// A URI whose `depth=`, if it has one, is the depth in use.
pub fn with_depth(uri: &str, depth: u32) -> String {
    let Some(asked) = byway::uri::option_of(uri, "depth") else { return uri.to_owned() };
    match uri.rsplit_once(&format!("depth={asked}")) {
        Some((before, behind)) => format!("{before}depth={depth}{behind}"),
        None => uri.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_that_of_the_options_alone() {
        assert_eq!(depth_of("embedded:a.img?ns=1&depth=7"), Some(7));
        assert_eq!((depth_of("embedded:a.img"), depth_of("ram:64M?ring=8")), (None, None));
        assert_eq!(with_depth("embedded:depth=7?depth=7&ns=1", 3), "embedded:depth=7?depth=3&ns=1");
        assert_eq!(with_depth("ram:64M", 3), "ram:64M");
    }
}
