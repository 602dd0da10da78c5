//! `byway create`: an image.

use std::io::Write;

use anyhow::{Result, bail};
use byway::{CreateOptions, NewNamespace};

use super::info;
use crate::args::{Create, Media};
use crate::size;
use crate::terminal::print_json;

/// Makes an image, and says what it is.
///
/// # Errors
/// When the file exists or cannot be made, or the namespaces do not fit.
pub fn run(args: &Create, out: &mut impl Write) -> Result<()> {
    if let Some(scheme) = scheme(args.media) {
        let size = args.size;
        bail!("a device in memory needs no image: use {scheme}:{size} where a URI is asked for");
    }
    let namespaces = match args.namespaces.as_slice() {
        [] => vec![NewNamespace::KV],
        asked => asked.to_vec(),
    };
    let options =
        CreateOptions { profile: args.profile.clone(), namespaces, ..CreateOptions::new(args.size) };
    byway::create(&args.image, &options)?;
    let uri = format!("embedded:{}", args.image.display());
    let described = info::describe(&uri)?;
    if args.json {
        return Ok(print_json(out, &described)?);
    }
    let namespaces: Vec<String> = described.namespaces.iter().map(ToString::to_string).collect();
    writeln!(
        out,
        "{uri}: {} of profile {}: {}",
        size::human(args.size),
        args.profile,
        namespaces.join(", ")
    )?;
    Ok(())
}

/// The scheme of a URI for what is not kept in an image.
fn scheme(media: Media) -> Option<&'static str> {
    match media {
        Media::File => None,
        Media::Ram => Some("ram"),
        Media::Null => Some("null"),
    }
}
