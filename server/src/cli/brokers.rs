//! The way of a command to brokers, over Kafka's protocol: where they are, how long to wait for them, how to print what they say.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use taffrail_client::kafka::{KafkaClient, KafkaError};

use super::{Format, completion, context, tell};
use crate::exit::{Exit, told};
use crate::nodes;

/// Where a broker most likely is that nobody has told of.
pub(super) const LOCAL: &str = "localhost:9092";

/// Where brokers are, and how to print what they say.
#[derive(Args, Debug)]
pub(crate) struct BrokersArgs {
    #[arg(
        short = 'b',
        long,
        visible_alias = "bootstrap-server",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        env = "TAFFRAIL_BROKERS",
        help = format!("Addresses of brokers to begin with: of this product, or of any that speaks Kafka's protocol [default: those \
                        of the context, or {LOCAL}]")
    )]
    brokers: Vec<String>,
    /// The context that has their addresses [default: the one in use, see `taffrail context`]
    #[arg(long, value_name = "NAME", env = "TAFFRAIL_CONTEXT", add = completion::contexts())]
    context: Option<String>,
    /// How long to wait for them, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    timeout_ms: u64,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Format,
}

impl BrokersArgs {
    /// A client of the cluster that these brokers are of.
    pub(super) async fn connect(&self) -> anyhow::Result<KafkaClient> {
        let addresses = self.addresses()?;
        let client = KafkaClient::connect(&addresses, Duration::from_millis(self.timeout_ms)).await;
        client.context("nobody to ask (start a cluster with `taffrail up`, or say by --brokers where one is)")
    }

    /// Where to begin: as the flag says, or the context, or on this machine.
    fn addresses(&self) -> anyhow::Result<Vec<String>> {
        if !self.brokers.is_empty() {
            nodes::check_addresses("--brokers", &self.brokers)?;
            return Ok(self.brokers.clone());
        }
        let chosen = context::chosen(self.context.as_deref())?;
        Ok(chosen.map_or_else(|| vec![LOCAL.to_owned()], |context| context.brokers))
    }

    /// Whether more is to be printed than by default.
    pub(super) fn is_wide(&self) -> bool {
        self.output == Format::Wide
    }
}

/// Tells each refusal, and gives what was done, with the exit code for all of it.
pub(super) fn settle<T>(outcomes: impl IntoIterator<Item = Result<T, KafkaError>>) -> (Vec<T>, Exit) {
    let (mut done, mut exit) = (Vec::new(), Exit::Done);
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => done.push(outcome),
            Err(error) => {
                tell(&format!("taffrail: {}", told(&error.into())));
                exit = Exit::Failed;
            }
        }
    }
    (done, exit)
}

/// A list of numbers, as in a column.
pub(super) fn numbers(numbers: &[i32]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// A number that may not be known, as in a column.
pub(super) fn known(number: Option<impl ToString>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// What was done to topics or groups, by their names, for programs.
pub(super) fn named(kind: &str, names: &[String]) -> Value {
    json!({ kind: names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>() })
}
