//! Results: the same whichever way the query and its object came.

use byway::serve::{ServeOptions, TcpOptions, serve};
use byway::spec::vendor::QueryFormat;
use byway::{Class, Method, SqlOptions};

use super::{LAGHOS, all, csv, format, laghos};
use crate::ledger::bytes_of;
use crate::ledger_gets::expected_get;
use crate::table::{Bytes, Link};

#[test]
fn query_over_a_value_is_the_same_by_every_transfer_method() {
    let mut results = Vec::new();
    for method in [Method::Prp, Method::Sgl, Method::Inline, Method::Adaptive] {
        let device = byway::embedded::open(&format!("embedded-ram:64M?transfer={method}")).unwrap();
        let mut kv = device.kv(None).unwrap();
        kv.put(b"mesh", &laghos(1)).unwrap();
        results.push(csv(&mut kv, b"mesh", "SELECT x, y FROM mesh ORDER BY y DESC, x LIMIT 4"));
    }
    assert_eq!(results[0].lines().count(), 4, "{}", results[0]);
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
}

#[test]
fn short_result_stands_behind_its_completion_where_the_queue_asks_for_that() {
    let of = |inline: &str| {
        let device = byway::embedded::open(&format!("embedded-ram:64M?inline-read={inline}")).unwrap();
        let mut kv = device.kv(None).unwrap();
        kv.put(b"mesh", &laghos(1)).unwrap();
        let before = device.ledger();
        let long = "SELECT x, y, z, x + y, y + z, z + x, x - y, y - z FROM mesh";
        let results = ["SELECT x, y FROM mesh LIMIT 4", long].map(|sql| csv(&mut kv, b"mesh", sql));
        (results, device.ledger().since(&before).row(Class::DataWrite).count)
    };
    let ((by_buffer, writes), (inline, rest)) = (of("off"), of("on"));
    assert_eq!(by_buffer, inline);
    assert!(by_buffer[0].len() < 225 && by_buffer[1].len() > 225, "{by_buffer:?}");
    assert_eq!(writes - rest, 1, "the short one is not written to a buffer");
}

#[test]
fn query_costs_a_command_with_its_text_and_one_with_its_result() {
    let link = Link { mps: 256, mrrs: 512 };
    for inline in ["off", "on"] {
        let uri = format!("embedded-ram:64M?profile=gen4x4&transfer=sgl&ring=65536&inline-read={inline}");
        let device = byway::embedded::open(&uri).unwrap();
        let mut kv = device.kv(None).unwrap();
        kv.put(b"mesh", &laghos(1)).unwrap();
        for rows in 1..=40 {
            let sql = format!("SELECT vertex_id, x FROM mesh LIMIT {rows}");
            let before = device.ledger();
            let result_bytes = csv(&mut kv, b"mesh", &sql).len() as u64;
            let spent = device.ledger().since(&before);
            // How often the host reads a register while it waits depends on how long that is.
            let registers = spent.row(Class::Register).cost;
            let registers = Bytes { payload: registers.payload_bytes, wire: registers.wire_bytes() };
            let answer = expected_get(result_bytes, link, inline == "on");
            let expected = link.alone() + link.read(sql.len() as u64) + answer + registers;
            assert_eq!(bytes_of(&spent), expected, "{rows} rows, {result_bytes} bytes, inline {inline}");
        }
    }
}

#[test]
fn query_over_blocks_is_as_over_the_value_with_the_same_bytes() {
    let device = byway::open("embedded-ram:64M").unwrap();
    let file = laghos(3);
    let (mut kv, mut nvm) = (device.kv(None).unwrap(), device.nvm(None).unwrap());
    kv.put(b"mesh", &file).unwrap();
    let mut blocks = file.clone();
    blocks.resize(file.len().next_multiple_of(nvm.lba_bytes() as usize), 0);
    nvm.write(8, &blocks).unwrap();
    let sql = "SELECT count(*), sum(rho), min(x) FROM t WHERE y BETWEEN 0.5 AND 1.5";
    let of_blocks = nvm.query(8, file.len() as u64, sql, SqlOptions::default()).unwrap();
    assert_eq!(all(of_blocks).unwrap(), csv(&mut kv, b"mesh", sql));
}

#[test]
fn formats_are_csv_with_a_header_json_lines_and_arrow() {
    let device = byway::open("embedded-ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"mesh", &laghos(1)).unwrap();
    let sql = "SELECT count(*) AS n, max(x) AS x FROM t";
    let with_header = kv.query(b"mesh", sql, SqlOptions::default().header(true)).unwrap();
    assert_eq!(all(with_header).unwrap().lines().next(), Some("n,x"));
    let json = all(kv.query(b"mesh", sql, format(QueryFormat::JSON_LINES)).unwrap()).unwrap();
    assert!(json.starts_with("{\"n\":") && json.ends_with("}\n"), "{json}");
    let mut arrow = Vec::new();
    let mut result = kv.query(b"mesh", sql, format(QueryFormat::ARROW_STREAM)).unwrap();
    while let Some(part) = result.next_part().unwrap() {
        arrow.extend_from_slice(part);
    }
    assert_eq!(arrow[..4], [0xff; 4], "a message of Arrow IPC begins with its continuation marker");
}

#[test]
fn long_result_comes_in_parts_and_the_queue_serves_on_behind_it() {
    let device = byway::open("embedded-ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"mesh", &laghos(4)).unwrap();
    let (mut parts, mut lines) = (0, 0);
    let mut result = kv.query(b"mesh", "SELECT * FROM t", SqlOptions::default()).unwrap();
    while let Some(part) = result.next_part().unwrap() {
        parts += 1;
        lines += part.iter().filter(|byte| **byte == b'\n').count();
    }
    assert_eq!(lines, 100_000);
    assert!(parts > 10, "{parts}");
    drop(result);
    assert!(kv.exists(b"mesh").unwrap());
}

#[test]
fn empty_result_has_no_part() {
    let device = byway::open("embedded-ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"mesh", &laghos(1)).unwrap();
    assert_eq!(csv(&mut kv, b"mesh", "SELECT x FROM t WHERE x > 1e9"), "");
}

#[test]
fn explanation_is_text_or_json() {
    let device = byway::open("embedded-ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"mesh", &laghos(4)).unwrap();
    let explain = SqlOptions::default().explain(true);
    let text = all(kv.query(b"mesh", LAGHOS, explain).unwrap()).unwrap();
    assert!(text.contains("advice           push down"), "{text}");
    let json = all(kv.query(b"mesh", LAGHOS, explain.format(QueryFormat::JSON_LINES)).unwrap()).unwrap();
    assert!(json.contains("\"advice\":\"push_down\""), "{json}");
}

#[test]
fn query_over_tcp_gives_long_results_to_several_connections_at_once() {
    let options = ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
    let served = serve("embedded-ram:64M", &options).unwrap();
    let (stop, address) = (served.stopper(), served.tcp_address().unwrap());
    let uri = format!("tcp://{address}/{}", served.nqn());
    let server = std::thread::spawn(move || served.run(|_| {}).unwrap());
    byway::open(&uri).unwrap().kv(None).unwrap().put(b"mesh", &laghos(4)).unwrap();
    let query = || {
        let device = byway::open(&uri).unwrap();
        let mut kv = device.kv(None).unwrap();
        let rows = csv(&mut kv, b"mesh", "SELECT * FROM t WHERE x > 2").lines().count();
        (csv(&mut kv, b"mesh", LAGHOS), rows)
    };
    let results = std::thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(query));
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(results[0].0.lines().count(), 4);
    assert!(results.iter().all(|result| *result == results[0]) && results[0].1 > 10_000, "{results:?}");
    stop.stop();
    server.join().unwrap();
}
