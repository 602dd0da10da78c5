//! Which port gets commands.

use byway_conformance::keys::every_call;

use super::*;

/// Bytes that each port's target was given meanwhile.
fn carried_by(served: &Served, during: impl FnOnce()) -> [u64; 2] {
    let before = [0, 1].map(|port| served.relays[port].carried());
    during();
    [0, 1].map(|port| served.relays[port].carried() - before[port])
}

/// Writes more than signs of life come to.
fn write_much(queue: &mut Queue, nsid: Nsid) {
    for slba in 0..64 {
        queue.alone(write(nsid, slba, 8, slba as u8)).unwrap();
    }
}

const MUCH: u64 = 64 * 8 * LBA_BYTES as u64;

#[test]
fn the_port_that_serves_a_namespace_best_gets_the_commands() {
    for (states, best) in [
        ([AnaState::OPTIMIZED, AnaState::OPTIMIZED], 0),
        ([AnaState::NON_OPTIMIZED, AnaState::OPTIMIZED], 1),
        ([AnaState::OPTIMIZED, AnaState::NON_OPTIMIZED], 0),
        ([AnaState::INACCESSIBLE, AnaState::NON_OPTIMIZED], 1),
        ([AnaState::NON_OPTIMIZED, AnaState::PERSISTENT_LOSS], 0),
        ([AnaState::CHANGE, AnaState::NON_OPTIMIZED], 1),
    ] {
        let mut tcp = two_ports();
        tcp.ana = (1..)
            .zip(states)
            .map(|(port, state)| AnaSetting { port: PortId(port), nsid: None, state })
            .collect();
        let served = Served::with(tcp);
        let device = served.open("keep-alive=30");
        let (mut queue, nsid) = (queue(&device, 4), blocks_of(&device));
        let carried = carried_by(&served, || write_much(&mut queue, nsid));
        assert!(carried[best] > MUCH && carried[1 - best] < MUCH / 8, "{states:?}: {carried:?}");
        let reported: Vec<_> = device.paths().unwrap().iter().map(|path| path.states[0].1).collect();
        assert_eq!(reported, states);
    }
}

#[test]
fn a_change_of_states_moves_the_commands_and_none_fails() {
    let served = Served::new();
    let device = served.open("keep-alive=30");
    let (mut queue, nsid) = (queue(&device, 16), blocks_of(&device));
    for round in 0..12_u8 {
        let best = u16::from(round % 2);
        let others = [AnaState::INACCESSIBLE, AnaState::CHANGE, AnaState::NON_OPTIMIZED];
        // Commands meet the change on their way.
        for tag in 0..16 {
            queue.submit(write(nsid, tag * 8, 8, round), tag).unwrap();
        }
        queue.start().unwrap();
        served.set(best + 1, AnaState::OPTIMIZED);
        served.set(2 - best, others[usize::from(round) % 3]);
        assert!(drain(&mut queue).into_iter().all(|finished| finished.result.is_ok()));
        until(|| {
            let paths = device.paths().unwrap();
            paths[usize::from(best)].states[0].1 == AnaState::OPTIMIZED
                && paths[1 - usize::from(best)].states[0].1 == others[usize::from(round) % 3]
        });
        let carried = carried_by(&served, || write_much(&mut queue, nsid));
        assert!(carried[usize::from(best)] > MUCH, "{round}: {carried:?}");
        assert!(carried[1 - usize::from(best)] < MUCH / 8, "{round}: {carried:?}");
        for slba in 0..64 {
            assert_eq!(byte_at(&mut queue, nsid, slba), slba as u8);
        }
    }
}

#[test]
fn commands_wait_while_no_port_serves_their_namespace() {
    let served = Served::new();
    let device = served.open("keep-alive=30&ctrl-loss-tmo=30");
    let (mut queue, nsid) = (queue(&device, 4), blocks_of(&device));
    served.set(1, AnaState::INACCESSIBLE);
    served.set(2, AnaState::CHANGE);
    queue.submit(write(nsid, 0, 8, 5), 1).unwrap();
    assert!(queue.next_within(Duration::from_millis(100)).unwrap().is_none());
    served.set(2, AnaState::NON_OPTIMIZED);
    next(&mut queue).result.unwrap();
    assert_eq!(byte_at(&mut queue, nsid, 0), 5);
}

#[test]
fn commands_that_no_port_serves_for_too_long_fail_with_the_status_that_they_met() {
    let served = Served::new();
    let device = served.open("keep-alive=30&ctrl-loss-tmo=1");
    let (mut queue, nsid) = (queue(&device, 4), blocks_of(&device));
    served.set(1, AnaState::INACCESSIBLE);
    served.set(2, AnaState::PERSISTENT_LOSS);
    queue.submit(write(nsid, 0, 8, 5), 1).unwrap();
    let failed = next(&mut queue).result.unwrap_err();
    assert!(failed.buffer.is_some(), "the program has its memory again");
    served.set(1, AnaState::OPTIMIZED);
    queue.alone(write(nsid, 0, 8, 6)).unwrap();
}

#[test]
fn keys_and_tls_and_secrets_over_both() {
    use byway::serve::{Nqn, PskHash, TlsKey, TlsKeys, TlsPolicy};
    const HOST: &str = "nqn.2026-11.org.example:host";
    let key = TlsKey::generate(Some(PskHash::Sha256)).unwrap();
    let tls = TlsKeys { hosts: vec![(Nqn::new(HOST).unwrap(), key.clone())], policy: TlsPolicy::Required };
    for idle in ["adaptive", "sleep"] {
        let served = Served::with(two_ports().tls(tls.clone()));
        let options = format!("idle={idle}&hostnqn={HOST}&digests=both&tls-key={}", key.reveal());
        let device = served.open(&options);
        served.set(1, AnaState::NON_OPTIMIZED);
        every_call(&mut device.kv(None).unwrap());
        let (mut queue, nsid) = (queue(&device, 8), blocks_of(&device));
        for round in 0..8 {
            served.relays[round % 2].cut();
            for tag in 0..8 {
                queue.submit(write(nsid, tag * 256, 256, round as u8), tag).unwrap();
                next(&mut queue).result.unwrap();
                queue.submit(read(nsid, tag * 256, 256), 100 + tag).unwrap();
                assert_eq!(byte_of(next(&mut queue)), round as u8);
            }
            served.relays[round % 2].restore();
            stand(&device, 2);
        }
    }
}
