//! The way to one cluster's controllers: its metadata as they are now, and proposals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use taffrail_client::controller::ControllerClient;
use taffrail_core::control::{Command, ControlError, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::{Quorum, Update, VoterChange};
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::grpc::Target;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{task, time};
use tokio::sync::{Notify, watch};

use crate::platform::{Platform, PlatformError};

/// How long a change may take.
const PROPOSE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a question may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a change of the controllers may take, which includes a copy of the metadata.
const MEMBERS_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause before the metadata are asked for again.
const AGAIN: Duration = Duration::from_millis(250);

/// A controller: its address as the cluster knows it, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Host and port by name.
    pub address: String,
    /// Host and port by number.
    pub place: String,
}

/// A connection to the controllers of one cluster.
pub struct Link {
    client: Arc<ControllerClient>,
    members: Vec<Member>,
    metadata: Arc<Metadata>,
    stop: Shutdown,
}

/// The metadata, as far as they have come.
struct Metadata {
    image: RwLock<Arc<MetadataImage>>,
    offset: watch::Sender<i64>,
    is_current: AtomicBool,
}

impl Metadata {
    fn image(&self) -> Arc<MetadataImage> {
        Arc::clone(&self.image.read())
    }

    fn set(&self, image: MetadataImage) {
        let offset = image.offset();
        *self.image.write() = Arc::new(image);
        self.offset.send_replace(offset);
    }
}

impl Link {
    /// Connects to these controllers. `known` are the metadata so far, `changed` is notified of newer ones.
    ///
    /// # Errors
    /// When a place is no address.
    pub fn connect(
        members: Vec<Member>,
        secret: &ClusterSecret,
        known: Arc<MetadataImage>,
        changed: Arc<Notify>,
    ) -> std::io::Result<Self> {
        let target = |member: &Member| (member.address.clone(), Target::Secured(member.place.clone(), secret.clone()));
        let client = Arc::new(ControllerClient::new(members.iter().map(target).collect())?);
        let metadata = Arc::new(Metadata {
            offset: watch::Sender::new(known.offset()),
            image: RwLock::new(known),
            is_current: AtomicBool::new(false),
        });
        let stop = Shutdown::new();
        task::spawn_until(stop.clone(), follow(Arc::clone(&client), Arc::clone(&metadata), changed));
        Ok(Self { client, members, metadata, stop })
    }

    /// Whom it is connected to.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether the metadata are those of now, as far as a stream that has not ended can tell.
    pub fn is_current(&self) -> bool {
        self.metadata.is_current.load(Ordering::Acquire)
    }

    /// Who votes.
    ///
    /// # Errors
    /// When no controller answers, or none is active.
    pub async fn quorum(&self) -> Result<Quorum, ControlError> {
        self.client.describe_quorum(ASK_TIMEOUT).await
    }

    /// Changes who votes.
    ///
    /// # Errors
    /// The refusal.
    pub async fn change_voters(&self, change: &VoterChange) -> Result<(), ControlError> {
        self.client.change_voters(change, MEMBERS_TIMEOUT).await
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.trigger();
    }
}

impl Platform for Link {
    fn metadata(&self) -> Arc<MetadataImage> {
        self.metadata.image()
    }

    async fn propose(&self, command: Command) -> Result<Reply, PlatformError> {
        let committed = self.client.propose(&command, PROPOSE_TIMEOUT).await.map_err(|error| match error.code {
            ErrorCode::RequestTimedOut | ErrorCode::NotController => PlatformError::Unreachable(error.to_string()),
            _ => PlatformError::Refused(error),
        })?;
        let mut offset = self.metadata.offset.subscribe();
        let seen = time::timeout(ASK_TIMEOUT, offset.wait_for(|offset| *offset >= committed.offset)).await;
        match seen {
            Ok(Ok(_)) => Ok(committed.reply),
            _ => Err(PlatformError::Unreachable("the metadata do not follow".to_owned())),
        }
    }
}

/// Follows the metadata without end.
async fn follow(client: Arc<ControllerClient>, metadata: Arc<Metadata>, changed: Arc<Notify>) {
    loop {
        let end = follow_once(&client, &metadata, &changed).await;
        metadata.is_current.store(false, Ordering::Release);
        changed.notify_one();
        tracing::debug!(reason = end, "the stream of metadata ended; asking again");
        time::sleep(AGAIN).await;
    }
}

/// Follows one stream to its end, and says why it ended.
async fn follow_once(client: &ControllerClient, metadata: &Metadata, changed: &Notify) -> String {
    let mut image = MetadataImage::clone(&metadata.image());
    // Only a cluster that was seen is named: to controllers that have not founded theirs, it says that it was founded before.
    let mut stream = match client.follow(image.offset() + 1, image.cluster_id(), ASK_TIMEOUT).await {
        Ok(stream) => stream,
        Err(error) => return error.to_string(),
    };
    metadata.is_current.store(true, Ordering::Release);
    loop {
        match stream.next().await {
            Ok(Some(Update::Snapshot(snapshot))) => image = snapshot,
            Ok(Some(Update::Events(batch))) => {
                let follows = batch.base_offset == image.offset() + 1;
                if !follows || batch.events.iter().any(|event| image.apply(event).is_err()) {
                    // What was applied is not what the controllers have: only all of it anew helps.
                    *metadata.image.write() = Arc::default();
                    return "the metadata do not fit".to_owned();
                }
            }
            Ok(None) => return "the controller ended it".to_owned(),
            Err(error) => return error.to_string(),
        }
        metadata.set(image.clone());
        changed.notify_one();
    }
}
