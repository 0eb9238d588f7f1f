//! From files to resources.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value as Schema;
use taffrail_core::config::{self, Scope};

use super::check::Checker;
use super::node::{Node, Value, parse_documents};
use super::problem::{Place, Problem, Problems};
use crate::crd::{self, API_VERSION, Cluster, ConsumerGroup, GROUP, Kind, Topic};

/// Largest file that is read.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// Files that one command may name.
pub const FILES_MAX: usize = 1000;

/// Fields of a document besides `spec`.
const TOP_FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Fields of `metadata` that mean something to us, and those that Kubernetes adds when it prints a resource.
const METADATA_FIELDS: [&str; 13] = [
    "name",
    "namespace",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "uid",
];

/// Longest name of a resource, as Kubernetes has it.
const NAME_CHARS_MAX: usize = 253;

/// Where a resource was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// File, as it was named.
    pub file: String,
    /// Where the document starts.
    pub place: Place,
}

/// A resource, where it was written, and the tree that it was made from.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// The resource.
    pub resource: T,
    /// Where it was written.
    pub origin: Origin,
    /// The whole document.
    pub node: Node,
}

impl<T> Loaded<T> {
    /// A resource that was not written in a file.
    pub fn without_file(resource: T) -> Self {
        Self { resource, origin: Origin::default(), node: Node { place: Place::default(), value: Value::Null } }
    }

    /// A mistake in the field `path`, at the place of the deepest part of it that is written down.
    pub fn problem(&self, path: &[&str], message: impl Into<String>) -> Problem {
        let mut node = &self.node;
        let mut place = self.origin.place;
        for part in path {
            let Some(entry) = node.entry(part) else { break };
            place = entry.place;
            node = &entry.node;
        }
        Problem { file: self.origin.file.clone(), place, field: path.join("."), message: message.into() }
    }
}

/// All resources of some files.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// Clusters.
    pub clusters: Vec<Loaded<Cluster>>,
    /// Topics.
    pub topics: Vec<Loaded<Topic>>,
    /// Consumer groups.
    pub groups: Vec<Loaded<ConsumerGroup>>,
}

/// Reads files of resources.
///
/// # Errors
/// Everything that is wrong with them, file by file.
pub fn load_files(paths: &[PathBuf]) -> Result<Resources, Problems> {
    let whole = |file: String, message: String| {
        Problems(vec![Problem { file, place: Place::default(), field: String::new(), message }])
    };
    if paths.len() > FILES_MAX {
        return Err(whole(String::new(), format!("more than {FILES_MAX} files")));
    }
    let mut texts = Vec::with_capacity(paths.len());
    for path in paths {
        let name = path.display().to_string();
        texts.push((name.clone(), read(path).map_err(|message| whole(name, message))?));
    }
    load_texts(&texts)
}

fn read(path: &Path) -> Result<String, String> {
    let said = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::InvalidData => "is not text in UTF-8".to_owned(),
        _ => error.to_string(),
    };
    let file = std::fs::File::open(path).map_err(said)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(said)?;
    if text.len() as u64 > FILE_BYTES_MAX { Err(format!("is larger than {FILE_BYTES_MAX} bytes")) } else { Ok(text) }
}

/// Reads texts, each with the name that messages give it.
///
/// # Errors
/// Everything that is wrong with them, text by text.
pub fn load_texts(texts: &[(String, String)]) -> Result<Resources, Problems> {
    let mut loader = Loader::default();
    for (file, text) in texts {
        loader.load(file, text);
    }
    if loader.problems.is_empty() { Ok(loader.resources) } else { Err(Problems(loader.problems)) }
}

#[derive(Default)]
struct Loader {
    resources: Resources,
    problems: Vec<Problem>,
    /// Where each resource was first written.
    seen: BTreeMap<(Kind, String), Origin>,
    /// The schemas, made once.
    schemas: BTreeMap<Kind, Schema>,
}

impl Loader {
    fn load(&mut self, file: &str, text: &str) {
        let mut checker = Checker { file, problems: Vec::new() };
        match parse_documents(text) {
            Ok(documents) => documents.into_iter().for_each(|document| self.document(&mut checker, document)),
            Err(error) => checker.refuse(error.place, "", error.message),
        }
        self.problems.append(&mut checker.problems);
    }

    fn document(&mut self, checker: &mut Checker<'_>, node: Node) {
        let Value::Map(entries) = &node.value else {
            return checker.refuse(node.place, "", format!("expected a resource, found {}", node.describe()));
        };
        let before = checker.problems.len();
        let Some(kind) = check_kind(checker, &node) else { return };
        for entry in entries.iter().filter(|entry| !TOP_FIELDS.contains(&entry.key.as_str())) {
            checker.unknown(entry, "", TOP_FIELDS);
        }
        let name = check_metadata(checker, &node);
        self.check_spec(checker, kind, &node);
        let origin = Origin { file: checker.file.to_owned(), place: node.place };
        if let Some(name) = name {
            if let Some(first) = self.seen.get(&(kind, name.clone())) {
                let message =
                    format!("{} {name} is written twice, first at {}:{}", kind.name(), first.file, first.place.line);
                checker.refuse(node.place, "metadata.name", message);
            } else {
                self.seen.insert((kind, name), origin.clone());
            }
        }
        if checker.problems.len() > before {
            return;
        }
        let filled = match kind {
            Kind::Cluster => fill(&mut self.resources.clusters, node, origin),
            Kind::Topic => fill(&mut self.resources.topics, node, origin),
            Kind::ConsumerGroup => fill(&mut self.resources.groups, node, origin),
        };
        if let Err((place, message)) = filled {
            checker.refuse(place, "", message);
        }
    }

    fn check_spec(&mut self, checker: &mut Checker<'_>, kind: Kind, node: &Node) {
        let schema = self.schemas.entry(kind).or_insert_with(|| crd::spec_schema(kind));
        let Some(spec) = node.get("spec") else {
            return checker.refuse(node.place, "spec", "is missing");
        };
        // Settings are checked by the table, so their part of the schema is opened here.
        let mut open = schema.clone();
        let config = spec.get("config");
        if let Some(property) = open.pointer_mut("/properties/config").filter(|_| config.is_some()) {
            *property =
                serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "nullable": true});
        }
        let before = checker.problems.len();
        checker.check(spec, &open, "spec");
        let scope = match kind {
            Kind::Cluster => Scope::Broker,
            Kind::Topic | Kind::ConsumerGroup => Scope::Topic,
        };
        if let Some(config) =
            config.filter(|config| matches!(config.value, Value::Map(_)) && kind != Kind::ConsumerGroup)
        {
            checker.check_settings(scope, config, "spec.config");
        }
        if checker.problems.len() == before {
            checker.check_rules(kind, spec);
        }
    }
}

fn check_kind(checker: &mut Checker<'_>, node: &Node) -> Option<Kind> {
    match node.entry("apiVersion") {
        Some(entry) if entry.node.text() == Some(API_VERSION) => {}
        Some(entry) if entry.node.text().is_some_and(|text| text.starts_with(GROUP)) => {
            checker.refuse(entry.node.place, "apiVersion", format!("this release knows {API_VERSION} only"));
        }
        Some(entry) => {
            let message = format!("expected {API_VERSION}, found {}", entry.node.describe());
            checker.refuse(entry.node.place, "apiVersion", message);
            return None;
        }
        None => checker.refuse(node.place, "apiVersion", format!("is missing: write apiVersion: {API_VERSION}")),
    }
    let names = Kind::ALL.map(Kind::name);
    let Some(entry) = node.entry("kind") else {
        checker.refuse(node.place, "kind", format!("is missing: one of {}", names.join(", ")));
        return None;
    };
    let kind = entry.node.text().and_then(Kind::from_name);
    if kind.is_none() {
        let hint = config::hint(entry.node.text().unwrap_or_default(), names);
        checker.refuse(
            entry.node.place,
            "kind",
            format!("{} is none of {}{hint}", entry.node.describe(), names.join(", ")),
        );
    }
    kind
}

/// Checks `metadata`, and gives the resource's namespace and name as one text.
fn check_metadata(checker: &mut Checker<'_>, node: &Node) -> Option<String> {
    let Some(metadata) = node.get("metadata") else {
        checker.refuse(node.place, "metadata.name", "is missing");
        return None;
    };
    for entry in metadata.entries().iter().filter(|entry| !METADATA_FIELDS.contains(&entry.key.as_str())) {
        checker.unknown(entry, "metadata", METADATA_FIELDS);
    }
    for key in ["labels", "annotations"] {
        if let Some(map) = metadata.get(key) {
            let texts =
                serde_json::json!({"type": "object", "additionalProperties": {"type": "string"}, "nullable": true});
            checker.check(map, &texts, &format!("metadata.{key}"));
        }
    }
    let Some(entry) = metadata.entry("name") else {
        checker.refuse(metadata.place, "metadata.name", "is missing");
        return None;
    };
    let Some(name) = entry.node.text().filter(|name| is_resource_name(name)) else {
        let message = format!(
            "{} is no name of a resource: lower-case letters, digits, '-' and '.', beginning and ending with a letter or \
             digit, at most {NAME_CHARS_MAX}",
            entry.node.describe()
        );
        checker.refuse(entry.node.place, "metadata.name", message);
        return None;
    };
    let namespace = metadata.get("namespace").and_then(Node::text).unwrap_or("default");
    Some(format!("{namespace}/{name}"))
}

/// Whether Kubernetes takes `name` for a resource (RFC 1123, a subdomain).
fn is_resource_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        part.bytes().all(|byte| inner(byte) || byte == b'-')
            && part.bytes().next().is_some_and(inner)
            && part.bytes().last().is_some_and(inner)
    };
    name.len() <= NAME_CHARS_MAX && name.split('.').all(part)
}

fn fill<T: DeserializeOwned>(into: &mut Vec<Loaded<T>>, node: Node, origin: Origin) -> Result<(), (Place, String)> {
    let mut json = node.to_json();
    if let Some(document) = json.as_object_mut() {
        // A report is never an input.
        document.remove("status");
    }
    let resource = serde_json::from_value(json).map_err(|error| (node.place, error.to_string()))?;
    into.push(Loaded { resource, origin, node });
    Ok(())
}
