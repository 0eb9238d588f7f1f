//! The way of a command to the controllers: where they are, how long to wait for them, how to print what they say.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use taffrail_client::controller::ControllerClient;
use taffrail_core::control::{Command, Reply, RestartVerdict, SmallPartitions};
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::Update;
use taffrail_runtime::time;

use super::{Format, context};
use crate::nodes;
use crate::options::OptionsError;

/// Where the controllers are, and how to print what they say.
#[derive(Args, Debug)]
pub(crate) struct AskArgs {
    /// Addresses of the controllers [default: those of the context]
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', env = "TAFFRAIL_CONTROLLERS")]
    controllers: Vec<String>,
    /// The context that has their addresses [default: the one in use, see `taffrail context`]
    #[arg(long, value_name = "NAME", env = "TAFFRAIL_CONTEXT")]
    context: Option<String>,
    /// File with the secret that all processes of the cluster share
    #[arg(long, value_name = "FILE", env = "TAFFRAIL_CLUSTER_SECRET_FILE")]
    cluster_secret_file: Option<PathBuf>,
    /// How long to wait for them, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    timeout_ms: u64,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl AskArgs {
    /// Where the controllers are: as the flag says, or the context.
    fn addresses(&self) -> anyhow::Result<Vec<String>> {
        if !self.controllers.is_empty() {
            return Ok(self.controllers.clone());
        }
        let chosen = context::chosen(self.context.as_deref())?.unwrap_or_default();
        if chosen.controllers.is_empty() {
            let text = "--controllers HOST:PORT,... is needed, or a context that has them (`taffrail context add`)";
            return Err(OptionsError::Conflict(text.to_owned()).into());
        }
        Ok(chosen.controllers)
    }
}

/// The way to the controllers.
pub(super) struct Asked {
    pub(super) client: ControllerClient,
    pub(super) timeout: Duration,
    pub(super) output: Format,
}

impl Asked {
    pub(super) fn of(args: &AskArgs) -> anyhow::Result<Self> {
        let controllers = args.addresses()?;
        nodes::check(0, &controllers)?;
        let secret = nodes::cluster_secret(args.cluster_secret_file.as_deref())?;
        let members = controllers.iter().map(|address| nodes::controller(address, secret.as_ref())).collect();
        let timeout = Duration::from_millis(args.timeout_ms);
        Ok(Self { client: ControllerClient::new(members)?, timeout, output: args.output })
    }

    /// Has the controllers carry out `command`.
    pub(super) async fn propose(&self, command: Command) -> anyhow::Result<Reply> {
        Ok(self.client.propose(&command, self.timeout).await?.reply)
    }

    /// Whether `brokers` may be taken down together.
    pub(super) async fn judge(
        &self,
        brokers: BTreeSet<BrokerId>,
        policy: SmallPartitions,
    ) -> anyhow::Result<RestartVerdict> {
        Ok(self.client.judge_restart(brokers, policy, self.timeout).await?)
    }

    /// The metadata as they are now.
    pub(super) async fn image(&self) -> anyhow::Result<MetadataImage> {
        let status = self.client.status(self.timeout).await?;
        let mut image = MetadataImage::default();
        let mut stream = self.client.follow(0, status.cluster_id, self.timeout).await?;
        let reading = async {
            while image.offset() < status.metadata_offset {
                match stream.next().await? {
                    Some(Update::Snapshot(snapshot)) => image = snapshot,
                    Some(Update::Events(batch)) => batch.events.iter().try_for_each(|event| image.apply(event))?,
                    None => bail!("the controller ended the stream of metadata"),
                }
            }
            Ok(())
        };
        time::timeout(self.timeout, reading).await.map_err(|_| anyhow!("the metadata did not come in time"))??;
        Ok(image)
    }
}
