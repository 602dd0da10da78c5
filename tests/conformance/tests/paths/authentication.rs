//! A host authenticates at each of several ports, and again on each reconnect.

use byway::ErrorKind;
use byway::serve::{
    AuthSecrets, AuthSuites, DhGroup, Dhchap, DhchapSecret, Nqn, PskHash, TlsKey, TlsKeys, TlsPolicy,
};

use super::*;

const HOST: &str = "nqn.2026-11.org.example:host";

/// Writes, with the ports cut in turn, and reads what was written.
fn goes_on_while_ports_are_cut(served: &Served, options: &str) {
    let device = served.open(options);
    let (mut queue, nsid) = (queue(&device, 32), blocks_of(&device));
    for round in 0..6_u8 {
        let port = usize::from(round % 2);
        for tag in 0..16 {
            queue.submit(write(nsid, tag * 8, 8, round ^ tag as u8), tag).unwrap();
        }
        queue.start().unwrap();
        served.relays[port].cut();
        let finished = drain(&mut queue);
        finished.into_iter().for_each(|finished| drop(finished.result.unwrap()));
        for tag in 0..16 {
            assert_eq!(byte_at(&mut queue, nsid, tag * 8), round ^ tag as u8, "{round} {tag}");
        }
        served.relays[port].restore();
        stand(&device, 2);
    }
}

fn is_kept_out(served: &Served, options: &str) {
    let error = byway::open(&served.uri(options)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[test]
fn a_host_that_authenticates_goes_on_by_the_other_port_and_authenticates_there() {
    let secret = || DhchapSecret::generate(None).unwrap();
    let (host, controller) = (secret(), secret());
    let secrets = AuthSecrets { host: host.clone(), controller: Some(controller.clone()) };
    let suites = AuthSuites { groups: vec![DhGroup::Null], ..AuthSuites::default() };
    let hosts = vec![(Nqn::new(HOST).unwrap(), secrets)];
    let dhchap = Some(Dhchap { hosts, suites, timeout: Dhchap::TIMEOUT });
    let served = Served::with(two_ports().dhchap(dhchap));
    let named = format!("keep-alive=30&hostnqn={HOST}");
    is_kept_out(&served, &named);
    is_kept_out(&served, &format!("{named}&dhchap-secret={}", controller.reveal()));
    let both = format!("dhchap-secret={}&dhchap-ctrl-secret={}", host.reveal(), controller.reveal());
    goes_on_while_ports_are_cut(&served, &format!("{named}&{both}"));
}

#[test]
fn a_host_that_comes_by_tls_goes_on_by_the_other_port_by_tls() {
    let [key, other] = [(); 2].map(|()| TlsKey::generate(Some(PskHash::Sha256)).unwrap());
    let hosts = vec![(Nqn::new(HOST).unwrap(), key.clone())];
    let tls = Some(TlsKeys { hosts, policy: TlsPolicy::Required });
    let served = Served::with(two_ports().tls(tls));
    let named = format!("keep-alive=30&hostnqn={HOST}");
    is_kept_out(&served, &format!("{named}&tls-key={}", other.reveal()));
    goes_on_while_ports_are_cut(&served, &format!("{named}&tls-key={}", key.reveal()));
}
