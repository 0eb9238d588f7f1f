//! Brokers come, serve, fall silent and go.
//!
//! A registration is fenced at first: its broker may neither lead nor count as in sync until it has caught up with the
//! metadata. A new process under a known id starts over, and the epoch of its registration shuts out what the earlier
//! process may still send.

use std::sync::Arc;

use super::draft::Draft;
use super::{BrokerIdentity, ControlError, Inputs, RegisterBroker, Reply, elections};
use crate::errors::ErrorCode;
use crate::event::{BrokerRegistration, MetadataEvent};
use crate::ids::{BrokerId, Uuid};

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
    let image = draft.image();
    if let (Some(ours), Some(theirs)) = (image.cluster_id(), request.cluster_id)
        && ours != theirs
    {
        return Err(inconsistent_cluster(ours, theirs));
    }
    if request.id.0 < 0 {
        return Err(ControlError::new(ErrorCode::InvalidRequest, format!("Invalid broker id {}.", request.id)));
    }
    if request.listeners.is_empty() {
        return Err(ControlError::new(ErrorCode::InvalidRegistration, "A broker must have at least one listener."));
    }
    if let Some(known) = image.broker(request.id) {
        if known.incarnation == request.incarnation {
            // The answer to the first try was lost.
            return Ok(known.epoch);
        }
        if !known.fenced && inputs.live_brokers.contains(&request.id) {
            let text = "Another broker is registered with that broker id.";
            return Err(ControlError::new(ErrorCode::DuplicateBrokerRegistration, text));
        }
    }
    let old = image.broker(request.id).is_some_and(|known| !known.fenced);
    if old {
        elections::resign(draft, request.id);
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
    })));
    Ok(epoch)
}

pub(super) fn unfence(draft: &mut Draft, broker: BrokerIdentity) -> Result<Reply, ControlError> {
    if check_identity(draft, broker)?.fenced {
        draft.emit(MetadataEvent::BrokerUnfenced { broker: broker.id, epoch: broker.epoch });
        elections::stand(draft, broker.id);
    }
    Ok(Reply::Done)
}

pub(super) fn fence(draft: &mut Draft, broker: BrokerIdentity) -> Result<Reply, ControlError> {
    if !check_identity(draft, broker)?.fenced {
        elections::resign(draft, broker.id);
        draft.emit(MetadataEvent::BrokerFenced { broker: broker.id, epoch: broker.epoch });
    }
    Ok(Reply::Done)
}

pub(super) fn unregister(draft: &mut Draft, id: BrokerId) -> Result<Reply, ControlError> {
    let broker = Arc::clone(draft.image().broker(id).ok_or_else(|| not_registered(id))?);
    if !broker.fenced {
        elections::resign(draft, id);
    }
    draft.emit(MetadataEvent::BrokerUnregistered { broker: id, epoch: broker.epoch });
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
