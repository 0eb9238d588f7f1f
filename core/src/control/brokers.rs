//! Brokers come, serve, fall silent and go.
//!
//! A registration is fenced at first: its broker may neither lead nor count as in sync until it has caught up with the
//! metadata. A new process under a known id starts over, and the epoch of its registration shuts out what the earlier
//! process may still send. What its disks may have lost meanwhile it is no longer trusted with: a disk that was not there
//! before has nothing, and after an unclean stop the tail may be gone.

use std::sync::Arc;

use super::draft::Draft;
use super::partition_change::Loss;
use super::topic_rules::DefaultRules;
use super::{BrokerIdentity, ControlError, Inputs, RegisterBroker, Reply, elections};
use crate::errors::ErrorCode;
use crate::event::{BrokerDuty, BrokerRegistration, MetadataEvent};
use crate::ids::{BrokerId, Uuid};
use crate::image::MetadataImage;
use crate::planted::{PlantedBug, is_planted};

pub(super) fn create_cluster(draft: &mut Draft, cluster_id: Uuid) -> Result<(), ControlError> {
    match draft.image().cluster_id() {
        None => draft.emit(MetadataEvent::ClusterCreated { cluster_id }),
        // The answer to the first try was lost.
        Some(existing) if existing == cluster_id => {}
        Some(existing) => return Err(inconsistent_cluster(existing, cluster_id)),
    }
    Ok(())
}

pub(super) fn register(draft: &mut Draft, request: &RegisterBroker, inputs: &Inputs<'_>) -> Result<i64, ControlError> {
    check_request(draft.image(), request)?;
    let known = draft.image().broker(request.id).cloned();
    if let Some(known) = &known {
        if known.incarnation == request.incarnation {
            // The answer to the first try was lost.
            return Ok(known.epoch);
        }
        if !known.fenced && inputs.live_brokers.contains(&request.id) {
            let text = "Another broker is registered with that broker id.";
            return Err(ControlError::new(ErrorCode::DuplicateBrokerRegistration, text));
        }
    }
    let rules = inputs.rules(draft.image());
    if known.as_ref().is_some_and(|known| !known.fenced) {
        elections::resign(draft, rules, request.id);
    }
    if let Some(loss) = known.as_ref().and_then(|known| loss(known, request)) {
        elections::lose(draft, rules, request.id, loss);
    }
    // Offsets rise, so the offset of the registration's own event is an epoch that nobody had before.
    let epoch = draft.image().offset() + 1;
    draft.emit(MetadataEvent::BrokerRegistered(Arc::new(BrokerRegistration {
        id: request.id,
        epoch,
        incarnation: request.incarnation,
        rack: request.rack.clone(),
        listeners: request.listeners.clone(),
        log_dirs: request.log_dirs.clone(),
        features: request.features.clone(),
        fenced: true,
        shutting_down: false,
        min_in_sync: request.min_in_sync,
    })));
    Ok(epoch)
}

/// What the broker's disks have lost since the registration before. Which partition lies on which disk is not known here,
/// so a single directory that is missing casts doubt on all.
fn loss(known: &BrokerRegistration, request: &RegisterBroker) -> Option<Loss> {
    if known.log_dirs.iter().any(|directory| !request.log_dirs.contains(directory)) {
        return Some(Loss::All);
    }
    (request.unclean_shutdown && !is_planted(PlantedBug::MachineLossHidden)).then_some(Loss::Tail)
}

fn check_request(image: &MetadataImage, request: &RegisterBroker) -> Result<(), ControlError> {
    if let (Some(ours), Some(theirs)) = (image.cluster_id(), request.cluster_id)
        && ours != theirs
    {
        return Err(inconsistent_cluster(ours, theirs));
    }
    if request.id.0 < 0 {
        return Err(ControlError::new(ErrorCode::InvalidRequest, format!("Invalid broker id {}.", request.id)));
    }
    let refuse = |text: String| Err(ControlError::new(ErrorCode::InvalidRegistration, text));
    if request.listeners.is_empty() {
        return refuse("A broker must have at least one listener.".to_owned());
    }
    for (index, directory) in request.log_dirs.iter().enumerate() {
        if directory.is_zero() {
            return refuse("Reserved directory ID in request".to_owned());
        }
        if request.log_dirs[..index].contains(directory) {
            return refuse("Duplicate directory ID in request".to_owned());
        }
        let others = image.brokers().values().filter(|broker| broker.id != request.id);
        if let Some(other) = others.into_iter().find(|broker| broker.log_dirs.contains(directory)) {
            return refuse(format!("Broker {} is already registered with directory {directory}", other.id));
        }
    }
    Ok(())
}

pub(super) fn unfence(draft: &mut Draft, broker: BrokerIdentity, rules: DefaultRules) -> Result<Reply, ControlError> {
    if check_identity(draft, broker)?.fenced {
        draft.emit(MetadataEvent::BrokerUnfenced { broker: broker.id, epoch: broker.epoch });
        elections::stand(draft, rules, broker.id);
    }
    Ok(Reply::Done)
}

pub(super) fn fence(draft: &mut Draft, broker: BrokerIdentity, rules: DefaultRules) -> Result<Reply, ControlError> {
    if !check_identity(draft, broker)?.fenced {
        if !is_planted(PlantedBug::FencedKeepsLeading) {
            elections::resign(draft, rules, broker.id);
        }
        draft.emit(MetadataEvent::BrokerFenced { broker: broker.id, epoch: broker.epoch });
    }
    Ok(Reply::Done)
}

/// The broker wants to stop: it hands over all that it leads and leaves every ISR in order, while it still serves. It may
/// go when the others have seen that, and is fenced then.
pub(super) fn begin_shutdown(
    draft: &mut Draft,
    broker: BrokerIdentity,
    rules: DefaultRules,
) -> Result<Reply, ControlError> {
    let known = check_identity(draft, broker)?;
    if !known.fenced && !known.shutting_down {
        draft.emit(MetadataEvent::BrokerShuttingDown { broker: broker.id, epoch: broker.epoch });
        elections::resign(draft, rules, broker.id);
    }
    Ok(Reply::Done)
}

/// A broker goes for good. Should its number ever come back, nobody could tell whether with the same disk, so it counts as
/// having lost everything.
pub(super) fn unregister(draft: &mut Draft, id: BrokerId, rules: DefaultRules) -> Result<Reply, ControlError> {
    let broker = Arc::clone(draft.image().broker(id).ok_or_else(|| not_registered(id))?);
    elections::lose(draft, rules, id, Loss::All);
    draft.emit(MetadataEvent::BrokerUnregistered { broker: id, epoch: broker.epoch });
    Ok(Reply::Done)
}

/// Changes what a registered broker is used for.
pub(super) fn set_duty(draft: &mut Draft, id: BrokerId, duty: BrokerDuty) -> Result<Reply, ControlError> {
    draft.image().broker(id).ok_or_else(|| not_registered(id))?;
    if draft.image().duty(id) != duty {
        draft.emit(MetadataEvent::BrokerDutyChanged { broker: id, duty });
    }
    Ok(Reply::Done)
}

/// The registration of the very process that `broker` names.
pub(super) fn check_identity(draft: &Draft, broker: BrokerIdentity) -> Result<Arc<BrokerRegistration>, ControlError> {
    let known = draft.image().broker(broker.id).ok_or_else(|| not_registered(broker.id))?;
    if known.epoch == broker.epoch {
        return Ok(Arc::clone(known));
    }
    Err(ControlError::new(
        ErrorCode::StaleBrokerEpoch,
        format!("Expected broker epoch {}, but got broker epoch {}", known.epoch, broker.epoch),
    ))
}

fn not_registered(id: BrokerId) -> ControlError {
    ControlError::new(ErrorCode::BrokerIdNotRegistered, format!("Broker ID {id} is not currently registered"))
}

fn inconsistent_cluster(ours: Uuid, theirs: Uuid) -> ControlError {
    ControlError::new(
        ErrorCode::InconsistentClusterId,
        format!("Expected cluster ID {ours}, but got cluster ID {theirs}"),
    )
}
