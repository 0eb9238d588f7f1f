//! Checks a tree against a resource's schema.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use regex::Regex;
use serde_json::Value as Schema;
use taffrail_core::config::{self, Scope};

use super::node::{Entry, Node, Value};
use super::problem::{Place, Problem};
use crate::crd::settings;

/// Collects what is wrong with one file.
pub(super) struct Checker<'a> {
    /// File, as it was named.
    pub(super) file: &'a str,
    /// What was found so far.
    pub(super) problems: Vec<Problem>,
}

impl Checker<'_> {
    /// Notes a mistake.
    pub(super) fn refuse(&mut self, place: Place, field: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            file: self.file.to_owned(),
            place,
            field: field.to_owned(),
            message: message.into(),
        });
    }

    /// Notes an unknown field, with the nearest of the known ones.
    pub(super) fn unknown<'n>(&mut self, entry: &Entry, parent: &str, known: impl IntoIterator<Item = &'n str>) {
        let hint = config::hint(&entry.key, known);
        self.refuse(entry.place, &join(parent, &entry.key), format!("unknown field{hint}"));
    }

    /// Checks `node`, which is the field `path`, against `schema`.
    pub(super) fn check(&mut self, node: &Node, schema: &Schema, path: &str) {
        if node.value == Value::Null {
            if schema["nullable"] != true {
                self.refuse(node.place, path, "a value is missing");
            }
            return;
        }
        let int_or_string = schema["x-kubernetes-int-or-string"] == true;
        match (&node.value, schema["type"].as_str()) {
            (Value::Int(number), _) if int_or_string => self.check_bounds(node.place, *number, schema, path),
            (Value::Text(text), _) if int_or_string => self.check_pattern(node.place, text, schema, path),
            (Value::Float(_), _) if int_or_string && schema["pattern"].is_null() => {}
            (Value::Int(number), Some("integer")) => self.check_bounds(node.place, *number, schema, path),
            (Value::Bool(_), Some("boolean")) => {}
            (Value::Text(text), Some("string")) => self.check_text(node.place, text, schema, path),
            (Value::List(items), Some("array")) => self.check_list(node, items, schema, path),
            (Value::Map(entries), Some("object")) => self.check_map(node, entries, schema, path),
            (Value::Int(_) | Value::Float(_) | Value::Bool(_), Some("string")) => {
                self.refuse(node.place, path, format!("expected a text, found {}: put it in quotes", node.describe()));
            }
            (_, expected) => {
                let expected = match expected {
                    _ if int_or_string => "a number or a text",
                    Some("integer") => "a whole number",
                    Some("boolean") => "true or false",
                    Some("string") => "a text",
                    Some("array") => "a list",
                    _ => "a map",
                };
                self.refuse(node.place, path, format!("expected {expected}, found {}", node.describe()));
            }
        }
    }

    fn check_bounds(&mut self, place: Place, number: i64, schema: &Schema, path: &str) {
        let int32 = schema["format"] == "int32";
        let low = schema["minimum"].as_i64().unwrap_or(if int32 { i64::from(i32::MIN) } else { i64::MIN });
        let high = schema["maximum"].as_i64().unwrap_or(if int32 { i64::from(i32::MAX) } else { i64::MAX });
        if number < low {
            self.refuse(place, path, format!("{number} is less than {low}"));
        } else if number > high {
            self.refuse(place, path, format!("{number} is more than {high}"));
        }
    }

    fn check_text(&mut self, place: Place, text: &str, schema: &Schema, path: &str) {
        if let Some(values) = schema["enum"].as_array() {
            let values: Vec<&str> = values.iter().filter_map(Schema::as_str).collect();
            if !values.contains(&text) {
                let hint = config::hint(text, values.iter().copied());
                self.refuse(place, path, format!("\"{text}\" is none of {}{hint}", values.join(", ")));
            }
        }
        let chars = text.chars().count() as u64;
        if let Some(low) = schema["minLength"].as_u64().filter(|low| chars < *low) {
            self.refuse(place, path, format!("must have at least {low} characters"));
        }
        if let Some(high) = schema["maxLength"].as_u64().filter(|high| chars > *high) {
            self.refuse(place, path, format!("must have at most {high} characters"));
        }
        self.check_pattern(place, text, schema, path);
        if schema["format"] == "date-time" && text.parse::<Timestamp>().is_err() {
            self.refuse(place, path, format!("\"{text}\" is no time such as 2026-01-31T12:00:00Z"));
        }
    }

    fn check_pattern(&mut self, place: Place, text: &str, schema: &Schema, path: &str) {
        let Some(pattern) = schema["pattern"].as_str() else { return };
        if Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text)) {
            self.refuse(place, path, format!("\"{text}\" does not match {pattern}"));
        }
    }

    fn check_list(&mut self, node: &Node, items: &[Node], schema: &Schema, path: &str) {
        let count = items.len() as u64;
        if let Some(low) = schema["minItems"].as_u64().filter(|low| count < *low) {
            self.refuse(node.place, path, format!("must have at least {low} items"));
        }
        if let Some(high) = schema["maxItems"].as_u64().filter(|high| count > *high) {
            self.refuse(node.place, path, format!("must have at most {high} items"));
        }
        for (index, item) in items.iter().enumerate() {
            self.check(item, &schema["items"], &format!("{path}[{index}]"));
        }
        self.check_distinct(items, schema, path);
    }

    /// Items of a set, and keys of a list that is a map, may be there once only.
    fn check_distinct(&mut self, items: &[Node], schema: &Schema, path: &str) {
        let keys: Vec<&str> =
            schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Schema::as_str).collect();
        let is_set = schema["x-kubernetes-list-type"] == "set";
        if !is_set && keys.is_empty() {
            return;
        }
        let mut first: BTreeMap<String, usize> = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            let shown = |key: &&str| format!("{key}: {}", item.get(key).map_or(Schema::Null, Node::to_json));
            let shown = match is_set {
                true => item.to_json().to_string(),
                false => keys.iter().map(shown).collect::<Vec<_>>().join(", "),
            };
            if let Some(before) = first.get(&shown) {
                let message = format!("{shown} is there twice, first at {path}[{before}]");
                self.refuse(item.place, &format!("{path}[{index}]"), message);
            } else {
                first.insert(shown, index);
            }
        }
    }

    fn check_map(&mut self, node: &Node, entries: &[Entry], schema: &Schema, path: &str) {
        let properties = schema["properties"].as_object();
        for entry in entries {
            let field = join(path, &entry.key);
            match properties.and_then(|properties| properties.get(&entry.key)) {
                Some(property) => self.check(&entry.node, property, &field),
                None if schema["additionalProperties"].is_object() => {
                    self.check(&entry.node, &schema["additionalProperties"], &field);
                }
                None if schema["x-kubernetes-preserve-unknown-fields"] == true => {}
                None => self.unknown(entry, path, properties.into_iter().flatten().map(|(name, _)| name.as_str())),
            }
        }
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Schema::as_str) {
            if node.get(required).is_none() {
                self.refuse(node.place, &join(path, required), "is missing");
            }
        }
    }

    /// Checks a map of settings by the table, whose messages say more than the schema's.
    pub(super) fn check_settings(&mut self, scope: Scope, node: &Node, path: &str) {
        let Value::Map(entries) = &node.value else {
            return self.refuse(node.place, path, format!("expected a map of settings, found {}", node.describe()));
        };
        for entry in entries {
            let field = format!("{path}[{}]", entry.key);
            let Some(setting) = config::find(scope, &entry.key) else {
                let hint = config::hint(&entry.key, settings::all_taken(scope).map(|setting| setting.name));
                self.refuse(entry.place, &field, format!("unknown setting{hint}"));
                continue;
            };
            if !settings::taken(setting) {
                self.refuse(
                    entry.place,
                    &field,
                    "is not set here: other fields of the Cluster, or the platform, give it",
                );
                continue;
            }
            let Some(text) = entry.node.scalar_text() else {
                self.refuse(entry.node.place, &field, format!("expected one value, found {}", entry.node.describe()));
                continue;
            };
            match config::check(setting, &text) {
                Err(error) => self.refuse(entry.node.place, &field, error.to_string()),
                Ok(()) => self.check(&entry.node, settings::value_schema(setting).as_value(), &field),
            }
        }
    }
}

/// The path of a field below another one.
pub(super) fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}
