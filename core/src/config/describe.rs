//! What DescribeConfigs says of a topic or a broker: every listed setting, its value, who gave it, and what it hides.

use super::layers::{BrokerLayers, Overrides, Source};
use super::setting::{Scope, Setting};
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
            let value = (!setting.sensitive()).then(|| value.clone());
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
    let value = value.filter(|_| !setting.sensitive());
    Described { setting, value, source, synonyms }
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
