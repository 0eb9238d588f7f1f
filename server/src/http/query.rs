//! What addresses ask for behind their question mark; and what that of a scrape may ask for:
//! `/metrics?granularity=topic&topics=orders.*&groups=...&names=kafka,taffrail`. The settings of a process say what holds when
//! nothing is asked for, by the same names.

use taffrail_broker::{Granularity, ScrapeOptions};
use taffrail_core::metric::Dialect;

/// Most series that a scrape may ask for before it shows the worst ones only.
const SERIES_MAX: usize = 2_000_000;

/// Puts what `query` asks for into effect.
///
/// # Errors
/// A sentence that names the parameter and what it may be.
pub(super) fn apply(options: &mut ScrapeOptions, query: &str) -> Result<(), String> {
    for pair in pairs(query) {
        let (name, value) = pair?;
        set(options, name, &value)?;
    }
    Ok(())
}

/// Puts one parameter into effect.
///
/// # Errors
/// A sentence that names the parameter and what it may be.
pub(crate) fn set(options: &mut ScrapeOptions, name: &str, value: &str) -> Result<(), String> {
    let filter = || ScrapeOptions::filter(value).map(Some).map_err(|error| format!("{name}: {error}"));
    match name {
        "granularity" => {
            let choice = Granularity::CHOICES.iter().find(|(name, _)| *name == value);
            let names = Granularity::CHOICES.map(|(name, _)| name).join(", ");
            options.granularity = choice.ok_or_else(|| format!("granularity is one of {names}"))?.1;
        }
        "series_max" => {
            let count = value.parse().ok().filter(|count| *count <= SERIES_MAX);
            options.series_max = count.ok_or_else(|| format!("series_max is a number up to {SERIES_MAX}"))?;
        }
        "topics" => options.topics = filter()?,
        "groups" => options.groups = filter()?,
        "names" => {
            let known = |name: &str| Dialect::ALL.into_iter().find(|dialect| dialect.name() == name.trim());
            let names = Dialect::ALL.map(Dialect::name).join(", ");
            let chosen: Option<_> = value.split(',').map(known).collect();
            options.dialects = chosen.ok_or_else(|| format!("names are some of {names}, with commas between"))?;
        }
        _ => {
            return Err(format!("{name} is not known; there are granularity, series_max, topics, groups and names"));
        }
    }
    Ok(())
}

/// The names in a query, and their values as they were before they were made part of an address.
///
/// Each that cannot have been one is a sentence that names the parameter.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = Result<(&str, String), String>> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value).ok_or_else(|| format!("{name}: the value is not UTF-8, or its escapes are cut"))?;
        Ok((name, value))
    })
}

/// A value as it was before it was made part of an address.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = after;
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(query: &str) -> Result<ScrapeOptions, String> {
        let mut options = ScrapeOptions::default();
        apply(&mut options, query).map(|()| options)
    }

    #[test]
    fn an_address_says_how_finely_and_of_what() {
        let options = applied("granularity=topic&series_max=7&topics=a%7Cb&groups=g.*&names=kafka,taffrail").unwrap();
        assert_eq!((options.granularity, options.series_max), (Granularity::Topic, 7));
        assert!(options.shows_topic("b") && !options.shows_topic("c"));
        assert!(options.shows_group("g1") && !options.shows_group("h"));
        assert_eq!(options.dialects, [Dialect::Kafka, Dialect::Taffrail].into());
        assert_eq!(applied("").unwrap().granularity, Granularity::Auto);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let cases = [
            ("granularity=fine", "granularity is one of"),
            ("series_max=-1", "series_max is a number"),
            ("series_max=99999999999", "series_max is a number"),
            ("topics=%28", "topics: "),
            ("groups=%F", "groups: "),
            ("topics=%FF", "topics: "),
            ("names=jmx", "names are some of"),
            ("topic=a", "topic is not known"),
        ];
        for (query, expected) in cases {
            let error = applied(query).unwrap_err();
            assert!(error.starts_with(expected), "{query}: {error}");
        }
    }
}
