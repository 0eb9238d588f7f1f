//! `taffrail version`.

use serde_json::json;

use super::{VersionArgs, print};
use crate::exit::Exit;

/// The release of Kafka whose protocol is spoken.
const KAFKA: &str = "4.4";

pub(super) fn run(args: &VersionArgs) -> anyhow::Result<Exit> {
    let version = env!("CARGO_PKG_VERSION");
    let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let data = json!({"version": version, "kafka": KAFKA, "target": target});
    print(args.output, &data, || format!("taffrail {version} (speaks Kafka {KAFKA}, {target})\n"))?;
    Ok(Exit::Done)
}
