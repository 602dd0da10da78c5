//! `byway create`: an image.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use byway::{CreateOptions, NewNamespace};
use byway_console::size;
use byway_console::terminal::print_json;

use super::info;
use crate::args::{Create, Media};

/// Makes an image, and says what it is.
///
/// # Errors
/// When the file exists or cannot be made, or the namespaces do not fit.
pub fn run(args: &Create, out: &mut impl Write) -> Result<()> {
    let namespaces = match args.namespaces.as_slice() {
        [] => vec![NewNamespace::KV],
        asked => asked.to_vec(),
    };
    let options = CreateOptions::new(args.size)
        .profile(args.profile.clone())
        .namespaces(namespaces)
        .media(media_of(args.media))
        .over_provisioning_percent(args.over_provisioning);
    byway::create(&args.image, &options)?;
    let uri = uri_of(&args.image);
    // It is empty, so little memory is enough to describe it.
    let in_little_memory = byway::uri::with_options(&uri, "cache=1M&memtable=1M");
    let described = info::describe(&in_little_memory)
        .with_context(|| format!("{} is made, and cannot be opened here", args.image.display()))?;
    if args.json {
        return Ok(print_json(out, &described)?);
    }
    let namespaces: Vec<String> = described.namespaces.iter().map(ToString::to_string).collect();
    put!(out, "{uri}: {} of profile {}: {}\n", size::human(args.size), args.profile, namespaces.join(", "))?;
    Ok(())
}

/// The URI that leads to the image: the one that was given, or that of its path.
fn uri_of(image: &Path) -> String {
    let given = image.to_str().filter(|text| text.starts_with("embedded:"));
    given.map_or_else(|| byway::uri::of_image(image), str::to_owned)
}

fn media_of(media: Media) -> byway::Media {
    match media {
        Media::File => byway::Media::File,
        Media::Ram => byway::Media::Ram,
        Media::Null => byway::Media::Null,
    }
}
