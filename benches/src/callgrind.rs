//! Reads what callgrind wrote, with the chain of inlined functions of every instruction.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// One function of a chain of inlined functions, innermost first.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Demangled name.
    pub function: String,
    /// Source file and line.
    pub place: String,
}

/// A call that was counted.
#[derive(Debug, Clone)]
pub struct Site {
    /// Address of the call instruction, where it is in the program itself.
    pub address: Option<u64>,
    /// The calling function.
    pub caller: String,
    /// Instructions of the callee and all that it called.
    pub inclusive: u64,
}

/// What callgrind counted.
#[derive(Debug, Default)]
pub struct Profile {
    /// Instructions at each address of the program, and the function they belong to.
    pub own: BTreeMap<u64, (u64, String)>,
    /// Instructions of functions of other objects.
    pub foreign: BTreeMap<String, u64>,
    /// Calls by the function that was called.
    pub callers: HashMap<String, Vec<Site>>,
    chains: HashMap<u64, Vec<Frame>>,
}

impl Profile {
    /// Parses a dump made with `--dump-instr=yes --dump-line=no` and without compression, of `program`.
    ///
    /// # Errors
    /// When `addr2line` (package `binutils`) cannot be run.
    pub fn parse(text: &str, program: &Path) -> anyhow::Result<Self> {
        let mut profile = Self::default();
        let ours = program.to_string_lossy();
        let (mut object, mut function) = (String::new(), String::new());
        let (mut called_object, mut callee) = (None, String::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some((key, value)) = line.split_once('=') {
                match key {
                    "ob" => object = value.to_owned(),
                    "fn" => function = value.to_owned(),
                    "cob" => called_object = Some(value.to_owned()),
                    "cfn" => callee = value.to_owned(),
                    "calls" => {
                        let Some((address, inclusive)) = lines.next().and_then(cost) else { continue };
                        let address = (object == ours).then_some(address);
                        let caller = format!("{object}:{function}");
                        let called = format!("{}:{callee}", called_object.take().as_ref().unwrap_or(&object));
                        profile.callers.entry(called).or_default().push(Site { address, caller, inclusive });
                    }
                    _ => {}
                }
            } else if let Some((address, instructions)) = cost(line) {
                let function = format!("{object}:{function}");
                match object == ours {
                    true => profile.own.entry(address).or_insert((0, function)).0 += instructions,
                    false => *profile.foreign.entry(function).or_default() += instructions,
                }
            }
        }
        profile.chains = chains(program, profile.addresses())?;
        Ok(profile)
    }

    /// The functions that the instruction at `address` was inlined through, innermost first.
    pub fn chain(&self, address: u64) -> &[Frame] {
        self.chains.get(&address).map_or(&[], Vec::as_slice)
    }

    fn addresses(&self) -> Vec<u64> {
        let sites = self.callers.values().flatten().filter_map(|site| site.address);
        let mut all: Vec<u64> = self.own.keys().copied().chain(sites).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// `0xaddress instructions`.
fn cost(line: &str) -> Option<(u64, u64)> {
    let (address, instructions) = line.split_once(' ')?;
    Some((u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?, instructions.trim().parse().ok()?))
}

/// The functions that the instruction at each address of `program` was inlined through, innermost first.
///
/// # Errors
/// When `addr2line` (package `binutils`) cannot be run.
pub fn chains(program: &Path, addresses: Vec<u64>) -> anyhow::Result<HashMap<u64, Vec<Frame>>> {
    let mut tool = Command::new("addr2line")
        .args(["-a", "-i", "-f", "-C", "-e"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| anyhow::anyhow!("addr2line cannot be run ({e}); install the package `binutils`"))?;
    let mut input = tool.stdin.take().ok_or_else(|| anyhow::anyhow!("addr2line takes no input"))?;
    let asked: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()));
    let answer = tool.wait_with_output()?;
    writer.join().map_err(|_| anyhow::anyhow!("addr2line took no input"))??;
    let mut chains: HashMap<u64, Vec<Frame>> = HashMap::new();
    let mut at = 0;
    let text = String::from_utf8_lossy(&answer.stdout);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(address) = line.strip_prefix("0x") {
            at = u64::from_str_radix(address, 16)?;
        } else if let Some(place) = lines.next() {
            let frame = Frame { function: line.to_owned(), place: place.to_owned() };
            chains.entry(at).or_default().push(frame);
        }
    }
    Ok(chains)
}
