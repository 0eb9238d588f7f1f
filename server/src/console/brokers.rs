//! Brokers: what each carries, and how full its disk is.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use taffrail_client::kafka::{KafkaError, LogDir};
use taffrail_core::event::BrokerDuty;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_runtime::time;

use super::Console;
use crate::exit::told;
use crate::nodes::address;

/// How long all brokers together may take to tell of their disks.
const DISKS_TIMEOUT: Duration = Duration::from_secs(3);

/// What brokers tell of their disks, or why they do not.
pub(super) type Disks = BTreeMap<BrokerId, Result<Vec<LogDir>, String>>;

/// All brokers.
pub(super) async fn read(console: &Console) -> Value {
    let image = console.image();
    let disks = console.disks.get(disks(console, &image)).await;
    let brokers: Vec<Value> = image.brokers().keys().map(|id| broker(&image, *id, disks.get(id))).collect();
    json!({ "atMs": time::unix_ms(), "brokers": brokers })
}

/// Asks brokers that are there, one after the other; those that the time does not suffice for are left out.
async fn disks(console: &Console, image: &MetadataImage) -> Disks {
    let deadline = time::monotonic() + DISKS_TIMEOUT;
    let mut disks = Disks::new();
    for id in image.brokers().keys().filter(|id| image.is_active(**id)) {
        let Ok(outcome) = time::timeout_at(deadline, dirs(console, *id)).await else { break };
        disks.insert(*id, outcome.map_err(|error| told(&error.into())));
    }
    disks
}

async fn dirs(console: &Console, id: BrokerId) -> Result<Vec<LogDir>, KafkaError> {
    let mut client = console.clients.take().await?;
    let dirs = client.log_dirs(id.0, Some(&[])).await?;
    console.clients.give_back(client);
    Ok(dirs)
}

fn broker(image: &MetadataImage, id: BrokerId, disks: Option<&Result<Vec<LogDir>, String>>) -> Value {
    let registration = image.broker(id);
    let load = image.replica_index().load(id);
    let duty = match image.duty(id) {
        BrokerDuty::Serving => "serving",
        BrokerDuty::Cordoned => "cordoned",
        BrokerDuty::Draining => "draining",
    };
    let dir = |dir: &LogDir| json!({ "path": dir.path, "totalBytes": dir.total_bytes, "usableBytes": dir.usable_bytes, "error": dir.error });
    let (dirs, error) = match disks {
        Some(Ok(dirs)) => (dirs.iter().map(dir).collect(), None),
        Some(Err(error)) => (Vec::new(), Some(error)),
        None => (Vec::new(), None),
    };
    json!({
        "id": id.0,
        "address": registration.and_then(|it| it.listeners.first()).map(|it| address(&it.host, it.port)),
        "rack": registration.and_then(|it| it.rack.as_deref()),
        "fenced": registration.is_none_or(|it| it.fenced),
        "leaving": registration.is_some_and(|it| it.shutting_down),
        "duty": duty,
        "replicas": load.replicas,
        "leaders": load.leads,
        "preferred": load.preferred,
        "dirs": dirs,
        "error": error,
    })
}
