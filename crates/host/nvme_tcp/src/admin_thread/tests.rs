//! Tests of the admin thread without a controller.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::association::tests::unreachable;

/// How often this thread has slept.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
    line.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn admin_thread_sleeps_through_its_pause_while_the_controller_is_away() {
    let mut thread = AdminThread::awaiting(unreachable(), "away".into()).unwrap();
    let past = Instant::now();
    thread.beyond_grant = Some(past);
    thread.keep_alive = KeepAlive::new(Duration::from_nanos(1));
    thread.keep_alive.start(true);
    thread.part("away");
    let before = sleeps();
    thread.pause(Duration::from_millis(200));
    assert!(past.elapsed() >= Duration::from_millis(200));
    assert!(sleeps() - before < 10, "it slept {} times", sleeps() - before);
    assert_eq!(thread.beyond_grant, Some(past));
}

#[test]
fn aborts_that_wait_end_when_the_controller_is_given_up_or_closed() {
    for end in [|thread: AdminThread| thread.give_up("away"), AdminThread::close] {
        let association = unreachable();
        let mut thread = AdminThread::awaiting(Arc::clone(&association), "away".into()).unwrap();
        let abort = association.abort(&association.registration(), 1, association.generation());
        thread.take_requests();
        assert!(!abort.is_over());
        association.end();
        end(thread);
        assert!(abort.is_over());
    }
}
