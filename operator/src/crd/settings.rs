//! Maps of settings, closed by the table in `taffrail_core::config`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use taffrail_core::config::{self, Kind, Overrides, Scope, Setting, Valid};

/// Broker settings that a Cluster's `config` does not take, because other fields or the platform give them.
const GIVEN_OTHERWISE: [&str; 17] = [
    "advertised.listeners",
    "broker.id",
    "broker.rack",
    "cordoned.log.dirs",
    "early.start.listeners",
    "inter.broker.listener.name",
    "initial.broker.registration.timeout.ms",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "node.id",
    "process.roles",
    "replica.selector.class",
    "security.inter.broker.protocol",
    "security.providers",
];

/// Beginnings of names that a Cluster's `config` does not take.
const GIVEN_OTHERWISE_PREFIXES: [&str; 7] = [
    "controller.listener.",
    "controller.quorum.",
    "delegation.",
    "remote.log.metadata.",
    "remote.log.storage.",
    "sasl.",
    "ssl.",
];

/// Whether the `config` of a resource takes this setting.
pub fn taken(setting: &Setting) -> bool {
    match setting.scope {
        Scope::Topic => setting.listed,
        Scope::Broker => {
            // Kafka does not list a few settings that are acted on all the same.
            (setting.listed || setting.acted_on)
                && !matches!(setting.kind, Kind::Class | Kind::Password)
                && !GIVEN_OTHERWISE.contains(&setting.name)
                && !GIVEN_OTHERWISE_PREFIXES.iter().any(|prefix| setting.name.starts_with(prefix))
        }
        Scope::Process => false,
    }
}

/// The settings that the `config` of a resource takes.
pub fn all_taken(scope: Scope) -> impl Iterator<Item = &'static Setting> {
    config::settings(scope).filter(|setting| taken(setting))
}

/// Text of a setting's value as YAML or JSON writes it: text, number or truth value.
struct ValueText(String);

impl<'de> Deserialize<'de> for ValueText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyScalar;
        impl Visitor<'_> for AnyScalar {
            type Value = ValueText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a whole number, true or false")
            }
            fn visit_str<E>(self, text: &str) -> Result<ValueText, E> {
                Ok(ValueText(text.to_owned()))
            }
            fn visit_bool<E>(self, value: bool) -> Result<ValueText, E> {
                Ok(ValueText(value.to_string()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<ValueText, E> {
                Ok(ValueText(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<ValueText, E> {
                Ok(ValueText(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<ValueText, E> {
                Ok(ValueText(value.to_string()))
            }
        }
        deserializer.deserialize_any(AnyScalar)
    }
}

struct SettingsVisitor;

impl<'de> Visitor<'de> for SettingsVisitor {
    type Value = Overrides;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Overrides, A::Error> {
        let mut settings = BTreeMap::new();
        while let Some((name, ValueText(value))) = map.next_entry::<String, ValueText>()? {
            settings.insert(name, value);
        }
        Ok(settings)
    }
}

/// Writes each value in the type that the schema has for it, so that what is applied is what is stored.
fn write<S: Serializer>(scope: Scope, settings: &Overrides, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(settings.len()))?;
    for (name, value) in settings {
        match config::find(scope, name).map(|setting| setting.kind) {
            Some(Kind::Boolean) if value.eq_ignore_ascii_case("true") => map.serialize_entry(name, &true)?,
            Some(Kind::Boolean) if value.eq_ignore_ascii_case("false") => map.serialize_entry(name, &false)?,
            Some(Kind::Int | Kind::Short | Kind::Long) => match value.trim().parse::<i64>() {
                Ok(number) => map.serialize_entry(name, &number)?,
                Err(_) => map.serialize_entry(name, value)?,
            },
            _ => map.serialize_entry(name, value)?,
        }
    }
    map.end()
}

/// Schema of one setting's value. Decimals are texts, because resources carry no floats; numbers may be quoted, as people
/// who come from other operators do.
pub fn value_schema(setting: &Setting) -> Schema {
    let mut schema = match setting.kind {
        Kind::Boolean => json_schema!({"type": "boolean"}),
        Kind::Int | Kind::Short | Kind::Long => {
            let mut schema = json_schema!({"x-kubernetes-int-or-string": true, "pattern": "^-?[0-9]+$"});
            if let Valid::Range(low, high) = setting.valid {
                schema.insert("minimum".to_owned(), low.into());
                if high < i64::MAX {
                    schema.insert("maximum".to_owned(), high.into());
                }
            }
            schema
        }
        Kind::Double => json_schema!({"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?([eE][0-9]+)?$"}),
        Kind::Text | Kind::List | Kind::Class | Kind::Password => json_schema!({"type": "string"}),
    };
    match setting.valid {
        Valid::OneOf(texts) => schema.insert("enum".to_owned(), texts.to_vec().into()),
        Valid::Items { of, .. } if !of.is_empty() => {
            let item = of.join("|");
            schema.insert("pattern".to_owned(), format!("^(({item})(, *({item}))*)?$").into())
        }
        _ => None,
    };
    let suffix = if setting.acted_on { "" } else { " (no effect yet)" };
    let default = setting.default.filter(|default| !default.is_empty());
    let default = default.map(|default| format!(" Default: {default}.")).unwrap_or_default();
    let doc = if setting.acted_on { setting.doc } else { "Known to Kafka." };
    schema.insert("description".to_owned(), format!("{doc}{default}{suffix}").into());
    schema
}

fn map_schema(scope: Scope) -> Schema {
    let mut properties = serde_json::Map::new();
    for setting in all_taken(scope) {
        properties.insert(setting.name.to_owned(), value_schema(setting).into());
    }
    json_schema!({"type": "object", "properties": properties})
}

macro_rules! settings_map {
    ($(#[$doc:meta])* $name:ident $scope:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub Overrides);

        impl $name {
            /// Whether no setting is given.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map(SettingsVisitor).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                write(Scope::$scope, &self.0, serializer)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                map_schema(Scope::$scope)
            }
        }
    };
}

settings_map! {
    /// Settings of a topic, under Kafka's topic names.
    TopicSettings Topic
}

settings_map! {
    /// Settings of all brokers of a cluster, under Kafka's broker names.
    ClusterSettings Broker
}
