//! Prometheus' text format, as far as it takes to print metrics as data.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Metrics of one name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) name: String,
    kind: String,
    help: String,
    pub(super) samples: Vec<Sample>,
}

/// One value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Of histograms it has an ending.
    pub(super) name: String,
    labels: BTreeMap<String, String>,
    /// As it was written: `NaN` and `+Inf` are no JSON.
    pub(super) value: String,
}

impl Family {
    /// The family for programs.
    pub(super) fn data(&self) -> Value {
        let sample = |it: &Sample| json!({ "name": it.name, "labels": it.labels, "value": it.value });
        let samples: Vec<Value> = self.samples.iter().map(sample).collect();
        json!({ "name": self.name, "type": self.kind, "help": self.help, "samples": samples })
    }
}

impl Sample {
    /// The labels for people.
    pub(super) fn labels_text(&self) -> String {
        self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
    }
}

/// The families of a text, in its order. What is no line of one is left out.
pub(super) fn families(text: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            family(&mut families, name).help = unescaped(help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            family(&mut families, name).kind = kind.to_owned();
        } else if let Some(sample) = sample(line) {
            let belongs = |family: &Family| {
                sample
                    .name
                    .strip_prefix(&family.name)
                    .is_some_and(|ending| ["", "_bucket", "_sum", "_count"].contains(&ending))
            };
            match families.last_mut() {
                Some(last) if belongs(last) => last.samples.push(sample),
                _ => {
                    let name = sample.name.clone();
                    family(&mut families, &name).samples.push(sample);
                }
            }
        }
    }
    families
}

/// The family of this name, which is the last one or a new one.
fn family<'a>(families: &'a mut Vec<Family>, name: &str) -> &'a mut Family {
    if families.last().is_none_or(|last| last.name != name) {
        families.push(Family { name: name.to_owned(), ..Family::default() });
    }
    let last = families.len() - 1;
    &mut families[last]
}

/// A line such as `name{label="value"} 1`.
fn sample(line: &str) -> Option<Sample> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let close = closing_quote(after)?;
            labels.insert(label.trim_start_matches(',').trim().to_owned(), unescaped(&after[..close]));
            rest = &after[close + 1..];
        }
        rest = &rest[1..];
    }
    let value = rest.split_whitespace().next()?.to_owned();
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Where the quote is that ends a value.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, character)| {
        let ends = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => match rest.next() {
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            character => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_read_with_names_that_need_escapes() {
        let text = "\
# HELP up Whether it is \\\\ up.
# TYPE up gauge
up 1
# TYPE took histogram
took_bucket{topic=\"a \\\"b\\\\\",le=\"+Inf\"} 3
took_sum{} 0.5
took_count 3 1700000000000
alone{group=\"x{y}\"} NaN
# a remark
broken{a=\"
";
        let found = families(text);
        let names: Vec<(&str, usize)> = found.iter().map(|it| (it.name.as_str(), it.samples.len())).collect();
        assert_eq!(names, [("up", 1), ("took", 3), ("alone", 1)]);
        assert_eq!((found[0].help.as_str(), found[1].kind.as_str()), ("Whether it is \\ up.", "histogram"));
        assert_eq!(found[1].samples[0].labels_text(), "le=+Inf,topic=a \"b\\");
        assert_eq!(
            (found[2].samples[0].labels_text(), found[2].samples[0].value.as_str()),
            ("group=x{y}".to_owned(), "NaN")
        );
        assert_eq!(found[2].data()["samples"][0]["value"], "NaN");
    }
}
