//! Events of the `tracing` crate: what a log shows of a controller that is lost.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once};
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;

/// Events of all tests of this process.
static EVENTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps every event in [`EVENTS`]: its level, then its fields.
struct Recorder;

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("byway_tcp_initiator")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        EVENTS.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Recorder).unwrap());
}

/// Waits until the log has these events of one portal in this order, others between them; returns them.
fn logged<const N: usize>(controller: &TestController, wanted: [&str; N]) -> [String; N] {
    let portal = format!("portal={}", controller.address);
    let begun = Instant::now();
    loop {
        let events = EVENTS.lock().unwrap().clone();
        let mut of_it = events.iter().filter(|event| event.split(' ').any(|field| field == portal));
        let found = wanted.map(|wanted| of_it.find(|event| event.contains(wanted)));
        if found.iter().all(Option::is_some) {
            return found.map(|event| event.unwrap().clone());
        }
        assert!(begun.elapsed() < LONG, "{wanted:?}: {events:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn log_shows_a_connection_its_loss_the_reconnect_and_the_end() {
    record();
    let controller = TestController::start(Habits::default());
    let device = open(&controller, TcpOptions::default());
    let mut queue = queue(&device, 4);
    queue.execute(read(0, 1)).unwrap();
    controller.restart(Habits::default());
    queue.execute(read(0, 1)).unwrap();
    drop((queue, device));
    let [first, queue, lost, again, .., closed] = logged(
        &controller,
        [
            "controller connected",
            "queue connected",
            "controller lost",
            "queue connected",
            "controller reconnected",
            "controller closed",
        ],
    );
    for (event, wanted) in [
        (first, "DEBUG"),
        (queue, "qid=1"),
        (lost.clone(), "WARN"),
        (lost, "why="),
        (again, "qid=1"),
        (closed, "DEBUG"),
    ] {
        assert!(event.contains(wanted), "{event}");
    }
}

#[test]
fn log_shows_failed_reconnects_until_the_controller_is_given_up() {
    record();
    let controller = TestController::start(Habits::default());
    let controller_loss = Duration::from_millis(100);
    let device = open(&controller, TcpOptions::default().controller_loss(controller_loss));
    let mut queue = queue(&device, 4);
    controller.vanish();
    assert_eq!(queue.execute(read(0, 1)).unwrap_err().kind(), ErrorKind::DeviceLost);
    let [.., given_up] = logged(&controller, ["controller lost", "reconnect failed", "controller given up"]);
    assert!(given_up.contains("WARN") && given_up.contains("why="), "{given_up}");
}
