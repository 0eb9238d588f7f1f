//! When lag is worth a warning: when it is large, lasts, and does not shrink.
//!
//! A group that is behind after a deployment and catches up is at work, not in trouble; so what counts is the whole of a
//! window: never under the objective in it, and at its end no better than at its beginning.

use std::collections::VecDeque;

use crate::crd::consumer_group::LagObjective;
use crate::crd::parts::duration_ms;
use crate::crd::reasons::Reason;

/// How long lag must last where the resource does not say.
const WINDOW_MS: i64 = 5 * 60_000;

/// Parts of a window that are told apart.
const PARTS: i64 = 64;

/// What lag is to stay under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objective {
    /// Records behind that are worth a warning.
    pub warn: i64,
    /// Records behind that are worth a call.
    pub critical: Option<i64>,
    /// How long it must last, in milliseconds.
    pub window_ms: i64,
}

impl Objective {
    /// What a resource says; `None` if it sets no limit.
    ///
    /// # Errors
    /// A window that is no length of time, or a warning above the alarm.
    pub fn read(raw: &LagObjective) -> Result<Option<Self>, String> {
        let window_ms = match &raw.window {
            None => WINDOW_MS,
            Some(text) => {
                duration_ms(text).ok_or_else(|| format!("window: {text} is no length of time, such as 5m"))?
            }
        };
        if let (Some(warn), Some(critical)) = (raw.warn, raw.critical)
            && warn > critical
        {
            return Err(format!("warn: {warn} must be at or under critical, {critical}"));
        }
        let limits = raw.warn.or(raw.critical).map(|warn| Self { warn, critical: raw.critical, window_ms });
        Ok(limits)
    }
}

/// Lag that is worth a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lagging {
    /// How bad it is.
    pub reason: Reason,
    /// The same in words.
    pub message: String,
}

/// Lag in one part of a window.
#[derive(Clone, Copy, Debug)]
struct Part {
    since_ms: i64,
    least: i64,
    last: i64,
}

/// The lag of one group over time.
#[derive(Clone, Debug, Default)]
pub struct LagWatch {
    parts: VecDeque<Part>,
}

impl LagWatch {
    /// Notes the lag at a moment, and judges what is known of the window that ends there.
    pub fn note(&mut self, objective: Objective, now_ms: i64, lag: i64) -> Option<Lagging> {
        match self.parts.back_mut() {
            Some(part) if now_ms.saturating_sub(part.since_ms) < objective.window_ms / PARTS => {
                (part.least, part.last) = (part.least.min(lag), lag);
            }
            _ => self.parts.push_back(Part { since_ms: now_ms, least: lag, last: lag }),
        }
        let begin_ms = now_ms.saturating_sub(objective.window_ms);
        // The first part is the one that the window begins in.
        while self.parts.get(1).is_some_and(|second| second.since_ms <= begin_ms) {
            self.parts.pop_front();
        }
        let first = self.parts.front().filter(|first| first.since_ms <= begin_ms)?;
        let least = self.parts.iter().map(|part| part.least).min()?;
        if least < objective.warn || lag < first.last {
            return None;
        }
        let is_critical = objective.critical.is_some_and(|critical| lag >= critical);
        let (reason, limit) = match objective.critical.filter(|_| is_critical) {
            Some(critical) => (Reason::LagCritical, critical),
            None => (Reason::LagHigh, objective.warn),
        };
        let seconds = objective.window_ms / 1000;
        let message = format!("{lag} records behind, over {limit}, and no fewer than {seconds} s ago");
        Some(Lagging { reason, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTIVE: Objective = Objective { warn: 100, critical: Some(1000), window_ms: 60_000 };

    /// What is said at the end of lags that are seen every 20 s.
    fn judged(lags: &[i64]) -> Option<Reason> {
        let mut watch = LagWatch::default();
        let mut said = None;
        for (step, lag) in (0..).zip(lags) {
            said = watch.note(OBJECTIVE, step * 20_000, *lag);
        }
        said.map(|said| said.reason)
    }

    #[test]
    fn lag_is_trouble_when_it_is_large_lasts_and_does_not_shrink() {
        for (lags, expected) in [
            (&[500, 500, 500][..], None),
            (&[500, 500, 500, 500], Some(Reason::LagHigh)),
            (&[500, 600, 700, 800], Some(Reason::LagHigh)),
            (&[500, 600, 700, 1800], Some(Reason::LagCritical)),
            (&[900, 800, 700, 600], None),
            (&[500, 99, 700, 800], None),
            (&[500, 99, 700, 800, 800, 800], Some(Reason::LagHigh)),
            (&[50, 50, 50, 50], None),
            (&[500, 500, 500, 500, 400], None),
        ] {
            assert_eq!(judged(lags), expected, "{lags:?}");
        }
    }

    #[test]
    fn what_is_kept_of_a_long_window_is_bounded() {
        let mut watch = LagWatch::default();
        let objective = Objective { window_ms: 640_000, ..OBJECTIVE };
        for second in 0..10_000 {
            watch.note(objective, second * 1000, 500);
        }
        assert!(watch.parts.len() <= 66, "{}", watch.parts.len());
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_watch() {
        assert_eq!(Objective::read(&LagObjective::default()), Ok(None));
        let raw = LagObjective { critical: Some(9), ..LagObjective::default() };
        let expected = Objective { warn: 9, critical: Some(9), window_ms: WINDOW_MS };
        assert_eq!(Objective::read(&raw), Ok(Some(expected)));
    }
}
