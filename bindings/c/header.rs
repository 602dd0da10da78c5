//! Prints byway.h as it is made of the library's source.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml"))?;
    let made = cbindgen::Builder::new().with_crate(here).with_config(config).generate()?;
    made.write(std::io::stdout());
    Ok(())
}
