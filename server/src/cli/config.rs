//! `taffrail config`: settings in effect, and the documentation that is made from definitions.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use serde_json::json;
use taffrail_core::config::{self, Scope, Setting};
use taffrail_operator::local;

use super::{Cli, Format, ShowArgs, output, print, table};
use crate::exit::Exit;
use crate::options::{Given, Options, Source};
use crate::{commands_page, docs, metrics_page};

/// Prints the settings in effect, and where each comes from.
pub(super) fn show(args: &ShowArgs) -> anyhow::Result<Exit> {
    let mut given = args.settings.collect()?;
    let mut cluster = None;
    if !args.files.is_empty() {
        cluster = local::load(&args.files)?.cluster;
    }
    if let Some(cluster) = &cluster {
        for (name, value) in cluster.settings.at_start.iter().chain(&cluster.settings.dynamic) {
            given.set_from_cluster(&cluster.name, name, value)?;
        }
    }
    given.set_for_brokers(cluster.and_then(|cluster| cluster.brokers).unwrap_or(1))?;
    Options::resolve(&given)?;
    let shown =
        |setting: &&Setting| setting.scope == Scope::Process || args.all || given.source(setting.name).is_given();
    let settings = config::settings(Scope::Process).chain(config::settings(Scope::Broker)).filter(shown);
    let rows: Vec<Row> = settings.map(|setting| Row::of(setting, &given)).collect();
    let data = rows.iter().map(Row::to_json).collect();
    print(args.output, &data, || {
        let wide = args.output == Format::Wide;
        let headers: &[&str] = if wide {
            &["NAME", "VALUE", "SOURCE", "DEFAULT", "CHANGES", "DESCRIPTION"]
        } else {
            &["NAME", "VALUE", "SOURCE"]
        };
        table(headers, &rows.iter().map(|row| row.cells(wide)).collect::<Vec<_>>())
    })?;
    Ok(Exit::Done)
}

/// Prints the documentation page.
pub(super) fn docs() -> anyhow::Result<Exit> {
    output::write(&docs::page())?;
    Ok(Exit::Done)
}

/// Prints the documentation page of the metrics.
pub(super) fn metrics() -> anyhow::Result<Exit> {
    output::write(&metrics_page::page())?;
    Ok(Exit::Done)
}

/// Prints the documentation page of the commands.
pub(super) fn commands() -> anyhow::Result<Exit> {
    output::write(&commands_page::page())?;
    Ok(Exit::Done)
}

/// Arguments of `config man`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes a manual page of each command.
pub(super) fn man(args: &ManArgs) -> anyhow::Result<Exit> {
    let written = std::fs::create_dir_all(&args.dir).and_then(|()| clap_mangen::generate_to(Cli::command(), &args.dir));
    written.with_context(|| args.dir.display().to_string())?;
    Ok(Exit::Done)
}

struct Row {
    setting: &'static Setting,
    value: String,
    source: Source,
}

impl Row {
    fn of(setting: &'static Setting, given: &Given) -> Self {
        let value = match given.value(setting) {
            Some(_) if setting.sensitive() => "[hidden]".to_owned(),
            value => value.unwrap_or_default().to_owned(),
        };
        Self { setting, value, source: given.source(setting.name) }
    }

    fn to_json(&self) -> serde_json::Value {
        let source = match &self.source {
            Source::Default => json!({"kind": "default"}),
            Source::Brokers(count) => json!({"kind": "brokers", "count": count}),
            Source::Resource(name) => json!({"kind": "cluster", "name": name}),
            Source::File(file, line) => json!({"kind": "file", "name": file, "line": line}),
            Source::Environment(name) => json!({"kind": "environment", "name": name}),
            Source::Flag(name) => json!({"kind": "flag", "name": name}),
        };
        json!({
            "name": self.setting.name, "value": self.value, "source": source,
            "default": self.setting.default, "actedOn": self.setting.acted_on,
        })
    }

    fn cells(&self, wide: bool) -> Vec<String> {
        let mut cells = vec![self.setting.name.to_owned(), self.value.clone(), self.source.to_string()];
        if wide {
            let changes = docs::update_word(self.setting).to_owned();
            cells.extend([self.setting.default.unwrap_or_default().to_owned(), changes, self.setting.doc.to_owned()]);
        }
        cells
    }
}
