//! The files of a broker: opened, and checked to be those of this broker in this cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use taffrail_core::config::BrokerConfig;
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_runtime::open_files::{self, Shares};
use taffrail_runtime::random;
use taffrail_storage::disk::Disk;
use taffrail_storage::disk::real::RealDisk;
use taffrail_storage::identity::MetaProperties;
use taffrail_storage::{Storage, StorageOptions};

use super::boot::Boots;

/// Files of partitions that are kept open at most, where the process may have very many.
const OPEN_FILES_MAX: usize = 16_384;

/// The partitions of one broker, open.
pub(crate) struct BrokerFiles {
    pub(crate) storage: Arc<Storage>,
    /// Whether the stop before may have cost records.
    pub(crate) boots: Boots,
    logs: PathBuf,
    id: BrokerId,
}

impl BrokerFiles {
    /// Opens the partitions of broker `id` in `logs`; the process has `sharers` brokers, which share its files out.
    ///
    /// # Errors
    /// When they are another broker's, or cannot be opened.
    pub(crate) async fn open(
        logs: PathBuf,
        id: BrokerId,
        config: &BrokerConfig,
        sharers: usize,
    ) -> anyhow::Result<Self> {
        let found = MetaProperties::read(&RealDisk::new(), &logs)?;
        if let Some(found) = &found
            && found.node_id != id.0
        {
            bail!("the partitions in {} belong to broker {}, not to broker {id}", logs.display(), found.node_id);
        }
        let storage = open_storage(&logs, config, sharers).await?;
        let is_new = found.is_none() && storage.logs().is_empty();
        let boots = Boots::check(&logs, is_new || storage.was_closed())?;
        Ok(Self { storage, boots, logs, id })
    }

    /// Makes sure that the partitions belong to this cluster, and gives the directory's own id. A new directory gets one, in
    /// Kafka's `meta.properties`.
    ///
    /// # Errors
    /// When they are another cluster's, or the directory cannot be written to.
    pub(crate) fn claim(&self, cluster_id: Uuid) -> anyhow::Result<Uuid> {
        let (disk, logs, id): (&dyn Disk, _, _) = (&RealDisk::new(), &self.logs, self.id);
        if let Some(found) = MetaProperties::read(disk, logs)? {
            if found.cluster_id != cluster_id.to_string() {
                bail!(
                    "the partitions in {} belong to node {} of cluster {}, not to node {id} of cluster {cluster_id}",
                    logs.display(),
                    found.node_id,
                    found.cluster_id
                );
            }
            return Ok(found.directory_id);
        }
        let own = MetaProperties { cluster_id: cluster_id.to_string(), node_id: id.0, directory_id: random::uuid() };
        own.write(disk, logs).with_context(|| format!("{} cannot be written to", logs.display()))?;
        Ok(own.directory_id)
    }

    /// Refuses to begin with empty partitions where there were some and nobody else has them: the folder of the partitions
    /// is gone, or its volume is not mounted. Served as empty, what is only away would look lost, and clients would begin
    /// anew at offset 0.
    ///
    /// # Errors
    /// With what to do about it.
    pub(crate) fn check_not_lost(&self, image: &MetadataImage) -> anyhow::Result<()> {
        let kept = image.topics().iter().flat_map(|topic| topic.replicas_of(self.id));
        let expected = kept.filter(|(_, state)| state.replicas == [self.id]).count();
        if expected == 0 || !self.is_empty()? {
            return Ok(());
        }
        bail!(
            "{} is empty, where the metadata know of {expected} partitions: mount or restore it, or begin anew with another \
             --data-dir",
            self.logs.display()
        )
    }

    fn is_empty(&self) -> anyhow::Result<bool> {
        Ok(self.storage.logs().is_empty() && MetaProperties::read(&RealDisk::new(), &self.logs)?.is_none())
    }
}

/// Opens the partitions in a folder.
async fn open_storage(path: &Path, config: &BrokerConfig, sharers: usize) -> anyhow::Result<Arc<Storage>> {
    let number = |value: i32| usize::try_from(value).unwrap_or(1);
    let options = StorageOptions {
        open_files_max: (Shares::of(open_files::limit()).partition_files / sharers.max(1)).min(OPEN_FILES_MAX),
        recovery_threads: number(config.num_recovery_threads_per_data_dir),
        retention_check_ms: config.log_retention_check_interval_ms,
        checkpoint_ms: i64::from(config.log_flush_offset_checkpoint_interval_ms),
        producer_expiration_ms: i64::from(config.producer_id_expiration_ms),
        producer_expiration_check_ms: i64::from(config.producer_id_expiration_check_interval_ms),
        high_watermark_ms: config.replica_high_watermark_checkpoint_interval_ms,
        compaction_map_bytes: usize::try_from(config.log_cleaner_dedupe_buffer_bytes).unwrap_or(usize::MAX),
        compaction_check_ms: config.log_cleaner_backoff_ms,
        compacts: config.log_cleaner_enable,
        ..StorageOptions::new(path)
    };
    let opened = Storage::open(options, Arc::new(RealDisk::new())).await;
    opened.with_context(|| format!("the partitions in {} cannot be opened", path.display()))
}

/// The cluster that the partitions in `logs` are of, if there ever were any.
///
/// # Errors
/// When the file that says so cannot be read.
pub(crate) fn known_cluster(logs: &Path) -> anyhow::Result<Option<Uuid>> {
    let found = MetaProperties::read(&RealDisk::new(), logs)?;
    Ok(found.and_then(|found| found.cluster_id.parse().ok()))
}
