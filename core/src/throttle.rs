//! How many bytes a second may go on average: the quota of replicas that are being made (KIP-73).
//!
//! A bucket of bytes that fills at the rate. What goes is taken out afterwards, when its size is known, and may leave the
//! bucket in debt; nothing more goes until that is paid off. Kafka averages over eleven samples of a second instead; the
//! long run is the same, and a bucket can say when to come again.

/// The rate that stands for none (Kafka's default).
pub const UNLIMITED: i64 = i64::MAX;

/// After a rest as much goes at once as the rate gives in this time. Longer than a fetch of a follower waits, so that the waits
/// in between cost nothing of the rate.
const BURST_MS: i64 = 1_000;

/// Parts of a byte in which the bucket is measured, so that a millisecond of the lowest rate counts.
const PARTS: i128 = 1_000;

/// One rate and what is left of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttle {
    rate_bytes: i64,
    /// Thousandths of a byte that may go; negative = debt.
    left: i128,
    /// When that was.
    at_ms: i64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { rate_bytes: UNLIMITED, left: 0, at_ms: 0 }
    }
}

impl Throttle {
    /// Sets the rate in bytes a second; [`UNLIMITED`] = none, 0 = nothing goes. A debt stays, and is paid at the new rate.
    pub fn set_rate(&mut self, rate_bytes: i64, now_ms: i64) {
        if rate_bytes == self.rate_bytes {
            return;
        }
        self.fill(now_ms);
        if self.rate_bytes == UNLIMITED {
            // It begins with a full bucket, as after a rest.
            self.left = i128::MAX;
        }
        self.rate_bytes = rate_bytes.max(0);
        self.left = self.left.min(self.full());
    }

    /// Whether anything is limited.
    pub fn is_limited(&self) -> bool {
        self.rate_bytes != UNLIMITED
    }

    /// How long nothing may go, in milliseconds; `None` = something may go now. `now_ms` is on a clock that never goes back.
    pub fn wait_ms(&mut self, now_ms: i64) -> Option<i64> {
        if !self.is_limited() {
            return None;
        }
        self.fill(now_ms);
        if self.left > 0 {
            return None;
        }
        let rate = i128::from(self.rate_bytes);
        // Once the debt is paid one part has to be there.
        let wait_ms = if rate == 0 { i128::MAX } else { -self.left / rate + 1 };
        Some(i64::try_from(wait_ms).unwrap_or(i64::MAX))
    }

    /// Notes that so many bytes went.
    pub fn spend(&mut self, bytes: u64, now_ms: i64) {
        if self.is_limited() {
            self.fill(now_ms);
            self.left -= i128::from(bytes) * PARTS;
        }
    }

    /// What the bucket holds at most.
    fn full(&self) -> i128 {
        i128::from(self.rate_bytes) * i128::from(BURST_MS)
    }

    /// Adds what the rate gave since the last time. A rate a second is as many thousandths a millisecond.
    fn fill(&mut self, now_ms: i64) {
        let passed_ms = i128::from(now_ms.saturating_sub(self.at_ms).max(0));
        self.at_ms = self.at_ms.max(now_ms);
        if self.is_limited() {
            self.left = (self.left + passed_ms * i128::from(self.rate_bytes)).min(self.full());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limited(rate_bytes: i64) -> Throttle {
        let mut throttle = Throttle::default();
        throttle.set_rate(rate_bytes, 0);
        throttle
    }

    /// Bytes a second over a minute, in pieces, with looks every `look_ms` while there is debt.
    fn average(rate_bytes: i64, piece: u64, look_ms: i64) -> u64 {
        let (mut throttle, mut now_ms, mut bytes) = (limited(rate_bytes), 0, 0);
        while now_ms < 60_000 {
            match throttle.wait_ms(now_ms) {
                Some(_) => now_ms += look_ms,
                None => {
                    bytes += piece;
                    throttle.spend(piece, now_ms);
                }
            }
        }
        bytes / 60
    }

    #[test]
    fn the_rate_is_kept_on_average_however_large_the_pieces_and_rare_the_looks() {
        let rate = 10 * MIB;
        for (piece, look_ms) in [(1_000, 10), (MIB, 1), (MIB, 500), (10 * MIB, 10), (10 * MIB, 500)] {
            let average = average(rate as i64, piece, look_ms);
            // Beyond the rate: the first second's worth at once, and the last piece.
            let allowed = rate * 9 / 10..=rate * 61 / 60 + piece / 60 + 1;
            assert!(allowed.contains(&average), "{average} in pieces of {piece}, a look every {look_ms} ms");
        }
    }

    #[test]
    fn debt_says_when_it_is_paid_off() {
        let mut throttle = limited(1_000);
        assert_eq!(throttle.wait_ms(0), None);
        throttle.spend(3_000, 0);
        assert_eq!(throttle.wait_ms(0), Some(2_001));
        assert_eq!(throttle.wait_ms(1_500), Some(501));
        assert_eq!(throttle.wait_ms(1_000), Some(501), "a clock that goes back gives nothing");
        assert_eq!(throttle.wait_ms(2_001), None);
    }

    #[test]
    fn without_a_rate_everything_goes_and_with_none_at_all_nothing() {
        let mut free = Throttle::default();
        free.spend(u64::MAX, 0);
        assert!(!free.is_limited());
        assert_eq!(free.wait_ms(0), None);
        assert_eq!(limited(0).wait_ms(i64::MAX), Some(i64::MAX));
    }

    #[test]
    fn another_rate_counts_from_when_it_is_set() {
        let mut throttle = limited(1_000);
        throttle.spend(11_000, 0);
        throttle.set_rate(10_000, 0);
        assert_eq!(throttle.wait_ms(0), Some(1_001), "the debt is paid faster");
        throttle.set_rate(UNLIMITED, 0);
        assert_eq!(throttle.wait_ms(0), None);
        throttle.spend(1_000_000, 0);
        throttle.set_rate(1_000, 0);
        assert_eq!(throttle.wait_ms(0), None, "what went without a limit is no debt");
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut throttle = limited(i64::MAX - 1);
        throttle.spend(u64::MAX, 0);
        assert!(throttle.wait_ms(0).is_some());
        assert_eq!(throttle.wait_ms(i64::MAX), None);
    }
}
