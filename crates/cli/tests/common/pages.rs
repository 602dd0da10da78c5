//! Console blocks of pages, run as they stand in one shell, and what they print held beside what the page shows.
//!
//! A comment before a block says what it takes: `<!-- test: needs NAME -->` names a program without which the block is left out and named
//! as skipped, `<!-- test: not run: REASON -->` says that it is only shown, `<!-- test: figures vary, needs NAME -->` that numbers differ from
//! run to run too. A `…` in shown output stands for anything, and alone on a line for
//! any lines.
#![allow(clippy::unwrap_used, dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a step that owes a line may print nothing.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Begins the line behind the output of a step.
const END: &str = "-- end of step, exit code";

/// One command of a block, and the lines behind it.
#[derive(Debug)]
pub struct Step {
    pub command: String,
    pub shown: Vec<String>,
}

/// A block that begins with ```` ```console ````.
#[derive(Debug)]
pub struct Block {
    pub needs: Vec<String>,
    /// Why no test runs it here; empty for one that is run.
    pub not_run: String,
    pub figures_vary: bool,
    pub steps: Vec<Step>,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn text_of(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap()
}

pub fn blocks(text: &str) -> Vec<Block> {
    let mut pieces = text.split("```console\n");
    let mut before = pieces.next().unwrap();
    let mut blocks = Vec::new();
    for piece in pieces {
        let (block, after) = piece.split_once("```").unwrap();
        let said = before.trim_end().rsplit_once("<!-- test: ");
        let said = said.and_then(|(_, last)| last.strip_suffix(" -->")).unwrap_or_default();
        let words = || said.split(", ");
        let needs = words().filter_map(|word| word.strip_prefix("needs "));
        blocks.push(Block {
            needs: needs.map(str::to_owned).collect(),
            not_run: said.strip_prefix("not run: ").unwrap_or_default().to_owned(),
            figures_vary: words().any(|word| word == "figures vary"),
            steps: steps(block),
        });
        before = after;
    }
    blocks
}

/// Commands stand behind `$ `, and go on behind `> `.
fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), steps.last_mut()) {
            (Some(command), ..) => steps.push(Step { command: command.to_owned(), shown: Vec::new() }),
            (_, Some(more), Some(step)) if step.shown.is_empty() => step.command += &format!("\n{more}"),
            (_, _, Some(step)) => step.shown.push(line.to_owned()),
            _ => panic!("output without a command: {line}"),
        }
    }
    steps
}

/// Where programs are found: the `byway` under test first.
fn path_of_programs() -> String {
    let built = Path::new(env!("CARGO_BIN_EXE_byway")).parent().unwrap();
    format!("{}:{}", built.display(), std::env::var("PATH").unwrap())
}

/// Runs a command in a folder by a shell of its own.
pub fn run(command: &str, folder: &Path) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).env("PATH", path_of_programs()).stdin(Stdio::null());
    shell.env("XDG_CONFIG_HOME", "/nonexistent/byway-tests").output().unwrap()
}

/// A shell in a folder of its own, with the `byway` under test, and with a network and device memory of its own.
pub struct Shell {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Shell {
    /// Without what a namespace takes there is none: the reason.
    pub fn start(folder: &Path) -> Result<Self, String> {
        let own = ["--mount", "--net", "--pid", "--fork", "--kill-child"];
        let mut command = Command::new("unshare");
        command.args(own);
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args([
            "sh",
            "-c",
            "mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /run && mount -t proc proc /proc && \
             ip link set lo up && echo ready && exec bash --norc 2>&1",
        ]);
        command
            .current_dir(folder)
            .env("PATH", path_of_programs())
            .env("HOME", folder)
            .env("XDG_CONFIG_HOME", "/nonexistent/byway-tests");
        command.env_remove("BYWAY_TDM_SOCKET").env_remove("XDG_RUNTIME_DIR");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = piped.map_err(|error| format!("no unshare: {error}"))?;
        let (input, out) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (say, lines) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
        match lines.recv() {
            Ok(_) => Ok(Self { child, input, lines }),
            Err(_) => Err(std::io::read_to_string(child.stderr.take().unwrap()).unwrap()),
        }
    }

    /// Runs a step: its lines, and its exit code. What servers print in the background may come after the end of the step, so as many
    /// lines are waited for as the page shows.
    pub fn run(&mut self, step: &Step) -> (Vec<String>, i32) {
        let command = &step.command;
        write!(self.input, "{{ {command}\n}} < /dev/null\nprintf '\\n{END} %d\\n' $?\n").unwrap();
        let owed = step.shown.iter().filter(|line| *line != "…").count();
        let (mut printed, mut code) = (Vec::new(), None);
        while code.is_none() || printed.len() < owed {
            let Ok(line) = self.lines.recv_timeout(SILENCE_MAX) else {
                panic!("{command}: printed {printed:#?} and nothing more, shown are {:#?}", step.shown);
            };
            match line.strip_prefix(END) {
                Some(found) => code = Some(found.trim().parse().unwrap()),
                None => printed.push(line),
            }
            // The end of a step begins a line, whether or not its output ended one.
            if code.is_some() && printed.last().is_some_and(String::is_empty) {
                printed.pop();
            }
        }
        (printed, code.unwrap())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs every block of a page in one shell, and compares. What is left out is named as skipped.
pub fn page_does_what_it_shows(test: &str, page: &str) {
    let (folder, text) = (tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), text_of(page));
    if text.contains("byway tdm run") {
        // Built beside the command, which finds it there.
        byway_tdm_tests::library();
    }
    let mut shell = match Shell::start(folder.path()) {
        Ok(shell) => shell,
        Err(why) => {
            return byway_conformance::skips::skip(
                test,
                &format!("no namespaces of its own: {}", why.trim()),
            );
        }
    };
    for block in blocks(&text).iter().filter(|block| block.not_run.is_empty()) {
        let missing = block.needs.iter().find(|name| !is_there(name));
        if let Some(name) = missing {
            byway_conformance::skips::skip(test, &format!("{name} is not installed"));
            continue;
        }
        for step in &block.steps {
            let (printed, _) = shell.run(step);
            let mask = |lines: &[String]| {
                lines.iter().map(|line| masked(line, block.figures_vary)).collect::<Vec<_>>()
            };
            let same = lines_match(&mask(&step.shown), &mask(&printed));
            assert!(same, "{page}: {}\nshown {:#?}\nprinted {printed:#?}", step.command, step.shown);
        }
    }
}

fn is_there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&paths).any(|folder| folder.join(program).exists())
}

/// Without what may differ: runs of blanks, and every number with its unit where figures vary.
fn masked(line: &str, figures_vary: bool) -> String {
    let words = line.split_whitespace();
    let kept = words.filter(|word| !(figures_vary && is_unit(word)));
    let kept = kept.map(|word| if figures_vary { without_digits(word) } else { word.to_owned() });
    kept.collect::<Vec<_>>().join(" ")
}

fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches([',', '.', ':', ';']);
    ["ns", "µs", "ms", "s", "k/s", "M/s", "/s", "B", "KiB", "MiB", "GiB", "k", "M"].contains(&word)
}

/// A word with `#` for each number in it.
fn without_digits(word: &str) -> String {
    let mut kept = String::new();
    for letter in word.chars() {
        match letter {
            '0'..='9' if kept.ends_with('#') => {}
            '0'..='9' => kept.push('#'),
            '.' if kept.ends_with('#') => {}
            letter => kept.push(letter),
        }
    }
    kept
}

/// Whether lines are those that are shown, where a line `…` stands for any number of them.
fn lines_match(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "…" => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((first, rest)) => {
            printed.first().is_some_and(|line| line_matches(first, line)) && lines_match(rest, &printed[1..])
        }
    }
}

/// Whether a line is the one shown, where `…` stands for anything.
fn line_matches(shown: &str, line: &str) -> bool {
    let mut pieces = shown.split('…');
    let Some(mut rest) = line.strip_prefix(pieces.next().unwrap()) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}
