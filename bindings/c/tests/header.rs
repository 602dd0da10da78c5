//! byway.h is what cbindgen makes of the source, and compiles as C99 and as C++.

#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::{here, run};

#[test]
fn committed_header_equals_the_generated_one() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new().with_crate(here()).with_config(config).generate().unwrap();
    let mut text = Vec::new();
    made.write(&mut text);
    let committed = std::fs::read_to_string(here().join("include/byway.h")).unwrap();
    let how = "cargo run -p byway-c --example header > bindings/c/include/byway.h";
    assert!(committed == String::from_utf8(text).unwrap(), "byway.h is older than the source: {how}");
}

#[test]
fn the_header_compiles_as_c99_and_as_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("header.o");
    for (compiler, language, standard) in
        [("cc", "c", "c99"), ("cc", "c", "c11"), ("c++", "c++", "c++11"), ("c++", "c++", "c++17")]
    {
        let source = folder.path().join(format!("header.{language}"));
        std::fs::write(
            &source,
            "#include \"byway.h\"\n#include \"byway.h\"\nint one(void);\nint one(void) { return 1; }\n",
        )
        .unwrap();
        let mut compile = Command::new(compiler);
        compile.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "-x", language]);
        compile.arg(format!("-std={standard}")).arg("-I").arg(here().join("include"));
        run(compile.arg(&source).arg("-o").arg(&object));
    }
}
