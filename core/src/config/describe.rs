//! What DescribeConfigs says of a topic or a broker: every listed setting, its value, who gave it, and what it hides.

use super::layers::{BrokerLayers, Overrides, Source};
use super::setting::{Kind, Scope, Setting};
use super::validate::{list_items, parse_boolean};
use super::{synonyms, table};

/// A value that a setting has, or would have if a stronger one were taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynonymValue {
    /// Setting that carries the value.
    pub name: &'static str,
    /// The value, if it may be shown.
    pub value: Option<String>,
    /// Who gave it.
    pub source: Source,
}

/// One described setting.
#[derive(Clone, Debug)]
pub struct Described {
    /// Its row in the table.
    pub setting: &'static Setting,
    /// Its value in effect; `None` if it has none or is sensitive.
    pub value: Option<String>,
    /// Who gave the value.
    pub source: Source,
    /// All values that were given, strongest first.
    pub synonyms: Vec<SynonymValue>,
}

/// Every listed topic setting, for a topic with these settings on a broker with these.
pub fn describe_topic<'a>(topic: &'a Overrides, broker: &'a BrokerLayers) -> impl Iterator<Item = Described> + use<'a> {
    table::settings(Scope::Topic).filter(|setting| setting.listed).map(move |setting| {
        let names: Vec<&'static str> = synonyms::of_topic(setting.name).iter().map(|synonym| synonym.name).collect();
        let mut values = given(&names, broker, setting.sensitive());
        let own = topic.get(setting.name);
        if let Some(value) = own {
            let value = (!setting.sensitive()).then(|| plain(setting.kind, value));
            values.insert(0, SynonymValue { name: setting.name, value, source: Source::Topic });
        }
        let effective = own.cloned().or_else(|| broker.topic_default(setting));
        described(setting, effective, values)
    })
}

/// Every listed broker setting, for a broker with these layers.
pub fn describe_broker(broker: &BrokerLayers) -> impl Iterator<Item = Described> + use<'_> {
    table::settings(Scope::Broker).filter(|setting| setting.listed).map(move |setting| {
        let mut names: Vec<&'static str> = synonyms::of_broker(setting.name).collect();
        if names.is_empty() {
            names.push(setting.name);
        }
        let values = given(&names, broker, setting.sensitive());
        described(setting, broker.value(setting.name).map(str::to_owned), values)
    })
}

fn described(setting: &'static Setting, value: Option<String>, synonyms: Vec<SynonymValue>) -> Described {
    let source = synonyms.first().map_or(Source::Default, |synonym| synonym.source);
    let value = value.filter(|_| !setting.sensitive()).map(|value| plain(setting.kind, &value));
    Described { setting, value, source, synonyms }
}

/// A value as Kafka prints it, however its user wrote it: tools compare what they read with what they want.
fn plain(kind: Kind, value: &str) -> String {
    let trimmed = value.trim();
    let printed = match kind {
        Kind::Boolean => parse_boolean(trimmed).map(|value| value.to_string()),
        Kind::Int | Kind::Short | Kind::Long => trimmed.parse().ok().map(|number: i64| number.to_string()),
        Kind::Double => trimmed.parse().ok().map(decimal),
        Kind::List => Some(list_items(value).collect::<Vec<_>>().join(",")),
        Kind::Text | Kind::Class | Kind::Password => None,
    };
    printed.unwrap_or_else(|| value.to_owned())
}

/// A decimal as Java prints it: always with a point, and with an exponent where it is very large or small.
fn decimal(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{number:?}");
    }
    let text = format!("{number:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// The values of `names` layer by layer. As in Kafka, what comes before the first value of the first name is left out
/// (`ConfigHelper.configSynonyms`), so a default that only a coarser unit has is not listed.
fn given(names: &[&'static str], broker: &BrokerLayers, sensitive: bool) -> Vec<SynonymValue> {
    let Some(first) = names.first() else { return Vec::new() };
    let mut values = Vec::new();
    for (source, layer) in broker.layers() {
        for name in names {
            if let Some(value) = layer.get(*name) {
                values.push(SynonymValue { name, value: (!sensitive).then(|| value.clone()), source });
            }
        }
    }
    for name in names {
        if let Some(value) = table::find(Scope::Broker, name).and_then(|setting| setting.default) {
            let value = (!sensitive).then(|| value.to_owned());
            values.push(SynonymValue { name, value, source: Source::Default });
        }
    }
    values.into_iter().skip_while(|synonym| synonym.name != *first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_alike_however_they_were_written() {
        let cases = [
            (Kind::Boolean, " TRUE", "true"),
            (Kind::Int, "+5", "5"),
            (Kind::Long, " 9223372036854775807 ", "9223372036854775807"),
            (Kind::Double, "1", "1.0"),
            (Kind::Double, "0.50", "0.5"),
            (Kind::Double, "1e-4", "1.0E-4"),
            (Kind::Double, "12500000", "1.25E7"),
            (Kind::List, "compact, delete ", "compact,delete"),
            (Kind::List, "", ""),
            (Kind::Text, " as it is ", " as it is "),
            (Kind::Int, "not a number", "not a number"),
        ];
        for (kind, written, printed) in cases {
            assert_eq!(plain(kind, written), printed, "{written:?}");
        }
    }

    #[test]
    fn what_is_set_on_a_topic_is_described_plainly() {
        let own = [("min.cleanable.dirty.ratio".to_owned(), "1".to_owned())].into();
        let layers = BrokerLayers::default();
        let ratio = describe_topic(&own, &layers).find(|it| it.setting.name == "min.cleanable.dirty.ratio").unwrap();
        assert_eq!((ratio.value.as_deref(), ratio.synonyms[0].value.as_deref()), (Some("1.0"), Some("1.0")));
    }
}
