//! What requests are told apart by: their key, and for Fetch who asks, as Kafka does.

use taffrail_protocol::versions::ApiKey;

/// A kind of request, as a small number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestKind(u8);

/// Its name where all fetches are one, as Kafka prints them beside those of consumers and of followers.
pub(super) const FETCH: &str = "Fetch";

/// Where kinds begin that have no key of their own.
const FETCH_FOLLOWER: u8 = ApiKey::ALL.len() as u8;

/// For each key's number, which kind it is.
const OF_CODE: [u8; CODES] = by_code();
const CODES: usize = 128;

const fn by_code() -> [u8; CODES] {
    let mut kinds = [0; CODES];
    let mut at = 0;
    while at < ApiKey::ALL.len() {
        kinds[ApiKey::ALL[at].code() as usize] = at as u8;
        at += 1;
    }
    kinds
}

impl RequestKind {
    /// How many there are.
    pub(super) const COUNT: usize = ApiKey::ALL.len() + 1;

    /// A follower's Fetch.
    pub(crate) const FETCH_FOLLOWER: Self = Self(FETCH_FOLLOWER);

    /// Requests with this key; a Fetch is a consumer's until it has said more.
    pub(crate) fn of(key: ApiKey) -> Self {
        Self(usize::try_from(key.code()).ok().and_then(|code| OF_CODE.get(code)).copied().unwrap_or(0))
    }

    /// Every kind.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..=FETCH_FOLLOWER).map(Self)
    }

    /// Kafka's name of it.
    pub(super) fn name(self) -> &'static str {
        match ApiKey::ALL.get(self.index()) {
            None => "FetchFollower",
            Some(ApiKey::Fetch) => "FetchConsumer",
            Some(key) => key.name(),
        }
    }

    /// Whether it is a Fetch, whoever asks.
    pub(super) fn is_fetch(self) -> bool {
        self == Self::of(ApiKey::Fetch) || self == Self::FETCH_FOLLOWER
    }

    /// Its place among all.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_kind_of_its_own_and_fetches_are_told_apart() {
        let names: Vec<&str> = RequestKind::all().map(RequestKind::name).collect();
        let of_keys: Vec<RequestKind> = ApiKey::ALL.iter().map(|key| RequestKind::of(*key)).collect();
        assert!(of_keys.is_sorted_by(|one, next| one < next), "{of_keys:?}");
        assert_eq!(names.len(), RequestKind::COUNT);
        assert_eq!(RequestKind::of(ApiKey::Produce).name(), "Produce");
        assert_eq!(RequestKind::of(ApiKey::Fetch).name(), "FetchConsumer");
        assert_eq!(RequestKind::FETCH_FOLLOWER.name(), "FetchFollower");
        assert!(!names.contains(&FETCH));
    }
}
