//! Programs built before the tests: the library, the actor, the witness.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library. Nothing links it, so cargo builds it here.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = target();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--package", "byway-tdm-interpose", "--target-dir"]).arg(&target);
        run(cargo.current_dir(env!("CARGO_MANIFEST_DIR")));
        target.join("debug/libbyway_tdm.so")
    })
}

const ACTOR: &[&str] = &["actor.c", "calls.c", "interrupted.c", "ring.c", "still.c", "traps.c"];

/// The actor: a program that makes the calls it is given.
pub fn actor() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compiled("actor", ACTOR, &["-pthread"]))
}

/// The static actor, which cannot load the library.
pub fn static_actor() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compiled("actor-static", ACTOR, &["-pthread", "-static"]))
}

/// The witness: keeps a copy of what the disk has for certain.
pub fn witness() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compiled("witness.so", &["witness.c"], &["-shared", "-fPIC"]))
}

/// The library that delays real syncs, loaded behind ours.
pub fn below() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compiled("below.so", &["below.c"], &["-shared", "-fPIC"]))
}

/// The library by which a daemon dies inside its work.
pub fn mortal() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compiled("mortal.so", &["mortal.c"], &["-shared", "-fPIC"]))
}

/// The library that runs something inside a program's write.
pub fn inside() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compiled("inside.so", &["inside.c"], &["-shared", "-fPIC"]))
}

/// The library that makes files fail.
pub fn broken() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compiled("broken.so", &["broken.c"], &["-shared", "-fPIC"]))
}

/// Compiles once per test program; replaces the result atomically, as others may run beside.
fn compiled(name: &str, sources: &[&str], options: &[&str]) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("actor");
    let folder = target().join("tmp/tdm-actor");
    std::fs::create_dir_all(&folder).unwrap();
    let (made, being_made) = (folder.join(name), folder.join(format!("{name}.{}", std::process::id())));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g"]).args(options);
    run(cc.args(sources).arg("-o").arg(&being_made).current_dir(here));
    std::fs::rename(being_made, &made).unwrap();
    made
}

/// Cargo's target folder.
fn target() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(target, PathBuf::from);
    std::path::absolute(target).unwrap()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|cause| panic!("{command:?}: {cause}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}
