//! A daemon that reports when it serves, and ends with its standard input.

use byway_tdm_daemon::Daemon;
use byway_tdm_tests::DaemonProcess;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let daemon = match Daemon::start(DaemonProcess::options(&arguments)) {
        Ok(daemon) => daemon,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    for file in daemon.recovered() {
        println!("{:?}", file.outcome);
    }
    println!("serves");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}
