//! A mount that reports when it is ready and unmounts when its standard input ends. Ends with its last open file.

use std::path::PathBuf;
use std::sync::mpsc::channel;

use byway_tdm_mount::{Mounted, Options};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, at, socket] = arguments.as_slice() else { panic!("three arguments: {arguments:?}") };
    let options = Options::new(folder, socket).at(PathBuf::from(at));
    let (say, ended) = channel();
    let begun = Mounted::begin(&options, move |result| {
        let _ = say.send(result.map_err(|error| error.to_string()));
    });
    let mounted = match begun {
        Ok(mounted) => mounted,
        Err(error) => {
            println!("{error}");
            std::process::exit(1);
        }
    };
    println!("mounted");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    println!("{:?}", mounted.leave());
    println!("{:?}", ended.recv());
    println!("{}", mounted.settle());
}
