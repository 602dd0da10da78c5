//! Loads in fio's words: options, job files, distributions and logs, beside fio itself where it is installed.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Image, byway, json_lines, refused, said};
use serde_json::Value;

/// A job file that fio and we run.
const JOBS: &str = "\
; Two jobs beside each other, and one after them.
[global]
bs=4k
size=1m
iodepth=8
filename=BLOCKS
[readers]
rw=randread
numjobs=2
random_distribution=zipf:1.2
number_ios=200
[mixed]
rw=randrw
rwmixread=70
number_ios=300
[sweep]
stonewall
rw=write
bs=64k
";

fn jobs_of(row: &Value) -> Vec<(String, u64, u64)> {
    let ops = |job: &Value, side: &str| job[side]["ops"].as_u64().unwrap_or(0);
    let jobs = row["jobs"].as_array().unwrap().iter();
    jobs.map(|job| (job["job"].as_str().unwrap().to_owned(), ops(job, "read"), ops(job, "write"))).collect()
}

/// What a program prints, where it is installed; `None` where it is not.
fn output_of(program: &str, args: &[&str], folder: &Path) -> Option<String> {
    let output = Command::new(program).args(args).current_dir(folder).output().ok()?;
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Lines of a log as numbers.
fn log(path: &Path) -> Vec<Vec<u64>> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split(", ").map(|field| field.parse().unwrap()).collect()).collect()
}

#[test]
fn perf_takes_the_words_of_fio() {
    let row = json_lines(&said(&[
        "perf",
        "null-backend:1G",
        "--readwrite=randrw",
        "--rwmixread=70",
        "--blocksize=4k",
        "--iodepth=4",
        "--numjobs=2",
        "--number_ios=500",
        "--runtime=1m",
        "--ramp_time=1ms",
        "--size=64m",
        "--offset=1m",
        "--randseed=3",
        "--direct=0",
        "--iodepth_batch_submit=2",
        "--random_distribution=pareto:0.2",
        "--json",
    ]))[0]
        .clone();
    let (reads, writes) = (row["read"]["ops"].as_u64().unwrap(), row["write"]["ops"].as_u64().unwrap());
    assert!(reads + writes == 1000 && (600..800).contains(&reads), "{row}");
    assert_eq!((row["depth"].as_u64(), row["seed"].as_u64()), (Some(4), Some(3)));
    assert_eq!(
        (row["random_distribution"].as_str(), row["threads"].as_array().unwrap().len()),
        (Some("pareto:0.2"), 2)
    );
    let help = said(&["perf", "--help"]);
    for word in ["iodepth", "numjobs", "runtime", "rwmixread", "ramp_time", "log_avg_msec", "write_lat_log"] {
        assert!(
            help.contains(&format!("aliases: --{word}")) || help.contains(&format!("alias: --{word}")),
            "{word}"
        );
    }
}

#[test]
fn perf_runs_the_jobs_of_a_file_as_fio_does() {
    let image = Image::new(&["kv:16M"]);
    let blocks = image.file("blocks", &vec![0; 1 << 20]);
    let file = image.file("jobs.fio", JOBS.replace("BLOCKS", &blocks).as_bytes());
    let row = json_lines(&said(&["perf", "--jobs", &file, "--json"]))[0].clone();
    let jobs = jobs_of(&row);
    let [(_, 400, 0), (mixed, reads, writes), (_, 0, 16)] = &jobs[..] else { panic!("{jobs:?}") };
    assert!(mixed == "mixed" && reads + writes == 256 && reads > writes, "{jobs:?}");
    let text = said(&["perf", "--jobs", &file]);
    assert!(
        text.contains("readers: randread 4 KiB, depth 8, 2 threads") && text.contains("sweep: write"),
        "{text}"
    );
    // fio does as many commands by the same file.
    let Some(theirs) = output_of("fio", &["--output-format=json", &file], image.dir.path()) else { return };
    let theirs: Value = serde_json::from_str(&theirs[theirs.find('{').unwrap()..]).unwrap();
    let ios = |name: &str, side: &str| -> u64 {
        let jobs = theirs["jobs"].as_array().unwrap().iter().filter(|job| job["jobname"] == name);
        jobs.map(|job| job[side]["total_ios"].as_u64().unwrap()).sum()
    };
    assert_eq!((ios("readers", "read"), ios("sweep", "write")), (400, 16));
    // The size ends the job before the number of commands does.
    assert_eq!(ios("mixed", "read") + ios("mixed", "write"), 256);
}

#[test]
fn jobs_beside_each_other_share_one_device_of_an_image() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let text = "[global]\nnumber_ios=100\n[blocks]\nrw=randwrite\n[reads]\nrw=read\n[pairs]\nstonewall\nrw=putget\nkeys=50\nfill\nvalue_bytes=64\n";
    let file = image.file("jobs.fio", text.as_bytes());
    let row = json_lines(&said(&["perf", &image.uri(""), "--jobs", &file, "--json"]))[0].clone();
    let jobs = jobs_of(&row);
    assert_eq!((&jobs[0], &jobs[1]), (&("blocks".into(), 0, 100), &("reads".into(), 100, 0)));
    assert_eq!(jobs[2].1 + jobs[2].2, 100, "{row}");
    said(&["check", image.path().to_str().unwrap()]);
}

#[test]
fn job_file_that_is_not_understood_is_refused_with_its_line() {
    let image = Image::new(&["kv:16M"]);
    for (text, words) in [
        ("[a]\nrw=randread\nthinktime=10\n", ["line 3", "thinktime is no option"]),
        ("[a]\nrw=randread\nbs=4x\n", ["line 3", "4x"]),
        ("rw=randread\n", ["line 1", "before the first section"]),
        ("[a]\nrw=read\n", ["job a", "no DEVICE"]),
    ] {
        let file = image.file("jobs.fio", text.as_bytes());
        let error = refused(2, &["perf", "--jobs", &file]);
        assert!(
            words.iter().all(|word| error.contains(word)) && error.lines().count() == 1,
            "{text:?}: {error}"
        );
    }
    let file = image.file("jobs.fio", b"[a]\nioengine=libaio\ngroup_reporting\nnumber_ios=1\n");
    let output = byway().args(["perf", "null-backend:1G", "--jobs", &file, "--json"]).output().unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && notes.lines().count() == 2 && notes.contains("line 2: ioengine"),
        "{notes}"
    );
    refused(2, &["perf", "null-backend:1G", "--jobs", &file, "--depth", "4"]);
    refused(2, &["perf", "null-backend:1G"]);
}

#[test]
fn zipf_touches_few_blocks_often_and_pareto_the_share_it_says() {
    let image = Image::new(&["kv:16M"]);
    let path = image.file("blocks", &vec![0; 4 << 20]);
    let prefix = image.dir.path().join("run").to_str().unwrap().to_owned();
    // The share of commands that the tenth of 1024 blocks has that is touched most.
    let head = |distribution: &str| {
        let logs = ["--log", &prefix, "--log-avg-ms", "0", "--log-offset"];
        let load =
            ["perf", &path, "--rw", "randread", "--count", "50000", "--random-distribution", distribution];
        said(&[load.as_slice(), &logs].concat());
        let mut counts = vec![0u64; 1024];
        log(format!("{prefix}_lat.1.log").as_ref())
            .iter()
            .for_each(|line| counts[line[4] as usize / 4096] += 1);
        assert_eq!(counts.iter().sum::<u64>(), 50_000);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts[..102].iter().sum::<u64>() as f64 / 50_000.0
    };
    // Sums of 1/k^theta; 1 % of deviation is ten times the standard deviation.
    let zipf = |theta: f64| {
        let sum = |n: u32| (1..=n).map(|k| f64::from(k).powf(-theta)).sum::<f64>();
        sum(102) / sum(1024)
    };
    for (distribution, wanted) in [
        ("zipf:0.99", zipf(0.99)),
        ("zipf:1.2", zipf(1.2)),
        ("pareto:0.2", 0.1f64.powf(0.8f64.ln() / 0.2f64.ln())),
    ] {
        let came = head(distribution);
        assert!((came - wanted).abs() < 0.03, "{distribution}: {came} of {wanted}");
    }
    assert!(head("random") < 0.2);
    let error = refused(2, &["perf", &path, "--rw", "read", "--random-distribution", "zipf:0.99"]);
    assert!(error.contains("--random-distribution means nothing"), "{error}");
    let error = refused(2, &["perf", &path, "--rw", "randread", "--random-distribution", "zipf:1"]);
    assert!(error.contains("zipf:"), "{error}");
}

#[test]
fn logs_have_the_columns_of_fio_and_its_tools_read_them() {
    let image = Image::new(&["kv:16M"]);
    let path = image.file("blocks", &vec![0; 1 << 20]);
    let prefix = image.dir.path().join("run").to_str().unwrap().to_owned();
    let load = ["perf", &path, "--rw", "randrw", "--time", "0.5", "--depth", "4", "--threads", "2", "--json"];
    let row = json_lines(&said(&[&load[..], &["--log", &prefix, "--log_avg_msec=100"]].concat()))[0].clone();
    for thread in [1, 2] {
        let of = |kind: &str| log(format!("{prefix}_{kind}.{thread}.log").as_ref());
        let (latency, bandwidth, rate) = (of("lat"), of("bw"), of("iops"));
        assert!(
            latency.len() >= 4 && latency.len() == bandwidth.len() && latency.len() == rate.len(),
            "{latency:?}"
        );
        assert!(latency.iter().all(|line| line.len() == 5 && line[2] < 2 && line[3] == 0 && line[4] == 0));
        assert!(latency.windows(2).all(|pair| pair[0][0] <= pair[1][0]), "{latency:?}");
        // KiB a second of blocks of 4 KiB.
        let agree = |(bandwidth, rate): (&Vec<u64>, &Vec<u64>)| bandwidth[1].abs_diff(rate[1] * 4) <= 8;
        assert!(bandwidth.iter().zip(&rate).all(agree), "{bandwidth:?} {rate:?}");
    }
    assert!(row["read"]["ops"].as_u64().unwrap() > 0);
    // fio2gnuplot renders with gnuplot, which need not be there: it has read the logs when it says so.
    let Ok(read) = Command::new("fio2gnuplot")
        .args(["-p", "run_iops*.log", "-k"])
        .current_dir(image.dir.path())
        .output()
    else {
        return;
    };
    let said = String::from_utf8_lossy(&read.stdout).into_owned();
    assert!(said.contains("2 files Selected"), "{said}");
}

#[test]
fn log_of_every_command_has_a_line_for_each() {
    let image = Image::new(&["kv:16M"]);
    let path = image.file("blocks", &vec![0; 1 << 20]);
    let prefix = image.dir.path().join("each").to_str().unwrap().to_owned();
    let load = ["perf", &path, "--rw", "randwrite", "--count", "10000", "--depth", "4"];
    said(&[&load[..], &["--write_lat_log", &prefix, "--log-avg-ms", "0", "--log-offset"]].concat());
    let lines = log(format!("{prefix}_lat.1.log").as_ref());
    assert_eq!(lines.len(), 10_000);
    assert!(
        lines.iter().all(|line| line.len() == 6
            && line[2..4] == [1, 4096]
            && line[4] < 1 << 20
            && line[4] % 4096 == 0)
    );
    assert!(!Path::new(&format!("{prefix}_bw.1.log")).exists());
    let error = refused(2, &[&load[..], &["--log", "/nonexistent/x"]].concat());
    assert!(error.contains("there is no folder for /nonexistent/x_lat.1.log"), "{error}");
    let error = refused(2, &[&load[..], &["--log", &prefix, "--no-latency"]].concat());
    assert!(error.contains("--no-latency"), "{error}");
}
