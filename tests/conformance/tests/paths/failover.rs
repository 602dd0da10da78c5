//! Failover from ports that are cut, fall silent, or do not exist.

use std::sync::mpsc::channel;

use byway::{CreateOptions, ErrorKind};
use byway_conformance::scratch::Scratch;

use super::*;

#[test]
fn a_port_that_is_cut_loses_nothing_and_the_other_goes_on() {
    let served = Served::new();
    let device = served.open("keep-alive=30");
    let (mut queue, nsid) = (queue(&device, 32), blocks_of(&device));
    for round in 0..10_u8 {
        for tag in 0..16 {
            queue.submit(write(nsid, tag * 8, 8, round ^ tag as u8), tag).unwrap();
        }
        for tag in 16..32 {
            queue.submit(read(nsid, 512, 64), tag).unwrap();
        }
        queue.start().unwrap();
        served.relays[usize::from(round % 2)].cut();
        let finished = drain(&mut queue);
        assert_eq!(finished.len(), 32);
        finished.into_iter().for_each(|finished| drop(finished.result.unwrap()));
        for tag in 0..16 {
            assert_eq!(byte_at(&mut queue, nsid, tag * 8), round ^ tag as u8, "{round} {tag}");
        }
        served.relays[usize::from(round % 2)].restore();
        stand(&device, 2);
    }
}

#[test]
fn silent_port_times_out_and_the_other_continues() {
    let served = Served::new();
    let device = served.open("keep-alive=1");
    let (mut queue, nsid) = (queue(&device, 32), blocks_of(&device));
    queue.alone(write(nsid, 0, 8, 1)).unwrap();
    served.relays[0].swallow();
    for tag in 0..8 {
        queue.submit(write(nsid, tag * 8, 8, 2), tag).unwrap();
    }
    let finished = drain(&mut queue);
    finished.into_iter().for_each(|finished| drop(finished.result.unwrap()));
    assert_eq!(byte_at(&mut queue, nsid, 0), 2);
}

#[test]
fn with_both_ports_away_commands_wait_until_the_loss_timeout_and_then_fail() {
    let served = Served::new();
    let device = served.open("keep-alive=1&ctrl-loss-tmo=1");
    let (mut queue, nsid) = (queue(&device, 16), blocks_of(&device));
    queue.alone(write(nsid, 0, 8, 1)).unwrap();
    served.relays.iter().for_each(Relay::cut);
    let begun = Instant::now();
    for tag in 0..16 {
        let command = if tag % 2 == 0 { write(nsid, tag, 1, 2) } else { read(nsid, tag, 1) };
        queue.submit(command, tag).unwrap();
    }
    for finished in drain(&mut queue) {
        let failed = finished.result.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::DeviceLost, "{}", failed.error);
        assert!(failed.buffer.is_some());
    }
    assert!(begun.elapsed() >= Duration::from_secs(1));
    until(|| match queue.submit(read(nsid, 0, 1), 0) {
        Err(refused) => refused.error.kind() == ErrorKind::DeviceLost,
        Ok(()) => {
            drain(&mut queue);
            false
        }
    });
    assert_eq!(device.namespaces().unwrap_err().kind(), ErrorKind::DeviceLost);
}

#[test]
fn one_port_of_two_that_comes_back_in_time_is_enough_for_what_waits() {
    let served = Served::new();
    let device = served.open("keep-alive=1&ctrl-loss-tmo=60");
    let (mut queue, nsid) = (queue(&device, 16), blocks_of(&device));
    queue.alone(write(nsid, 0, 1, 9)).unwrap();
    for round in 0..4_u8 {
        served.relays.iter().for_each(Relay::cut);
        for tag in 0..16 {
            queue.submit(write(nsid, tag, 1, round), tag).unwrap();
        }
        assert!(queue.next_within(Duration::from_millis(20)).unwrap().is_none());
        served.relays[usize::from(round % 2)].restore();
        let finished = drain(&mut queue);
        finished.into_iter().for_each(|finished| drop(finished.result.unwrap()));
        assert_eq!(byte_at(&mut queue, nsid, 15), round);
        assert_eq!(device.namespaces().unwrap().len(), 2);
        served.relays.iter().for_each(Relay::restore);
        stand(&device, 2);
    }
}

#[test]
fn one_portal_is_enough_to_open_a_device_and_the_other_joins_when_it_is_there() {
    let served = Served::new();
    served.relays[0].cut();
    let device = byway::open(&served.uri("keep-alive=30")).unwrap();
    let (mut queue, nsid) = (queue(&device, 4), blocks_of(&device));
    queue.alone(write(nsid, 0, 8, 1)).unwrap();
    assert!(device.paths().unwrap()[0].lost.is_some());
    served.relays[0].restore();
    stand(&device, 2);
    let before = served.relays[0].carried();
    queue.alone(write(nsid, 0, 8, 2)).unwrap();
    queue.alone(write(nsid, 0, 8, 3)).unwrap();
    assert!(served.relays[0].carried() > before + 8 * LBA_BYTES as u64, "the first of two that are as good");
    served.relays[1].cut();
    assert_eq!(byte_at(&mut queue, nsid, 0), 3);
}

#[test]
fn a_silent_portal_delays_no_host_with_another_and_joins_when_it_answers() {
    let served = Served::new();
    served.relays[0].swallow();
    let (uri, (opened, open)) = (served.uri("keep-alive=2&timeout=600"), channel());
    std::thread::spawn(move || drop(opened.send(byway::open(&uri))));
    let device = open.recv_timeout(LONG).expect("one that answers is enough").unwrap();
    let (mut queue, nsid) = (queue(&device, 4), blocks_of(&device));
    queue.alone(write(nsid, 0, 8, 1)).unwrap();
    assert!(device.paths().unwrap()[0].lost.is_some());
    served.relays[0].restore();
    stand(&device, 2);
}

#[test]
fn small_writes_go_with_their_data_by_a_port_that_joined_too() {
    const CAPSULE_BYTES: u64 = 72 + 8 * LBA_BYTES as u64;
    let served = Served::new();
    served.relays[0].cut();
    let device = byway::open(&served.uri("keep-alive=30")).unwrap();
    let (mut queue, nsid) = (queue(&device, 4), blocks_of(&device));
    served.relays[0].restore();
    stand(&device, 2);
    queue.alone(write(nsid, 0, 8, 1)).unwrap();
    let before = served.relays[0].carried();
    for _ in 0..20 {
        queue.alone(write(nsid, 0, 8, 2)).unwrap();
    }
    let carried = served.relays[0].carried() - before;
    // Data that an R2T asks for has a header of its own; keep-alives of the reconnect thread are less.
    assert!((20 * CAPSULE_BYTES..20 * (CAPSULE_BYTES + 20)).contains(&carried), "{carried}");
}

#[test]
fn portals_that_lead_nowhere_or_to_different_devices_are_reported_in_a_sentence() {
    let served = Served::new();
    let image = Scratch::new();
    std::fs::remove_file(&image.path).unwrap();
    byway::create(&image.path, &CreateOptions::new(2 * Scratch::BYTES)).unwrap();
    let tcp = two_ports().nqn(served.serving.nqn().to_owned());
    let other =
        Serving::start_with(&format!("embedded:{}", image.path.display()), &ServeOptions::over_tcp(tcp));
    let error = |uri: &str| byway::open(uri).unwrap_err().to_string();
    let uri = served.uri("ctrl-loss-tmo=1");
    let twice = uri.replace(&served.relays[1].address.to_string(), &served.relays[0].address.to_string());
    assert!(error(&twice).contains("is given twice"), "{}", error(&twice));
    assert!(error(&served.uri("keep-alive=0")).contains("keep alive"));
    let elsewhere = uri.replace(&served.relays[1].address.to_string(), &other.tcp_address().to_string());
    assert!(error(&elsewhere).contains("ways to different devices"), "{}", error(&elsewhere));
    served.relays.iter().for_each(Relay::cut);
    byway::open(&uri).unwrap_err();
}

#[test]
fn a_program_that_waits_by_the_descriptor_is_woken_whichever_port_answers() {
    let served = Served::new();
    let device = served.open("keep-alive=30");
    let (mut queue, nsid) = (queue(&device, 4), blocks_of(&device));
    for round in 0..12_u8 {
        let port = usize::from(round % 2);
        if round % 4 < 2 {
            served.relays[port].cut();
        } else {
            served.set(u16::from(round % 2) + 1, AnaState::NON_OPTIMIZED);
            served.set(2 - u16::from(round % 2), AnaState::OPTIMIZED);
        }
        queue.submit(write(nsid, 0, 64, round), 1).unwrap();
        queue.event().unwrap();
        queue.start().unwrap();
        loop {
            if let Some(finished) = queue.next_finished().unwrap() {
                finished.result.unwrap();
                break;
            }
            let event = queue.event().unwrap();
            assert!(byway_sys::wait_readable(event, LONG).unwrap(), "round {round}");
        }
        assert_eq!(byte_at(&mut queue, nsid, 0), round);
        served.relays[port].restore();
        stand(&device, 2);
    }
}
