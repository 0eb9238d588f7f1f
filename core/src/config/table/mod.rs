//! The rows of the table, one file for each area.
//!
//! Names, types, defaults, valid values and ways of updating are Kafka 4.4's, checked against the answers of a running
//! Kafka 4.4 (`e2e/cases/golden/describe_configs_*.json`).

mod cluster;
mod groups;
mod log;
mod network;
mod new_groups;
mod process;
mod remote;
mod security;
mod topic;
mod transactions;

use super::setting::{Scope, Setting};

/// All rows, area by area.
const AREAS: [&[Setting]; 10] = [
    topic::SETTINGS,
    log::SETTINGS,
    network::SETTINGS,
    groups::SETTINGS,
    transactions::SETTINGS,
    cluster::SETTINGS,
    new_groups::SETTINGS,
    security::SETTINGS,
    remote::SETTINGS,
    process::SETTINGS,
];

/// Every setting of `scope`, area by area, within an area by name.
pub fn settings(scope: Scope) -> impl Iterator<Item = &'static Setting> {
    AREAS.iter().flat_map(|area| area.iter()).filter(move |setting| setting.scope == scope)
}

/// The setting of this name, if there is one.
pub fn find(scope: Scope, name: &str) -> Option<&'static Setting> {
    AREAS.iter().find_map(|area| {
        let row = &area[area.binary_search_by_key(&name, |setting| setting.name).ok()?];
        (row.scope == scope).then_some(row)
    })
}
