//! What a question says behind its question mark. Names that nobody knows are refused, and so are values that make no sense.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::refusal::Refusal;
use crate::http::pairs;

/// Bytes of all of them together.
const QUERY_MAX_BYTES: usize = 8 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    given: BTreeMap<String, String>,
}

impl Parameters {
    /// Those of a query.
    ///
    /// # Errors
    /// When it is too long, or no query.
    pub(super) fn of(query: Option<&str>) -> Result<Self, Refusal> {
        let query = query.unwrap_or_default();
        if query.len() > QUERY_MAX_BYTES {
            return Err(Refusal::wrong(format!(
                "the question has {} bytes, and may have {QUERY_MAX_BYTES}",
                query.len()
            )));
        }
        let mut given = BTreeMap::new();
        for pair in pairs(query) {
            let (name, value) = pair.map_err(Refusal::wrong)?;
            given.insert(name.to_owned(), value);
        }
        Ok(Self { given })
    }

    /// The value of `name`, if it was given.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.given.remove(name).filter(|value| !value.is_empty())
    }

    /// The value of `name`.
    ///
    /// # Errors
    /// When it was not given.
    pub(super) fn needed(&mut self, name: &str) -> Result<String, Refusal> {
        self.text(name).ok_or_else(|| Refusal::wrong(format!("{name} is needed")))
    }

    /// The value of `name`, if it was given.
    ///
    /// # Errors
    /// When it is not what it should be.
    pub(super) fn parsed<T: FromStr>(&mut self, name: &str, needed: &str) -> Result<Option<T>, Refusal> {
        let parsed = self.text(name).map(|value| {
            value.parse().map_err(|_| Refusal::wrong(format!("{name} is '{value}', and {needed} is needed")))
        });
        parsed.transpose()
    }

    /// A number up to `most`; more than that is as much as there may be.
    ///
    /// # Errors
    /// When it is no number.
    pub(super) fn count(&mut self, name: &str, default: usize, most: usize) -> Result<usize, Refusal> {
        Ok(self.parsed(name, "a number")?.unwrap_or(default).min(most))
    }

    /// Says that there is nothing more to know.
    ///
    /// # Errors
    /// With the name of a parameter that nobody asked for.
    pub(super) fn end(self) -> Result<(), Refusal> {
        match self.given.into_keys().next() {
            Some(unknown) => Err(Refusal::wrong(format!("{unknown} is not known"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let mut good = Parameters::of(Some("topic=a%2Fb+c&limit=900&filter=")).unwrap();
        assert_eq!((good.needed("topic").unwrap(), good.count("limit", 50, 500).unwrap()), ("a/b c".to_owned(), 500));
        assert_eq!(good.text("filter"), None);
        good.end().unwrap();

        let refusal = |query: &str| {
            let read = |mut it: Parameters| {
                it.needed("topic")?;
                it.count("limit", 50, 500)?;
                it.end()
            };
            Parameters::of(Some(query)).and_then(read).unwrap_err().text
        };
        assert_eq!(refusal(""), "topic is needed");
        assert_eq!(refusal("topic=a&limit=-1"), "limit is '-1', and a number is needed");
        assert_eq!(refusal("topic=a&x=<b>"), "x is not known");
        assert!(refusal("topic=%FF").starts_with("topic: the value is not UTF-8"));
        assert!(refusal(&format!("topic={}", "a".repeat(9_000))).starts_with("the question has 9006 bytes"));
    }
}
