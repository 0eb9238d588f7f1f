//! How far a long work is, for people who wait for it: on a terminal one line that changes, elsewhere a line every ten seconds.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use taffrail_runtime::time;

use super::output::{bytes, duration, shown};

/// Time between two lines where none can be changed.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// To the beginning of the line, and nothing left on it.
const ERASE: &str = "\r\x1b[K";

/// The progress of one work, in bytes that are left.
pub(super) struct Progress {
    begun: time::Instant,
    /// What was left at first, when that became known.
    first: Option<(time::Instant, i64)>,
    told: Option<time::Instant>,
    is_terminal: bool,
}

impl Progress {
    /// The work begins.
    pub(super) fn start() -> Self {
        Self { begun: time::monotonic(), first: None, told: None, is_terminal: io::stderr().is_terminal() }
    }

    /// `what` goes on, and so many bytes are left, if that is known.
    pub(super) fn step(&mut self, what: &str, left: Option<i64>) {
        let now = time::monotonic();
        if self.first.is_none() {
            self.first = left.map(|left| (now, left));
        }
        let rate = match (self.first, left) {
            (Some((since, first)), Some(left)) => rate(first - left, now - since),
            _ => None,
        };
        let text = line(what, left, rate);
        if self.is_terminal {
            self.write(&format!("{ERASE}{}", shown(&text)));
        } else if self.told.is_none_or(|told| now - told >= LINE_EVERY) {
            self.write(&format!("{}\n", shown(&text)));
            self.told = Some(now);
        }
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

/// Bytes a second; `None` as long as there is nothing to go by.
fn rate(done: i64, took: Duration) -> Option<f64> {
    (done > 0 && !took.is_zero()).then(|| done as f64 / took.as_secs_f64())
}

fn line(what: &str, left: Option<i64>, rate: Option<f64>) -> String {
    let mut text = what.to_owned();
    if let Some(left) = left {
        text += &format!(", {} left", bytes(left));
        if let Some(rate) = rate {
            let to_go = Duration::try_from_secs_f64(left as f64 / rate).unwrap_or(Duration::MAX);
            text += &format!(", {}/s, {} to go", bytes(rate as i64), duration(to_go));
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
            line("2 partitions move", Some(600 << 20), rate),
            "2 partitions move, 600.0 MiB left, 10.0 MiB/s, 1m 0s to go"
        );
        assert_eq!(line("1 partition moves", Some(1_023), None), "1 partition moves, 1023 B left");
        assert_eq!(line("1 partition moves", None, None), "1 partition moves");
    }

    #[test]
    fn nothing_is_foretold_while_there_is_nothing_to_go_by() {
        for (done, took) in [(0, 3), (-5, 3), (7, 0)] {
            assert_eq!(rate(done, Duration::from_secs(took)), None);
        }
    }
}
