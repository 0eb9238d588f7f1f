//! Places in partitions as people write them: `start`, `end`, `1200`, `end-10`, `@-15m`, `@2026-01-31T12:00:00Z`.

use std::collections::BTreeMap;
use std::str::FromStr;

use taffrail_client::kafka::{KafkaClient, KafkaError, OffsetAt, PartitionKey};

/// What may be written.
pub(crate) const GRAMMAR: &str = "start, end, an offset, start+COUNT, end-COUNT, @TIME (RFC 3339, or milliseconds since 1970), or @-AGE \
     such as @-15m (s, m, h, d)";

/// What a place is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The first offset.
    Start,
    /// Behind the last record.
    End,
    /// Where a group is.
    Current,
    /// The first record of this time or later, in milliseconds since 1970.
    Time(i64),
    /// The same, so many milliseconds ago.
    Ago(i64),
    /// Offset 0, also where it is not there any more.
    Zero,
}

/// A place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    base: Base,
    /// How far behind it.
    shift: i64,
}

/// Why a text is no place.
#[derive(Debug, thiserror::Error)]
#[error("expected {}", GRAMMAR)]
pub(crate) struct NoPosition;

impl Position {
    /// The first offset.
    pub(crate) const START: Self = Self { base: Base::Start, shift: 0 };

    /// Whether it is counted from where a group is.
    pub(crate) fn is_current(self) -> bool {
        self.base == Base::Current
    }

    /// The offset in each of `partitions`, and where each begins and ends, within which it lies; `current` is where a
    /// group is, and `now_ms` the time.
    ///
    /// # Errors
    /// When a leader does not tell.
    pub(crate) async fn resolve(
        self,
        client: &mut KafkaClient,
        partitions: &[PartitionKey],
        current: &BTreeMap<PartitionKey, i64>,
        now_ms: i64,
    ) -> Result<Vec<Place>, KafkaError> {
        let starts = client.offsets(partitions, OffsetAt::Start).await?;
        let ends = client.offsets(partitions, OffsetAt::End).await?;
        let at = |offsets: &BTreeMap<PartitionKey, i64>, key: &PartitionKey| offsets.get(key).copied().unwrap_or(0);
        let times = match self.base {
            Base::Time(time_ms) => client.offsets(partitions, OffsetAt::Time(time_ms)).await?,
            Base::Ago(ago_ms) => client.offsets(partitions, OffsetAt::Time(now_ms - ago_ms)).await?,
            _ => BTreeMap::new(),
        };
        let place = |key: &PartitionKey| {
            let (start, end) = (at(&starts, key), at(&ends, key));
            let base = match self.base {
                Base::Start => start,
                Base::End => end,
                Base::Current => current.get(key).copied().unwrap_or(end),
                Base::Time(_) | Base::Ago(_) => at(&times, key),
                Base::Zero => 0,
            };
            let offset = base.saturating_add(self.shift).clamp(start, end.max(start));
            Place { partition: key.clone(), start, end, offset }
        };
        Ok(partitions.iter().map(place).collect())
    }
}

/// A place in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) partition: PartitionKey,
    /// Where the partition begins.
    pub(crate) start: i64,
    /// Where it ends.
    pub(crate) end: i64,
    /// The place, between these two.
    pub(crate) offset: i64,
}

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        if let Some(time) = text.strip_prefix('@') {
            let base = if let Some(age) = time.strip_prefix('-') {
                Base::Ago(age_ms(age).ok_or(NoPosition)?)
            } else if let Ok(time_ms) = time.parse() {
                Base::Time(time_ms)
            } else {
                Base::Time(time.parse::<jiff::Timestamp>().map_err(|_| NoPosition)?.as_millisecond())
            };
            return Ok(Self { base, shift: 0 });
        }
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return Ok(Self { base: Base::Zero, shift: text.parse().map_err(|_| NoPosition)? });
        }
        let (word, shift) = match text.find(['+', '-']) {
            Some(sign) => text.split_at(sign),
            None => (text, "+0"),
        };
        let base = match word {
            "start" => Base::Start,
            "end" => Base::End,
            "current" => Base::Current,
            _ => return Err(NoPosition),
        };
        Ok(Self { base, shift: shift.parse().map_err(|_| NoPosition)? })
    }
}

/// An age such as `15m`, in milliseconds.
fn age_ms(text: &str) -> Option<i64> {
    let (count, unit_ms) = match text.char_indices().next_back()? {
        (at, 's') => (&text[..at], 1_000),
        (at, 'm') => (&text[..at], 60_000),
        (at, 'h') => (&text[..at], 3_600_000),
        (at, 'd') => (&text[..at], 86_400_000),
        _ => return None,
    };
    count.parse::<u32>().ok().and_then(|count| i64::from(count).checked_mul(unit_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_people_write_them() {
        let cases = [
            ("start", Some((Base::Start, 0))),
            ("end", Some((Base::End, 0))),
            ("end-10", Some((Base::End, -10))),
            ("start+3", Some((Base::Start, 3))),
            ("current-1", Some((Base::Current, -1))),
            ("1200", Some((Base::Zero, 1_200))),
            ("@1700000000000", Some((Base::Time(1_700_000_000_000), 0))),
            ("@2026-01-31T12:00:00Z", Some((Base::Time(1_769_860_800_000), 0))),
            ("@-15m", Some((Base::Ago(900_000), 0))),
            ("@-2d", Some((Base::Ago(172_800_000), 0))),
            ("", None),
            ("-10", None),
            ("end-", None),
            ("ende", None),
            ("@-15", None),
            ("@-m", None),
            ("@", None),
            ("12x", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in cases {
            let position = text.parse::<Position>().ok();
            assert_eq!(position, expected.map(|(base, shift)| Position { base, shift }), "{text}");
        }
    }
}
