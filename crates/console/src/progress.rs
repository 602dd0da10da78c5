//! Bars for long work on standard error, where that is a terminal.
//!
//! Work has phases, each with a name and a count of steps. The position never goes back within a phase, reaches the end of a
//! phase exactly when the next one begins, and never the end of all before the last step.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use crate::visible;

/// A bar for long work; nothing at all when standard error is no terminal.
pub struct Progress {
    bar: ProgressBar,
    form: Form,
    state: Mutex<State>,
}

/// What a bar counts, and so how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Steps,
    Bytes,
    /// Nothing: a line of text.
    Line,
}

impl Form {
    const fn template(self, has_total: bool) -> &'static str {
        match (self, has_total) {
            (Self::Steps, true) => "{msg:28} {bar:30} {human_pos}/{human_len}  {eta} left",
            (Self::Bytes, true) => "{msg:12} {bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left",
            (Self::Bytes, false) => "{msg:12} {bytes}  {bytes_per_sec}",
            // A bar of no steps would be drawn full.
            (Self::Steps, false) | (Self::Line, _) => "{msg}",
        }
    }
}

/// How far the work is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// The phase, if its steps are counted by [`Progress::set`].
    what: String,
    /// Steps of the phases before.
    before: u64,
    /// Steps of the phase that are done.
    done: u64,
    /// Steps of the phase.
    steps: u64,
    /// Steps of all phases, 0 where they are not known.
    total: u64,
}

impl State {
    const fn of(total: u64, steps: u64) -> Self {
        Self { what: String::new(), before: 0, done: 0, steps, total }
    }

    const fn position(&self) -> u64 {
        self.before + self.done
    }

    /// The next phase begins: the one before is over, however many of its steps were counted.
    fn begin(&mut self, steps: u64) {
        self.before += self.steps;
        (self.done, self.steps) = (0, steps);
        self.total = self.total.max(self.before + steps);
    }

    fn advance(&mut self, steps: u64) {
        self.done += steps;
        if self.total > 0 {
            self.done = self.done.min(self.steps);
        }
    }

    /// Sets a phase to `done` of `total` steps; another name begins another phase.
    fn set(&mut self, what: &str, done: u64, total: u64) {
        if self.what != what {
            *self = Self { what: what.to_owned(), ..Self::default() };
        }
        (self.steps, self.total) = (total, total);
        self.done = self.done.max(done).min(total);
    }
}

impl Progress {
    /// A bar for `total` steps of a named work of one phase.
    pub fn new(what: &str, total: u64) -> Self {
        Self::with(what, Form::Steps, State::of(total, total))
    }

    /// A bar for work of several phases, which [`begin`](Self::begin) one by one: `total` steps in all, 0 if that is set
    /// later.
    pub fn of_phases(what: &str, total: u64) -> Self {
        Self::with(what, Form::Steps, State::of(total, 0))
    }

    /// A bar for `total` bytes of a named work; without a total, what was done so far.
    pub fn bytes(what: &str, total: Option<u64>) -> Self {
        let total = total.unwrap_or(0);
        Self::with(what, Form::Bytes, State { what: what.to_owned(), ..State::of(total, total) })
    }

    /// A line of text for work with an unknown number of steps.
    pub fn line(what: &str) -> Self {
        Self::with(what, Form::Line, State::default())
    }

    fn with(what: &str, form: Form, state: State) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(state.total), target);
        let progress = Self { bar, form, state: Mutex::new(state) };
        progress.set_form(progress.state.lock().total > 0);
        progress.say(what);
        progress
    }

    fn set_form(&self, has_total: bool) {
        if let Ok(style) = ProgressStyle::with_template(self.form.template(has_total)) {
            self.bar.set_style(style);
        }
    }

    /// Changes the state, and has it drawn.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        let had_total = state.total > 0;
        change(&mut state);
        if had_total != (state.total > 0) {
            self.set_form(state.total > 0);
        }
        // The length first: a position beyond it would be drawn as a full bar.
        if self.bar.length() != Some(state.total) {
            self.bar.set_length(state.total);
        }
        self.bar.set_position(state.position());
    }

    /// What is being done now.
    pub fn say(&self, what: &str) {
        self.bar.set_message(visible::line(what).into_owned());
    }

    /// So many steps there are in all phases.
    pub fn set_total(&self, total: u64) {
        self.change(|state| state.total = total);
    }

    /// Begins the next phase, of `steps` steps.
    pub fn begin(&self, what: &str, steps: u64) {
        self.say(what);
        self.change(|state| state.begin(steps));
        // Shows also a phase shorter than the interval between two frames.
        self.bar.force_draw();
    }

    /// Reports that `done` of `total` steps of a named phase are done.
    pub fn set(&self, what: &str, done: u64, total: u64) {
        self.say(what);
        self.change(|state| state.set(what, done, total));
    }

    /// Some steps more are done.
    pub fn advance(&self, steps: u64) {
        self.change(|state| state.advance(steps));
    }

    /// Steps that are done, and steps there are.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.position(), state.total)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up_and_never_reach_beyond_their_own_steps() {
        let progress = Progress::of_phases("work", 30);
        assert_eq!(progress.counts(), (0, 30));
        progress.begin("first", 10);
        progress.advance(4);
        assert_eq!(progress.counts(), (4, 30));
        // More than was foreseen stays within the phase; less is caught up with when the next one begins.
        progress.advance(40);
        assert_eq!(progress.counts(), (10, 30));
        progress.begin("second", 20);
        assert_eq!(progress.counts(), (10, 30));
        progress.advance(3);
        progress.begin("third", 0);
        assert_eq!(progress.counts(), (30, 30));
    }

    #[test]
    fn a_phase_that_is_set_goes_forward_alone_and_another_name_begins_anew() {
        let progress = Progress::new("copying", 0);
        let counts = [("copying", 5, 10), ("copying", 3, 10), ("copying", 12, 10), ("syncing", 1, 4)];
        let seen = counts.map(|(what, done, total)| {
            progress.set(what, done, total);
            progress.counts()
        });
        assert_eq!(seen, [(5, 10), (5, 10), (10, 10), (1, 4)]);
    }

    #[test]
    fn work_without_a_total_is_drawn_without_a_bar() {
        assert!(!Form::Steps.template(false).contains("{bar"));
        assert!(!Form::Bytes.template(false).contains("{bar"));
        let progress = Progress::bytes("copy", None);
        progress.advance(7);
        assert_eq!(progress.counts().0, 7);
    }
}
