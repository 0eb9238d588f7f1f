//! `taffrail metrics`: what a process's metrics say now, as Prometheus would read them or as data.

mod exposition;
mod scrape;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use taffrail_runtime::task;

use self::exposition::{Family, families};
pub(super) use self::scrape::scrape;
use super::output::shown;
use super::{Format, completion, context, print, table, write};
use crate::exit::Exit;
use crate::nodes;

/// Where a process's metrics most likely are.
pub(super) const LOCAL: &str = "127.0.0.1:9404";

/// Arguments of `metrics`.
#[derive(Args, Debug)]
#[command(after_help = "With -o table it prints what came, word for word.")]
pub(crate) struct MetricsArgs {
    /// Only metrics whose names contain this
    #[arg(value_name = "TEXT")]
    part: Option<String>,
    /// Address of the process's metrics [default: that of the context, or 127.0.0.1:9404]
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// The context that has the address [default: the one in use, see `taffrail context`]
    #[arg(long, value_name = "NAME", env = "TAFFRAIL_CONTEXT", add = completion::contexts())]
    context: Option<String>,
    /// The few that tell how the cluster is
    #[arg(long)]
    summary: bool,
    /// How long to wait, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    timeout_ms: u64,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Carries out `metrics`.
pub(super) fn run(args: &MetricsArgs) -> anyhow::Result<Exit> {
    let address = args.address()?;
    let path = if args.summary { "/metrics/summary" } else { "/metrics" };
    let timeout = Duration::from_millis(args.timeout_ms);
    let text = task::block_on(1, scrape(&address, path, timeout))??;
    let mut families = families(&text);
    if let Some(part) = &args.part {
        families.retain(|family| family.name.contains(part.as_str()));
    }
    match (args.output, &args.part) {
        // Labels have names from strangers, which may not command the terminal.
        (Format::Table | Format::Wide, None) if io::stdout().is_terminal() => write(&shown(&text))?,
        (Format::Table | Format::Wide, None) => write(&text)?,
        (Format::Table | Format::Wide, Some(_)) => {
            let samples = families.iter().flat_map(|family| &family.samples);
            let row = |it: &exposition::Sample| vec![it.name.clone(), it.labels_text(), it.value.clone()];
            write(&table(&["METRIC", "LABELS", "VALUE"], &samples.map(row).collect::<Vec<_>>()))?;
        }
        (output, _) => {
            let data: Vec<_> = families.iter().map(Family::data).collect();
            print(output, &json!({ "families": data }), String::new)?;
        }
    }
    Ok(Exit::Done)
}

impl MetricsArgs {
    fn address(&self) -> anyhow::Result<String> {
        if let Some(address) = &self.address {
            nodes::check_addresses("--address", std::slice::from_ref(address))?;
            return Ok(address.clone());
        }
        let chosen = context::chosen(self.context.as_deref())?.and_then(|context| context.metrics);
        Ok(chosen.unwrap_or_else(|| LOCAL.to_owned()))
    }
}
