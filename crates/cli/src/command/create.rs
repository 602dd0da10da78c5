//! `byway create`: an image.

use std::io::Write;

use anyhow::{Context, Result};
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
    let namespaces = match args.namespaces.as_slice() {
        [] => vec![NewNamespace::KV],
        asked => asked.to_vec(),
    };
    let options = CreateOptions {
        profile: args.profile.clone(),
        namespaces,
        media: media_of(args.media),
        over_provisioning_percent: args.over_provisioning,
        ..CreateOptions::new(args.size)
    };
    byway::create(&args.image, &options)?;
    let uri = format!("embedded:{}", args.image.display());
    // Nothing is in it: it is looked at in little memory, as it was made.
    let described = info::describe(&format!("{uri}?cache=1M&memtable=1M"))
        .with_context(|| format!("{} is made, and cannot be opened here", args.image.display()))?;
    if args.json {
        return Ok(print_json(out, &described)?);
    }
    let namespaces: Vec<String> = described.namespaces.iter().map(ToString::to_string).collect();
    put!(out, "{uri}: {} of profile {}: {}\n", size::human(args.size), args.profile, namespaces.join(", "))?;
    Ok(())
}

fn media_of(media: Media) -> byway::Media {
    match media {
        Media::File => byway::Media::File,
        Media::Ram => byway::Media::Ram,
        Media::Null => byway::Media::Null,
    }
}
