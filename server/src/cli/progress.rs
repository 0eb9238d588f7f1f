//! How far a long work is, for people who wait for it: on a terminal one line that changes, elsewhere a line every ten seconds.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use taffrail_runtime::time;

use super::output::{bytes, duration, shown};

/// Time between two lines where none can be changed.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Time between two changes of a line, which nobody could follow quicker.
const CHANGE_EVERY: Duration = Duration::from_millis(100);

/// To the beginning of the line, and nothing left on it.
const ERASE: &str = "\r\x1b[K";

/// How an amount of what is left is told.
type Unit = fn(i64) -> String;

/// The progress of one work, by what is left of it.
pub(super) struct Progress {
    unit: Unit,
    begun: time::Instant,
    /// What was left at first, when that became known.
    first: Option<(time::Instant, i64)>,
    told: Option<time::Instant>,
    is_terminal: bool,
}

impl Progress {
    /// The work begins, and is counted in bytes.
    pub(super) fn in_bytes() -> Self {
        Self { unit: bytes, begun: time::monotonic(), first: None, told: None, is_terminal: io::stderr().is_terminal() }
    }

    /// The same in replicas.
    pub(super) fn in_replicas() -> Self {
        Self { unit: |count| format!("{count} replicas"), ..Self::in_bytes() }
    }

    /// The same in records, while these go elsewhere than to the terminal on which the progress is told.
    pub(super) fn in_records() -> Option<Self> {
        let can_be_seen = io::stderr().is_terminal() && !io::stdout().is_terminal();
        can_be_seen.then(|| Self { unit: |count| format!("{count} records"), ..Self::in_bytes() })
    }

    /// `what` goes on, and so much is left, if that is known.
    pub(super) fn step(&mut self, what: &str, left: Option<i64>) {
        let now = time::monotonic();
        if self.first.is_none() {
            self.first = left.map(|left| (now, left));
        }
        let every = if self.is_terminal { CHANGE_EVERY } else { LINE_EVERY };
        if self.told.is_some_and(|told| now - told < every) {
            return;
        }
        self.told = Some(now);
        let rate = match (self.first, left) {
            (Some((since, first)), Some(left)) => rate(first - left, now - since),
            _ => None,
        };
        let text = line(self.unit, what, left, rate);
        self.write(&if self.is_terminal { format!("{ERASE}{}", shown(&text)) } else { format!("{}\n", shown(&text)) });
    }

    /// The work is done.
    pub(super) fn end(self) {
        let took = duration(self.begun.elapsed());
        match (self.is_terminal, self.first) {
            (true, _) => self.write(ERASE),
            (false, Some(_)) => self.write(&format!("done in {took}\n")),
            (false, None) => {}
        }
    }

    fn write(&self, text: &str) {
        // Nobody is left to tell if it cannot be written.
        let mut out = io::stderr();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// How much is done a second; `None` as long as there is nothing to go by.
fn rate(done: i64, took: Duration) -> Option<f64> {
    (done > 0 && !took.is_zero()).then(|| done as f64 / took.as_secs_f64())
}

fn line(unit: Unit, what: &str, left: Option<i64>, rate: Option<f64>) -> String {
    let mut text = what.to_owned();
    if let Some(left) = left {
        text += &format!(", {} left", unit(left));
        if let Some(rate) = rate {
            let to_go = Duration::try_from_secs_f64(left as f64 / rate).unwrap_or(Duration::MAX);
            if rate >= 1.0 {
                text += &format!(", {}/s", unit(rate as i64));
            }
            text += &format!(", {} to go", duration(to_go));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_left_how_quick_it_goes_and_how_long_it_takes() {
        let rate = rate(30 << 20, Duration::from_secs(3));
        assert_eq!(
            line(bytes, "2 partitions move", Some(600 << 20), rate),
            "2 partitions move, 600.0 MiB left, 10.0 MiB/s, 1m 0s to go"
        );
        let slow = line(|count| format!("{count} replicas"), "broker 1 is drained", Some(6), Some(0.5));
        assert_eq!(slow, "broker 1 is drained, 6 replicas left, 12s to go");
        assert_eq!(line(bytes, "1 partition moves", Some(1_023), None), "1 partition moves, 1023 B left");
        assert_eq!(line(bytes, "1 partition moves", None, None), "1 partition moves");
    }

    #[test]
    fn nothing_is_foretold_while_there_is_nothing_to_go_by() {
        for (done, took) in [(0, 3), (-5, 3), (7, 0)] {
            assert_eq!(rate(done, Duration::from_secs(took)), None);
        }
    }
}
