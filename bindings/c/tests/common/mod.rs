//! What the tests of the C library share: the libraries as they are installed, and programs compiled against them.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// This room's folder.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with libbyway.so and libbyway.a, made once a test program.
pub fn libraries() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let name = std::env::current_exe().unwrap().file_name().unwrap().to_owned();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Without the names of lines, which valgrind would read anew for each program.
        let mut link = Command::new(here().join("link.sh"));
        run(link.env("LDFLAGS", "-Wl,--strip-debug").arg(archive()).arg(&folder));
        folder
    })
}

/// The archive that cargo built beside this test program: the newest of that name.
fn archive() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let built = std::fs::read_dir(exe.parent().unwrap()).unwrap().map(|entry| entry.unwrap());
    let archives = built.filter(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.starts_with("libbyway_c-") && name.ends_with(".a")
    });
    archives.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap()).unwrap().path()
}

/// A program of `examples`, or a source of a test's own, compiled with every warning as an error and linked to the shared
/// library.
pub fn compile(source: &Path, into: &str, more: &[&str]) -> PathBuf {
    let program = libraries().join(into);
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g"]).args(more).arg("-I").arg(here().join("include"));
    cc.arg("-I").arg(here().join("examples")).arg(source).arg("-o").arg(&program).arg("-L").arg(libraries());
    cc.arg(format!("-Wl,-rpath,{}", libraries().display())).arg("-lbyway");
    run(&mut cc);
    program
}

/// An example, compiled.
pub fn example(name: &str) -> PathBuf {
    compile(&here().join("examples").join(format!("{name}.c")), name, &[])
}

/// What a program prints; it succeeds.
pub fn says(program: &Path, arguments: &[&str]) -> String {
    let Output { stdout, .. } = run(Command::new(program).args(arguments));
    String::from_utf8(stdout).unwrap()
}

/// Runs a command that succeeds.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|cause| panic!("{command:?}: {cause}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}
