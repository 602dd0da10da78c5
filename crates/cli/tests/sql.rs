//! `byway sql`: queries as they are typed, their results, refusals and costs.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Image, byway, json_lines, refused, said};

const MESH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/laghos/test4.parquet");
const COUNT: &str = "SELECT count(*) AS n, min(y) AS y FROM mesh WHERE x > 2.5";

/// An image whose key `mesh` has one of the Laghos files, and whose second namespace begins with it.
fn image() -> Image {
    let image = Image::sized("256M", &["kv:64M", "nvm:64M"]);
    said(&["kv", "put", &image.uri(""), "mesh", "--file", MESH]);
    said(&["nvm", "write", &image.uri(""), "--ns", "2", "--file", MESH]);
    image
}

fn bytes_of_mesh() -> u64 {
    std::fs::metadata(MESH).unwrap().len()
}

#[test]
fn query_of_a_value_and_of_blocks_print_the_same() {
    let image = image();
    let of_value = said(&["sql", &image.uri(""), "mesh", COUNT]);
    assert_eq!(of_value.lines().next(), Some("n,y"));
    assert_eq!(of_value.lines().count(), 2);
    let place = format!("0:{}", bytes_of_mesh());
    assert_eq!(said(&["sql", &image.uri(""), "--ns", "2", "--blocks", &place, COUNT]), of_value);
    assert!(!said(&["sql", &image.uri(""), "mesh", COUNT, "--no-header"]).contains("n,y"));
}

#[test]
fn result_is_json_or_arrow_and_goes_to_a_file() {
    let image = image();
    let lines = json_lines(&said(&["sql", &image.uri(""), "mesh", COUNT, "--format", "jsonl"]));
    assert!(lines[0]["n"].as_u64().unwrap() > 100, "{lines:?}");
    let file = image.dir.path().join("result.arrow");
    said(&["sql", &image.uri(""), "mesh", COUNT, "--format", "arrow", "--file", file.to_str().unwrap()]);
    assert_eq!(std::fs::read(file).unwrap()[..4], [0xff; 4]);
}

#[test]
fn explanation_says_what_is_read_and_moved() {
    let image = image();
    let text = said(&["sql", &image.uri(""), "mesh", COUNT, "--explain"]);
    assert!(text.contains("advice           push down"), "{text}");
    let text = said(&["sql", &image.uri(""), "mesh", "SELECT * FROM mesh", "--explain"]);
    assert!(text.contains("advice           read the columns"), "{text}");
    let json = json_lines(&said(&["sql", &image.uri(""), "mesh", COUNT, "--explain", "--json"]));
    assert_eq!(json[0]["advice"], "push_down");
}

#[test]
fn refusal_names_the_token_and_a_missing_key_the_key() {
    let image = image();
    let said = refused(2, &["sql", &image.uri(""), "mesh", "SELECT x FROM mesh JOIN other"]);
    assert!(said.contains("`JOIN`"), "{said}");
    let said = refused(1, &["sql", &image.uri(""), "nothing", COUNT]);
    assert!(said.contains("nothing"), "{said}");
    let said = refused(2, &["sql", &image.uri(""), "--ns", "2", "--blocks", "5:100", COUNT]);
    assert!(said.contains("byte 5 is not the first of a block"), "{said}");
    let said = refused(2, &["sql", &image.uri("compute=0"), "mesh", COUNT]);
    assert!(said.contains("executes no queries") || said.contains("Invalid Command Opcode"), "{said}");
}

#[test]
fn cost_is_a_few_hundred_bytes_beside_the_query_and_its_result() {
    let image = image();
    let output = byway().args(["sql", &image.uri(""), "mesh", COUNT, "--cost"]).assert().success();
    let output = output.get_output().clone();
    let text = String::from_utf8(output.stderr).unwrap();
    let all = text.lines().find(|line| line.starts_with("in all")).unwrap();
    let bytes: usize = all.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    assert!(bytes < COUNT.len() + output.stdout.len() + 1024, "{text}");
}

#[test]
fn query_in_the_host_gives_the_same_and_moves_the_columns() {
    let image = image();
    let place = format!("0:{}", bytes_of_mesh());
    let uri = image.uri("ns=2");
    let of_blocks = ["sql", &uri, "--blocks", &place, COUNT, "--cost"];
    let [device, host] = [&[][..], &["--in-host"]].map(|more| {
        let output = byway().args(of_blocks).args(more).assert().success().get_output().clone();
        let moved = String::from_utf8(output.stderr).unwrap();
        let all = moved.lines().find(|line| line.starts_with("in all")).unwrap().to_owned();
        let bytes: u64 = all.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
        (String::from_utf8(output.stdout).unwrap(), bytes)
    });
    assert_eq!(device.0, host.0);
    assert!(host.1 > 100 * device.1, "{device:?} {host:?}");
    let of_value = said(&["sql", &image.uri(""), "mesh", COUNT, "--in-host"]);
    assert_eq!(of_value, host.0);
}
