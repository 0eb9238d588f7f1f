//! YAML as a tree in which every value knows its place.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Parser, ScalarStyle, Span};

use super::problem::Place;

/// Nodes of one file, aliases resolved: enough for ten thousand topics, and an end for "billion laughs".
const NODES_MAX: usize = 1 << 20;

/// Deepest nesting.
const DEPTH_MAX: usize = 64;

/// A value and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it starts.
    pub place: Place,
    /// What it is.
    pub value: Value,
}

/// A YAML value in the core schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

/// An entry of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// Where the key stands.
    pub place: Place,
    /// Its value.
    pub node: Node,
}

/// Why a text is no YAML, or none that we take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NodeError {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
}

impl Node {
    /// The entry of this key, if this is a mapping that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value of this key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The entries of a mapping; none of anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The text, if this is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A scalar as text: what a setting's value is made of.
    pub fn scalar_text(&self) -> Option<Cow<'_, str>> {
        match &self.value {
            Value::Bool(value) => Some(value.to_string().into()),
            Value::Int(value) => Some(value.to_string().into()),
            Value::Float(value) => Some(value.to_string().into()),
            Value::Text(text) => Some(text.into()),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// What this is, for messages.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::Text(text) => format!("the text \"{}\"", text.chars().take(60).collect::<String>()),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// The same value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Float(value) => (*value).into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                let map = entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json()));
                serde_json::Value::Object(map.collect())
            }
        }
    }

    fn size(&self) -> usize {
        1 + match &self.value {
            Value::List(items) => items.iter().map(Self::size).sum(),
            Value::Map(entries) => entries.iter().map(|entry| 1 + entry.node.size()).sum(),
            _ => 0,
        }
    }
}

/// The documents of a text, empty ones left out.
///
/// # Errors
/// The first place where it is no YAML, or goes beyond a limit.
pub fn parse_documents(text: &str) -> Result<Vec<Node>, NodeError> {
    let options = granit_parser::options! { emit_comments: false };
    let mut reader =
        Reader { parser: Parser::new_from_str_with_options(text, options), anchors: BTreeMap::new(), nodes: 0 };
    let mut documents = Vec::new();
    loop {
        let (event, _) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart(..) => {
                reader.anchors.clear();
                let (event, span) = reader.next()?;
                let node = reader.node(event, span, 0)?;
                if node.value != Value::Null {
                    documents.push(node);
                }
            }
            _ => {}
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
}

fn place(span: Span) -> Place {
    Place { line: span.start.line(), column: span.start.col() + 1 }
}

fn refused<T>(place: Place, message: impl Into<String>) -> Result<T, NodeError> {
    Err(NodeError { place, message: message.into() })
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), NodeError> {
        match self.parser.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let marker = error.marker();
                let place = Place { line: marker.line(), column: marker.col() + 1 };
                refused(place, format!("not YAML: {}", error.info()))
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn count(&mut self, nodes: usize, place: Place) -> Result<(), NodeError> {
        self.nodes += nodes;
        if self.nodes > NODES_MAX { refused(place, format!("more than {NODES_MAX} values")) } else { Ok(()) }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, NodeError> {
        let place = place(span);
        if depth > DEPTH_MAX {
            return refused(place, format!("nested deeper than {DEPTH_MAX}"));
        }
        self.count(1, place)?;
        let anchor = event.anchor_id();
        let value = match event {
            Event::Scalar(text, style, _, tag) => scalar(&text, style, tag.is_some()),
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.map(depth)?,
            Event::Alias(id) => {
                let Some(target) = self.anchors.get(&id) else {
                    return refused(place, "an alias may not stand within its own anchor");
                };
                let (size, value) = (target.size(), target.value.clone());
                self.count(size, place)?;
                value
            }
            _ => return refused(place, "not YAML: a value is missing"),
        };
        let node = Node { place, value };
        if let Some(id) = anchor {
            self.anchors.insert(id, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Value, NodeError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, NodeError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut keys = BTreeSet::new();
        loop {
            let (event, span) = self.next()?;
            let place = place(span);
            let key = match event {
                Event::MappingEnd => return Ok(Value::Map(entries)),
                Event::Scalar(key, ..) => key.into_owned(),
                _ => return refused(place, "a key must be a text"),
            };
            if !keys.insert(key.clone()) {
                return refused(place, format!("\"{key}\" is given twice"));
            }
            self.count(1, place)?;
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            entries.push(Entry { key, place, node });
        }
    }
}

/// Resolves a scalar by YAML's core schema; whatever is quoted or tagged is text.
fn scalar(text: &str, style: ScalarStyle, tagged: bool) -> Value {
    if style != ScalarStyle::Plain || tagged {
        return Value::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>() {
        return Value::Int(number);
    }
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    match text.parse::<f64>() {
        Ok(number) if digits && numeric => Value::Float(number),
        _ => Value::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_what_the_core_schema_says() {
        let cases = [
            ("a: 5", Value::Int(5)),
            ("a: -5", Value::Int(-5)),
            ("a: 0.5", Value::Float(0.5)),
            ("a: '5'", Value::Text("5".to_owned())),
            ("a: yes", Value::Text("yes".to_owned())),
            ("a: true", Value::Bool(true)),
            ("a: 1.2.3", Value::Text("1.2.3".to_owned())),
            ("a: nan", Value::Text("nan".to_owned())),
            ("a:", Value::Null),
            ("a: 99999999999999999999", Value::Float(1e20)),
        ];
        for (text, expected) in cases {
            let documents = parse_documents(text).unwrap();
            assert_eq!(documents[0].get("a").unwrap().value, expected, "{text}");
        }
    }

    #[test]
    fn values_know_their_places_over_several_documents() {
        let documents = parse_documents("a: 1\n---\n# nothing\n---\nb:\n  - c: x\n").unwrap();
        assert_eq!(documents.len(), 2);
        let Value::List(items) = &documents[1].get("b").unwrap().value else { panic!("no list") };
        let entry = items[0].entry("c").unwrap();
        assert_eq!((entry.place, entry.node.place), (Place { line: 6, column: 5 }, Place { line: 6, column: 8 }));
    }

    #[test]
    fn bad_yaml_is_refused_with_its_place() {
        let bomb = {
            let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
            for level in 1..8 {
                let item = format!("*a{},", level - 1).repeat(10);
                text.push_str(&format!("a{level}: &a{level} [{item}]\n"));
            }
            text
        };
        let deep = "[".repeat(100) + &"]".repeat(100);
        let cases = [
            ("a: 1\na: 2", 2, "given twice"),
            ("a: [1", 1, "not YAML"),
            ("? [a]\n: b", 1, "key"),
            (&bomb, 0, "more than"),
            (&deep, 1, "nested"),
        ];
        for (text, line, part) in cases {
            let error = parse_documents(text).unwrap_err();
            assert!(error.message.contains(part), "{error}");
            assert!(line == 0 || error.place.line >= line, "{error:?}");
        }
    }
}
