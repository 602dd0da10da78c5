//! Devices that a server serves: a child that drops the server, or a host, ends neither.

use std::time::Duration;

use byway::serve::{ServeOptions, TcpOptions};
use byway::{AdminCommand, Backend, Device};
use byway_conformance::served::Serving;
use byway_spec::base::log::LogPage;

use crate::child::{fork, is_refused};

/// A child drops its copies of a server and of a device that is opened over it; the parent goes on.
fn goes_on(serving: Serving, device: Device) {
    let mut both = Some((serving, device));
    let mut kv = both.as_ref().unwrap().1.kv(None).unwrap();
    kv.put(b"before", b"1").unwrap();
    let child = fork(|| {
        let refused = is_refused(kv.get(b"before")) && is_refused(both.as_ref().unwrap().1.namespaces());
        let (serving, device) = both.take().unwrap();
        drop(device);
        // Its thread is the parent's: joining it is what no child can.
        std::mem::forget(serving);
        refused
    });
    kv.put(b"meanwhile", b"2").unwrap();
    assert!(child.was_right());
    kv.put(b"after", b"3").unwrap();
    let (serving, device) = both.take().unwrap();
    assert_eq!(kv.get(b"before").unwrap().unwrap(), b"1");
    assert_eq!(device.namespaces().unwrap().len(), 2);
    drop((kv, device));
    drop(serving);
}

#[test]
fn host_over_tcp_goes_on_after_a_child_dropped_its_copy() {
    let tcp = TcpOptions::at("127.0.0.1:0".parse().unwrap());
    let serving = Serving::start_with("ram:64M", &ServeOptions::over_tcp(tcp));
    let device = serving.open("").unwrap();
    goes_on(serving, device);
}

#[test]
fn host_over_several_paths_goes_on_after_a_child_dropped_its_copy() {
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let tcp = TcpOptions::at_each([anywhere; 2]);
    let serving = Serving::start_with("ram:64M", &ServeOptions::over_tcp(tcp));
    let device = byway::open(&serving.uri_by(serving.tcp_addresses())).unwrap();
    goes_on(serving, device);
}

#[test]
fn host_over_vfio_user_goes_on_after_a_child_dropped_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let serving = Serving::start("ram:64M", &socket);
    let device = byway::open(&format!("vfio-user:{}", socket.display())).unwrap();
    goes_on(serving, device);
    assert!(!socket.exists(), "the server removes its socket, and not the child");
}

#[test]
fn admin_queue_over_vfio_user_is_woken_after_a_child_dropped_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _serving = Serving::start("ram:64M", &socket);
    let device = byway::open(&format!("vfio-user:{}", socket.display())).unwrap();
    let mut queue = Some(device.admin_queue().unwrap());
    queue.as_mut().unwrap().event().unwrap();
    let child = fork(|| {
        drop(queue.take());
        true
    });
    assert!(child.was_right());
    let mut queue = queue.take().unwrap();
    while queue.next_finished().unwrap().is_some() {}
    let (log, into) = (LogPage::SMART.0, device.buffer(512).unwrap());
    let command =
        AdminCommand::GetLog { log, csi: 0, nsid: None, retain_event: false, offset_bytes: 0, into };
    queue.submit(command, 1).unwrap();
    assert!(byway_sys::wait_readable(queue.event().unwrap(), Duration::from_secs(20)).unwrap());
}

#[test]
fn server_dropped_by_a_child_goes_on_listening() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let options =
        ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap())).vfio_user(socket.clone());
    let mut served = Some(byway::serve::serve("ram:64M", &options).unwrap());
    let child = fork(|| {
        drop(served.take());
        true
    });
    assert!(child.was_right());
    assert!(socket.exists());
    let served = served.take().unwrap();
    let (stop, address, nqn) = (served.stopper(), served.tcp_address().unwrap(), served.nqn().to_owned());
    let thread = std::thread::spawn(move || served.run(|_| {}));
    let device = byway::open(&format!("tcp://{address}/{nqn}")).unwrap();
    device.kv(None).unwrap().put(b"key", b"value").unwrap();
    drop(device);
    stop.stop();
    thread.join().unwrap().unwrap();
}
