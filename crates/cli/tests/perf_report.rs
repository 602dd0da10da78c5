//! Reports of `byway perf`: a page, figures and data in a folder, of one run and of several beside each other.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::{Image, byway, refused, said};
use serde_json::Value;

/// A load with a report in a folder, and what it has there as data.
fn reported(folder: &Path, more: &[&str]) -> Value {
    let load =
        ["perf", "null-backend:1G", "--rw", "randrw", "--depth", "4", "--report", folder.to_str().unwrap()];
    said(&[&load[..], more].concat());
    data(folder)
}

fn data(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("report.json")).unwrap()).unwrap()
}

fn page(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("report.html")).unwrap()
}

/// Rows of a table of a figure, without the lines that say where it comes from.
fn rows(folder: &Path, figure: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(folder.join(format!("figures/{figure}.csv"))).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn folder(of: &Image, name: &str) -> PathBuf {
    of.dir.path().join(name)
}

#[test]
fn report_has_a_page_data_and_figures_that_agree() {
    let image = Image::new(&["kv:16M"]);
    let folder = folder(&image, "report");
    let report = reported(&folder, &["--time", "0.5", "--threads", "2", "--seed", "7"]);
    let run = &report["runs"][0];
    assert_eq!(
        (run["rw"].as_str(), run["threads"].as_u64(), run["seed"].as_u64()),
        (Some("randrw"), Some(2), Some(7))
    );
    let command = report["command"].as_str().unwrap();
    assert!(command.contains("perf null-backend:1G --rw randrw"), "{command}");
    let sides = run["sides"].as_array().unwrap();
    assert_eq!(sides.len(), 2);
    for side in sides {
        let percentiles = side["percentiles"].as_array().unwrap();
        let ns: Vec<u64> = percentiles.iter().map(|at| at["ns"].as_u64().unwrap()).collect();
        assert!(ns.len() > 20 && ns.is_sorted(), "{ns:?}");
        // Intervals together have done what the whole has, but for the last one, which is not whole.
        let series = side["series"].as_array().unwrap();
        let mean = series.iter().map(|at| at["iops"].as_f64().unwrap()).sum::<f64>() / series.len() as f64;
        assert!(
            series.len() > 20 && (mean / side["iops"].as_f64().unwrap() - 1.0).abs() < 0.2,
            "{mean}: {side}"
        );
        assert_eq!(side["threads"].as_array().unwrap().len(), 2);
    }
    let page = page(&folder);
    for words in [
        "byway perf: randrw 4 KiB, depth 4, 2 threads on null-backend:1G",
        "<svg",
        "Linux",
        "99th percentile",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // Nothing is fetched.
    assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("<script"));
    for figure in
        ["latency-percentiles", "rate-over-time", "median-over-time", "p99-over-time", "rate-by-thread"]
    {
        let file = |ending: &str| std::fs::read(folder.join(format!("figures/{figure}.{ending}"))).unwrap();
        assert!(file("svg").starts_with(b"<svg") && file("pdf").starts_with(b"%PDF-"), "{figure}");
        let rows = rows(&folder, figure);
        assert!(rows.len() > 20 && rows.iter().all(|row| row.len() == rows[0].len()), "{figure}: {rows:?}");
        assert!(page.contains(&format!("href=\"figures/{figure}.pdf\"")), "{figure}");
    }
}

#[test]
fn reports_stand_beside_each_other_with_a_run_and_without() {
    let image = Image::new(&["kv:16M"]);
    let [before, after, both] = ["before", "after", "both"].map(|name| folder(&image, name));
    reported(&before, &["--count", "20000"]);
    reported(&after, &["--count", "20000", "--compare", before.to_str().unwrap()]);
    let compared = page(&after);
    assert!(compared.contains("after beside before") && compared.contains("ratio"), "{compared}");
    // A report's data are those of its own run.
    assert_eq!(data(&after)["runs"].as_array().unwrap().len(), 1);
    let file = before.join("report.json");
    let pair = ["perf", "--compare", after.to_str().unwrap(), "--compare", file.to_str().unwrap()];
    assert!(said(&pair).contains("after / before"));
    assert!(refused(2, &pair[..3]).contains("name two by --compare"));
    said(&[&pair[..], &["--report", both.to_str().unwrap()]].concat());
    assert!(page(&both).contains("after beside before"));
    let names: Vec<String> =
        rows(&both, "latency-percentiles").into_iter().map(|row| row.join(",")).collect();
    assert!(
        names.iter().any(|row| row.contains("after read"))
            && names.iter().any(|row| row.contains("before write"))
    );
}

#[test]
fn comparison_prints_ratios_and_says_which_settings_differ() {
    let image = Image::new(&["kv:16M"]);
    let [before, after] = ["before", "after"].map(|name| folder(&image, name));
    reported(&before, &["--count", "2000"]);
    let load = ["perf", "null-backend:1G", "--rw", "randrw", "--depth", "8", "--count", "2000"];
    let compare = ["--compare", before.to_str().unwrap(), "--report", after.to_str().unwrap()];
    assert!(said(&[&load[..], &compare[..2]].concat()).contains("this run / before"));
    let printed = said(&[&load[..], &compare].concat());
    assert!(printed.contains("this run / before") && printed.contains("read: p99, µs"), "{printed}");
    assert!(printed.contains("depth 8 against 4"), "{printed}");
    assert!(page(&after).contains("after / before"));
    let svg = std::fs::read_to_string(after.join("figures/latency-percentiles.svg")).unwrap();
    assert!(svg.contains("randrw, depth 8 read") && svg.contains("randrw, depth 4 write"), "{svg}");
}

#[test]
fn every_setting_that_differs_is_listed_and_reported() {
    let image = Image::new(&["kv:16M", "kv:16M"]);
    let [before, after] = ["before", "after"].map(|name| folder(&image, name));
    let measure = |folder: &Path, ns: &str, more: &[&str]| {
        let uri = image.uri(ns);
        let load = ["perf", &uri, "--rw", "put", "--count", "200", "--report", folder.to_str().unwrap()];
        said(&[&load[..], more].concat())
    };
    measure(&before, "ns=1", &["--keys", "50"]);
    let options =
        ["--keys", "60", "--key-bytes", "8", "--fill", "--warmup", "0.01", "--seed", "3", "--wait", "spin"];
    let compare = ["--depth", "2", "--batch", "2", "--compare", before.to_str().unwrap()];
    let printed = measure(&after, "ns=2", &[&options[..], &compare].concat());
    for differing in [
        "namespace 2 against 1",
        "keys 60 against 50",
        "bytes of a key 8 against 16",
        "fill yes against no",
        "depth 2 against 1",
        "batch 2 against none",
        "wait spin against sleep",
        "seed 3 against 0",
        "warm-up in seconds 0.01 against 0",
    ] {
        assert!(printed.contains(differing) && page(&after).contains(differing), "{differing}: {printed}");
    }
    for same in ["backend ", "load ", "threads ", "runs ", "first byte "] {
        assert!(!printed.contains(&format!(", {same}")), "{same}: {printed}");
    }
    let run = &data(&after)["runs"][0];
    let kept = ["namespace", "keys", "fill", "warmup_seconds"].map(|name| run[name].to_string());
    assert_eq!(kept, ["2", "60", "true", "0.01"], "{run}");
    for cells in ["<td>namespace</td><td>2</td>", "<td>keys</td><td>60</td>", "<td>fill</td><td>yes</td>"] {
        assert!(page(&after).contains(cells), "{cells}");
    }
}

#[test]
fn figures_name_lines_by_the_loads_or_by_the_folders_of_one_load() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    let [get, put, again] = ["before", "after", "again"].map(|name| folder(&image, name));
    let measure = |rw: &str, folder: &Path, others: &[&Path]| {
        let to = folder.to_str().unwrap();
        let bytes = if rw == "put" { "64" } else { "32" };
        let load = [
            "perf",
            &uri,
            "--rw",
            rw,
            "--keys",
            "50",
            "--fill",
            "--value-bytes",
            bytes,
            "--count",
            "200",
            "--report",
            to,
        ];
        let others = others.iter().flat_map(|other| ["--compare", other.to_str().unwrap()]);
        said(&load.into_iter().chain(others).collect::<Vec<_>>());
    };
    let lines = |folder: &Path| {
        let rows = rows(folder, "latency-percentiles").into_iter().skip(1).map(|mut row| row.swap_remove(0));
        let mut names: Vec<String> = rows.collect();
        names.dedup();
        names
    };
    measure("get", &get, &[]);
    assert_eq!(lines(&get), ["read"]);
    measure("put", &put, &[&get]);
    assert_eq!(lines(&put), ["put", "get"]);
    measure("get", &again, &[&get]);
    assert_eq!(lines(&again), ["again read", "before read"]);
}

#[test]
fn jobs_of_one_name_are_compared_each_with_its_own() {
    let image = Image::new(&["kv:16M"]);
    let jobs = image
        .file("jobs.fio", b"[global]\nnumber_ios=2000\nrw=randread\n[a]\nbs=4k\n[a]\nbs=64k\nstonewall\n");
    let [once, beside] = ["once", "beside"].map(|name| folder(&image, name));
    said(&["perf", "null-backend:1G", "--jobs", &jobs, "--report", once.to_str().unwrap()]);
    let once = once.to_str().unwrap();
    said(&["perf", "--compare", once, "--compare", once, "--report", beside.to_str().unwrap()]);
    let page = page(&beside);
    assert!(page.contains("a read (2): MiB/s"), "{page}");
    assert_eq!(page.matches("<td>1.000</td>").count(), page.matches(": p99, µs").count() * 6, "{page}");
}

#[test]
fn report_that_is_there_is_left_as_it_is() {
    let image = Image::new(&["kv:16M"]);
    let there = folder(&image, "there");
    reported(&there, &["--count", "2000"]);
    let before = page(&there);
    let to = there.to_str().unwrap();
    let error = refused(2, &["perf", "null-backend:1G", "--rw", "read", "--count", "9", "--report", to]);
    assert!(error.contains("has a report already"), "{error}");
    assert_eq!(page(&there), before);
}

#[test]
fn jobs_before_one_that_fails_are_printed() {
    let image = Image::new(&["kv:16M"]);
    let jobs = image.file(
        "jobs.fio",
        b"[first]\nrw=randread\nnumber_ios=100\n[second]\nstonewall\nrw=read\nfilename=/nowhere/at.all\n",
    );
    let output = byway().args(["perf", "null-backend:1G", "--jobs", &jobs]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).contains("first: "), "{output:?}");
}

#[test]
fn jobs_are_reported_side_by_side() {
    let image = Image::new(&["kv:16M"]);
    let jobs =
        image.file("jobs.fio", b"[global]\nnumber_ios=2000\n[one]\nrw=randread\n[two]\nrw=randwrite\n");
    let folder = folder(&image, "report");
    said(&["perf", "null-backend:1G", "--jobs", &jobs, "--report", folder.to_str().unwrap()]);
    let names: Vec<Value> =
        data(&folder)["runs"].as_array().unwrap().iter().map(|run| run["job"].clone()).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(page(&folder).contains("one read") && page(&folder).contains("two write"));
}

#[test]
fn report_that_cannot_be_is_refused_before_anything_is_measured() {
    let image = Image::new(&["kv:16M"]);
    let other = image.file("other.json", b"{}");
    let missing = format!("{other}.not");
    let to = folder(&image, "report");
    let to = to.to_str().unwrap();
    let load = ["perf", "null-backend:1G", "--rw", "randread", "--time", "60", "--report", to];
    for (more, words) in [
        (["--compare", other.as_str()].as_slice(), "is no report of byway perf --report"),
        (&["--compare", missing.as_str()], "does not exist"),
        (&["--no-latency"], "--no-latency"),
    ] {
        let error = refused(2, &[&load[..], more].concat());
        assert!(error.contains(words), "{more:?}: {error}");
    }
    byway()
        .args(["perf", "null-backend:1G", "--rw", "read", "--count", "1", "--compare", &other])
        .assert()
        .code(2);
    assert!(!Path::new(to).exists());
}

#[test]
fn repeated_runs_are_reported_with_their_spread() {
    let image = Image::new(&["kv:16M"]);
    let [once, thrice] = ["once", "thrice"].map(|name| folder(&image, name));
    reported(&once, &["--count", "2000"]);
    let compare = ["--count", "2000", "--repeat", "3", "--compare", once.to_str().unwrap()];
    let report = reported(&thrice, &compare);
    let run = &report["runs"][0];
    assert_eq!((run["repeat"].as_u64(), run["sides"].as_array().unwrap().len()), (Some(3), 2), "{run}");
    for side in run["sides"].as_array().unwrap() {
        let mut rates: Vec<f64> =
            side["runs"].as_array().unwrap().iter().map(|run| run["iops"].as_f64().unwrap()).collect();
        rates.sort_by(f64::total_cmp);
        assert_eq!((rates.len(), side["iops"].as_f64()), (3, Some(rates[1])), "{side}");
    }
    let page = page(&thrice);
    for words in ["read median", "read min", "write max", "least and most of the runs", " to "] {
        assert!(page.contains(words), "{words}");
    }
    // A row has the series, its role, the percentile or load, the figure, and the least and most: none of a single run.
    for figure in ["latency-percentiles", "rate-of-runs"] {
        let rows = rows(&thrice, figure);
        let number = |row: &[String], at: usize| row[at].parse::<f64>().unwrap();
        let (mine, others): (Vec<_>, Vec<_>) =
            rows.iter().skip(1).partition(|row| row[0].starts_with("thrice"));
        assert!(!mine.is_empty() && !others.is_empty(), "{figure}: {rows:?}");
        for row in mine {
            assert!(number(row, 4) <= number(row, 3) && number(row, 3) <= number(row, 5), "{row:?}");
        }
        assert!(others.iter().all(|row| row[4].is_empty()), "{figure}: {others:?}");
    }
    assert!(!once.join("figures/rate-of-runs.csv").exists());
}

#[test]
fn depths_of_a_load_are_reported_by_depth() {
    let image = Image::new(&["kv:16M"]);
    let [once, again] = ["once", "again"].map(|name| folder(&image, name));
    let load = ["perf", "null-backend:1G", "--rw", "randread", "--count", "500", "--depth", "1,2,8"];
    said(&[&load[..], &["--report", once.to_str().unwrap()]].concat());
    let compare = ["--compare", once.to_str().unwrap(), "--report", again.to_str().unwrap()];
    let printed = said(&[&load[..], &compare].concat());
    assert!(printed.contains("depth 8 read: p99, µs"), "{printed}");
    assert!(page(&once).contains("randread at 3 depths on null-backend:1G"));
    for figure in ["rate-by-depth", "median-by-depth"] {
        let depths = |folder: &Path, series: &str| {
            let rows = rows(folder, figure).into_iter().filter(|row| row[0] == series);
            rows.map(|row| row[2].clone()).collect::<Vec<_>>()
        };
        assert_eq!(depths(&once, "read"), ["1", "2", "8"], "{figure}");
        assert_eq!(depths(&again, "again read"), ["1", "2", "8"], "{figure}");
        assert_eq!(depths(&again, "once read"), ["1", "2", "8"], "{figure}");
    }
}
