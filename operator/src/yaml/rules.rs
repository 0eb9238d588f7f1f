//! The rules of the schemas that are more than types: what an API server checks by CEL, for whom there is none.
//!
//! Each stands in a resource's type too, in the same words; a test holds both beside each other. Rules that compare with
//! what was there before are not among them: a file has no past.

use serde_json::Value as Json;

use super::check::Checker;
use super::node::{Node, Value};
use crate::crd::Kind;
use crate::kubernetes::quantity;

/// One rule.
pub struct Rule {
    /// Resources that it holds for.
    pub kind: Kind,
    /// Field that it is about, below `spec`; `[]` stands for every item of a list.
    pub path: &'static str,
    /// Part of it that is at fault, where that is not all of it.
    pub at: &'static str,
    /// What is said where it is broken.
    pub message: &'static str,
    /// Whether it holds for a value of the field.
    holds: fn(&Json) -> bool,
}

const fn rule(kind: Kind, path: &'static str, message: &'static str, holds: fn(&Json) -> bool) -> Rule {
    Rule { kind, path, at: "", message, holds }
}

/// All rules.
pub const RULES: &[Rule] = &[
    rule(
        Kind::Cluster,
        "",
        "config['default.replication.factor'] must be at or over config['min.insync.replicas']",
        |spec| at_most(&spec["config"]["min.insync.replicas"], &spec["config"]["default.replication.factor"]),
    ),
    rule(
        Kind::Cluster,
        "",
        "listeners[].advertised needs {id} in host or port, as each broker has an address of its own",
        each_broker_has_an_address,
    ),
    rule(Kind::Cluster, "", "rollout.strategy: RackParallel needs brokers.rack", |spec| {
        spec["rollout"]["strategy"] != "RackParallel" || has(&spec["brokers"], "rack")
    }),
    Rule { at: "metrics", ..rule(Kind::Cluster, "", "metrics: not yet", |spec| !has(spec, "metrics")) },
    rule(Kind::Cluster, "brokers.rack", "give either rack.zones or rack.topologyKey", |rack| {
        has(rack, "zones") != has(rack, "topologyKey")
    }),
    rule(Kind::Cluster, "brokers.storage.size", NO_QUANTITY, is_quantity),
    rule(Kind::Cluster, "brokers.storage.size", SMALL_DISK, is_large_enough),
    rule(Kind::Cluster, "brokers.storage.volumes", VOLUMES, is_empty),
    rule(Kind::Cluster, "controllers.replicas", "controllers.replicas must be 1, 3 or 5", |replicas| {
        matches!(replicas.as_i64(), Some(1 | 3 | 5))
    }),
    rule(Kind::Cluster, "controllers.storage.size", NO_QUANTITY, is_quantity),
    rule(Kind::Cluster, "controllers.storage.size", SMALL_DISK, is_large_enough),
    rule(Kind::Cluster, "controllers.storage.volumes", VOLUMES, is_empty),
    rule(Kind::Cluster, "listeners", "two listeners cannot have the same port", |listeners| {
        let ports: Vec<&Json> = listeners.as_array().into_iter().flatten().map(|listener| &listener["port"]).collect();
        ports.iter().all(|port| ports.iter().filter(|other| *other == port).count() == 1)
    }),
    rule(Kind::Cluster, "listeners", FIRST_LISTENER, |listeners| {
        let Some(first) = listeners.get(0) else { return true };
        let is_internal = first["type"].as_str().is_none_or(|type_| type_ == "Internal");
        first["port"] == 9092 && is_internal && !has(first, "advertised")
    }),
    rule(
        Kind::Cluster,
        "listeners[].advertised.host",
        "nobody can connect to an address that stands for all",
        |host| !matches!(host.as_str(), Some("0.0.0.0" | "::" | "[::]")),
    ),
    rule(Kind::Cluster, "listeners[].tls", "TLS: not yet", |tls| *tls != Json::Bool(true)),
    Rule {
        at: "auth",
        ..rule(Kind::Cluster, "listeners[]", "authentication: not yet", |listener| !has(listener, "auth"))
    },
    rule(Kind::Topic, "", "replicas must be at or over config['min.insync.replicas']", |spec| {
        at_most(&spec["config"]["min.insync.replicas"], &spec["replicas"])
    }),
    rule(Kind::Topic, "topicName", "topicName cannot be . or ..", |name| !matches!(name.as_str(), Some("." | ".."))),
    rule(Kind::Topic, "partitions", "more than the 10000 partitions that one request may create", |partitions| {
        partitions.as_i64().is_none_or(|partitions| partitions <= 10_000)
    }),
    rule(Kind::ConsumerGroup, "", "initialOffsets needs topics: a group that was never used has none", |spec| {
        !has(spec, "initialOffsets") || !is_empty(&spec["topics"])
    }),
    rule(Kind::ConsumerGroup, "", "initialOffsets needs management: Managed", |spec| {
        !has(spec, "initialOffsets") || spec["management"] == "Managed"
    }),
    rule(Kind::ConsumerGroup, "initialOffsets", "from: Timestamp needs timestamp, and only it does", |initial| {
        (initial["from"] == "Timestamp") == has(initial, "timestamp")
    }),
    Rule {
        at: "groupConfig",
        ..rule(Kind::ConsumerGroup, "", "settings of a group: not yet", |spec| !has(spec, "groupConfig"))
    },
    rule(Kind::ConsumerGroup, "lag", "lag.warn must be at or under lag.critical", |lag| {
        at_most(&lag["warn"], &lag["critical"])
    }),
    rule(Kind::ConsumerGroup, "reset", "to: Timestamp needs timestamp, and only it does", |reset| {
        (reset["to"] == "Timestamp") == has(reset, "timestamp")
    }),
    rule(Kind::ConsumerGroup, "reset", "to: Offset needs offset, and only it does", |reset| {
        (reset["to"] == "Offset") == has(reset, "offset")
    }),
    rule(Kind::ConsumerGroup, "reset", "to: ShiftBy needs shiftBy, and only it does", |reset| {
        (reset["to"] == "ShiftBy") == has(reset, "shiftBy")
    }),
    rule(Kind::ConsumerGroup, "reset", "ifActive: Park needs workloadRef", |reset| {
        reset["ifActive"] != "Park" || has(reset, "workloadRef")
    }),
];

const FIRST_LISTENER: &str =
    "by the first listener brokers reach each other: port 9092, type Internal, nothing advertised";
const NO_QUANTITY: &str = "not a quantity such as 10Gi";
const SMALL_DISK: &str = "a disk of less than 64Mi holds no log";
const VOLUMES: &str = "several volumes a broker: not yet";

/// Smallest disk.
const DISK_BYTES_MIN: i128 = 64 << 20;

/// Whether a field is given.
fn has(map: &Json, field: &str) -> bool {
    !map[field].is_null()
}

fn is_empty(list: &Json) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

/// A number, which settings may have in quotes.
fn number(value: &Json) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// Whether one is no more than the other, where both are given.
fn at_most(one: &Json, other: &Json) -> bool {
    number(one).zip(number(other)).is_none_or(|(one, other)| one <= other)
}

/// The number of bytes of a quantity, which may be written as a number.
fn bytes(size: &Json) -> Option<i128> {
    quantity::bytes(&size.as_str().map_or_else(|| size.to_string(), str::to_owned))
}

fn is_quantity(size: &Json) -> bool {
    bytes(size).is_some()
}

fn is_large_enough(size: &Json) -> bool {
    bytes(size).is_none_or(|bytes| bytes >= DISK_BYTES_MIN)
}

fn each_broker_has_an_address(spec: &Json) -> bool {
    if spec["brokers"]["replicas"].as_i64().is_none_or(|replicas| replicas < 2) {
        return true;
    }
    let names_id = |text: &Json| text.as_str().is_some_and(|text| text.contains("{id}"));
    let is_fine = |listener: &Json| {
        let advertised = &listener["advertised"];
        !has(advertised, "host") || names_id(&advertised["host"]) || names_id(&advertised["port"])
    };
    spec["listeners"].as_array().into_iter().flatten().all(is_fine)
}

impl Checker<'_> {
    /// Checks `spec` against the rules of its kind. Its types are right already.
    pub(super) fn check_rules(&mut self, kind: Kind, spec: &Node) {
        for rule in RULES.iter().filter(|rule| rule.kind == kind) {
            let steps: Vec<&str> = rule.path.split('.').filter(|step| !step.is_empty()).collect();
            self.check_rule(rule, spec, &steps, "spec".to_owned());
        }
    }

    fn check_rule(&mut self, rule: &Rule, node: &Node, steps: &[&str], path: String) {
        let Some((step, rest)) = steps.split_first() else {
            if !(rule.holds)(&node.to_json()) {
                let place = node.entry(rule.at).map_or(node.place, |entry| entry.place);
                let field = if rule.at.is_empty() { path } else { format!("{path}.{}", rule.at) };
                self.refuse(place, &field, rule.message);
            }
            return;
        };
        let name = step.trim_end_matches("[]");
        let Some(found) = node.get(name).filter(|found| found.value != Value::Null) else { return };
        match &found.value {
            Value::List(items) if name != *step => {
                for (index, item) in items.iter().enumerate() {
                    self.check_rule(rule, item, rest, format!("{path}.{name}[{index}]"));
                }
            }
            _ => self.check_rule(rule, found, rest, format!("{path}.{name}")),
        }
    }
}
