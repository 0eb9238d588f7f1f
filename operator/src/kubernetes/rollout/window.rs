//! Windows: when pods may be taken down, by the five fields of cron, in UTC.

use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::civil::DateTime;
use k8s_openapi::jiff::tz::TimeZone;

use crate::crd::cluster::{Reason, Window as RawWindow};
use crate::crd::parts::duration_ms;

/// Milliseconds of a minute, which is as finely as cron tells times apart.
const MINUTE_MS: i64 = 60_000;

/// Longest window, in milliseconds: one that is longer is hardly ever closed.
const WINDOW_MS_MAX: i64 = 31 * 24 * 60 * MINUTE_MS;

/// How far ahead the next opening is looked for: there is a 29th of February in any eight years.
const AHEAD_MS: i64 = 8 * 366 * 24 * 60 * MINUTE_MS;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// One field of cron: the numbers that it lets pass, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Whether it says anything: of days of the month and of the week one is enough if both do.
    is_any: bool,
}

impl Field {
    /// Reads what the field `name` says, of numbers from `least` to `most`; `words` stand for them from `least` on.
    fn read(name: &str, text: &str, (least, most): (u32, u32), words: &[&str]) -> Result<Self, String> {
        let wrong = || format!("{text} is no {name} of cron, which are {least} to {most}");
        let number = |text: &str| {
            let word = words.iter().position(|word| text.eq_ignore_ascii_case(word));
            let word = word.and_then(|index| u32::try_from(index).ok()).map(|index| index + least);
            word.or_else(|| text.parse().ok()).filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
        };
        let mut bits = 0_u64;
        for part in text.split(',') {
            let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
            let step = step.map_or(Ok(1_u32), |step| step.parse().ok().filter(|step| *step > 0).ok_or_else(wrong))?;
            let (from, to) = match (range.split_once('-'), step) {
                _ if range == "*" => (least, most),
                (Some((from, to)), _) => (number(from)?, number(to)?),
                (None, 1) => (number(range)?, number(range)?),
                // From there on.
                (None, _) => (number(range)?, most),
            };
            if from > to {
                return Err(wrong());
            }
            (from..=to).step_by(usize::try_from(step).unwrap_or(usize::MAX)).for_each(|number| bits |= 1 << number);
        }
        Ok(Self { bits, is_any: text.starts_with('*') })
    }

    fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits & (1 << number) != 0)
    }
}

/// Five fields of cron.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cron {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl Cron {
    fn read(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!("{text} has {} fields, not the five of cron", fields.len()));
        };
        let mut weekday = Field::read("day of the week", weekday, (0, 7), &WEEKDAYS)?;
        // Sunday has two numbers.
        weekday.bits |= (weekday.bits >> 7) & 1;
        Ok(Self {
            minute: Field::read("minute", minute, (0, 59), &[])?,
            hour: Field::read("hour", hour, (0, 23), &[])?,
            day: Field::read("day of the month", day, (1, 31), &[])?,
            month: Field::read("month", month, (1, 12), &MONTHS)?,
            weekday,
        })
    }

    fn has_day(&self, at: DateTime) -> bool {
        let (day, weekday) = (self.day.has(at.day()), self.weekday.has(at.weekday().to_sunday_zero_offset()));
        let is_day = if self.day.is_any || self.weekday.is_any { day && weekday } else { day || weekday };
        is_day && self.month.has(at.month())
    }

    /// The first minute that matches, from the one of `from_ms` on and before `end_ms`, in milliseconds since 1970.
    fn next(&self, from_ms: i64, end_ms: i64) -> Option<i64> {
        let (hour_ms, day_ms) = (60 * MINUTE_MS, 24 * 60 * MINUTE_MS);
        let start_of = |at_ms: i64, unit_ms: i64| at_ms - at_ms.rem_euclid(unit_ms);
        let mut at_ms = start_of(from_ms, MINUTE_MS);
        while at_ms < end_ms {
            let at = TimeZone::UTC.to_datetime(Timestamp::from_millisecond(at_ms).ok()?);
            at_ms = match () {
                () if !self.has_day(at) => start_of(at_ms, day_ms) + day_ms,
                () if !self.hour.has(at.hour()) => start_of(at_ms, hour_ms) + hour_ms,
                () if !self.minute.has(at.minute()) => at_ms + MINUTE_MS,
                () => return Some(at_ms),
            };
        }
        None
    }
}

/// When disruption is allowed, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    cron: Cron,
    duration_ms: i64,
    /// For which reasons; all if empty.
    reasons: Vec<Reason>,
}

impl Window {
    /// What a Cluster says.
    ///
    /// # Errors
    /// What is no cron, or no length of time.
    pub fn read(raw: &RawWindow) -> Result<Self, String> {
        let duration_ms = duration_ms(&raw.duration).filter(|ms| *ms <= WINDOW_MS_MAX);
        let duration_ms = duration_ms.ok_or_else(|| format!("{} is no length of at most 31 days", raw.duration))?;
        Ok(Self { cron: Cron::read(&raw.cron)?, duration_ms, reasons: raw.reasons.clone() })
    }

    /// Whether it is about a reason.
    pub fn is_about(&self, reason: Reason) -> bool {
        self.reasons.is_empty() || self.reasons.contains(&reason)
    }

    /// Whether it is open.
    pub fn is_open(&self, now_ms: i64) -> bool {
        // It opened within its duration, the present minute included.
        let first_ms = now_ms - self.duration_ms + MINUTE_MS;
        self.cron.next(first_ms.min(now_ms), now_ms + 1).is_some()
    }

    /// When it opens next, in milliseconds since 1970; `None` if it never does.
    pub fn opens_ms(&self, now_ms: i64) -> Option<i64> {
        self.cron.next(now_ms + MINUTE_MS, now_ms + AHEAD_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(cron: &str, duration: &str) -> Result<Window, String> {
        Window::read(&RawWindow { cron: cron.to_owned(), duration: duration.to_owned(), reasons: Vec::new() })
    }

    fn ms(at: &str) -> i64 {
        at.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn a_window_is_open_for_its_duration_from_each_time_that_cron_names() {
        // 2026-11-30 is a Monday.
        for (cron, duration, at, expected) in [
            ("0 2 * * *", "2h", "2026-11-30T01:59:59Z", false),
            ("0 2 * * *", "2h", "2026-11-30T02:00:00Z", true),
            ("0 2 * * *", "2h", "2026-11-30T03:59:59Z", true),
            ("0 2 * * *", "2h", "2026-11-30T04:00:00Z", false),
            ("30 23 * * sun", "1h30m", "2026-11-30T00:59:00Z", true),
            ("30 23 * * 7", "1h30m", "2026-11-30T01:00:00Z", false),
            ("0 0 * * MON-FRI", "24h", "2026-11-30T12:00:00Z", true),
            ("0 0 * * 1-5", "24h", "2026-11-29T12:00:00Z", false),
            ("*/15 * * * *", "5m", "2026-11-30T10:19:00Z", true),
            ("*/15 * * * *", "5m", "2026-11-30T10:20:00Z", false),
            ("0 3 1 jan,dec *", "1h", "2026-12-01T03:30:00Z", true),
            ("0 3 13 * fri", "1h", "2026-12-13T03:30:00Z", true),
            ("0 3 13 * fri", "1h", "2026-12-04T03:30:00Z", true),
            ("0 3 13 * fri", "1h", "2026-12-05T03:30:00Z", false),
        ] {
            assert_eq!(window(cron, duration).unwrap().is_open(ms(at)), expected, "{cron} for {duration} at {at}");
        }
    }

    #[test]
    fn the_next_opening_is_known_and_one_that_never_comes_is_not_waited_for() {
        let opens = |cron: &str| window(cron, "1h").unwrap().opens_ms(ms("2026-11-30T02:00:30Z"));
        assert_eq!(opens("0 2 * * *"), Some(ms("2026-12-01T02:00:00Z")));
        assert_eq!(opens("1 2 * * *"), Some(ms("2026-11-30T02:01:00Z")));
        assert_eq!(opens("0 0 29 2 *"), Some(ms("2028-02-29T00:00:00Z")));
        assert_eq!(opens("0 0 31 2 *"), None);
    }

    #[test]
    fn what_is_no_cron_is_refused() {
        for (cron, duration, expected) in [
            ("0 2 * *", "1h", "has 4 fields"),
            ("60 2 * * *", "1h", "60 is no minute of cron"),
            ("0 5-2 * * *", "1h", "5-2 is no hour of cron"),
            ("0 2 */0 * *", "1h", "*/0 is no day of the month of cron"),
            ("0 2 * 13 *", "1h", "13 is no month of cron"),
            ("0 2 * * fry", "1h", "fry is no day of the week of cron"),
            ("0 2 * * *", "0h", "0h is no length"),
            ("0 2 * * *", "800h", "800h is no length"),
        ] {
            let said = window(cron, duration).unwrap_err();
            assert!(said.contains(expected), "{cron}: {said}");
        }
    }
}
