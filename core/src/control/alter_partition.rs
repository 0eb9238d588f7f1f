//! Leaders change the ISR of what they lead (Kafka's AlterPartition, KIP-497, KIP-841, KIP-903).
//!
//! Four fences stand before a change: the broker's epoch, the leader epoch, the partition epoch, and for every member of
//! the new ISR the epoch that it showed when it fetched. So a leader that does not know yet that it was replaced, or that a
//! follower was restarted in between, changes nothing. Codes and their order are those of Kafka's
//! `ReplicationControlManager.validateAlterPartitionData`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::draft::Draft;
use super::partition_change::PartitionChange;
use super::topic_rules::DefaultRules;
use super::{AlterPartition, AlteredPartition, BrokerIdentity, ControlError, IsrChange, Outcome, brokers, elections};
use crate::errors::ErrorCode;
use crate::event::PartitionState;
use crate::ids::BrokerId;
use crate::image::MetadataImage;
use crate::planted::{PlantedBug, is_planted};

/// Epoch of a member of an ISR that is not checked.
const ANY_EPOCH: i64 = -1;

pub(super) fn alter(
    draft: &mut Draft,
    request: &AlterPartition,
    rules: DefaultRules,
) -> Outcome<Vec<AlteredPartition>> {
    brokers::check_identity(draft, request.broker)?;
    let alter = |change: &IsrChange| AlteredPartition {
        topic_id: change.topic_id,
        partition: change.partition,
        outcome: alter_one(draft, request.broker.id, change, rules),
    };
    Ok(request.partitions.iter().map(alter).collect())
}

fn alter_one(
    draft: &mut Draft,
    leader: BrokerId,
    change: &IsrChange,
    rules: DefaultRules,
) -> Outcome<Arc<PartitionState>> {
    let image = draft.image();
    let topic = image.topic_by_id(change.topic_id).ok_or(ControlError::bare(ErrorCode::UnknownTopicId))?;
    let state = topic.partition(change.partition).ok_or(ControlError::bare(ErrorCode::UnknownTopicOrPartition))?;
    check(image, state, leader, change)?;
    let isr = change.isr.iter().map(|member| member.id).collect();
    let may_lead = |id| image.may_lead(id);
    let changed = PartitionChange::new(state, rules.of(image, &topic.name), &may_lead)
        .isr(isr)
        .recovering(change.recovering)
        .build();
    let Some(next) = changed else { return Ok(Arc::clone(state)) };
    let (key, next_leader) = ((change.topic_id, change.partition), next.leader);
    elections::emit(draft, key, next);
    if next_leader != leader {
        // The change ended a reassignment that takes the leader away. It is done, and the leader has to learn who leads.
        return Err(ControlError::bare(ErrorCode::NewLeaderElected));
    }
    draft.image().partition(key).cloned().ok_or(ControlError::bare(ErrorCode::UnknownTopicOrPartition))
}

fn check(image: &MetadataImage, state: &PartitionState, leader: BrokerId, change: &IsrChange) -> Outcome<()> {
    let refuse = |code, text: String| Err(ControlError::new(code, text));
    // Who knows more than this controller has heard from another one, which is the active one now.
    if change.leader_epoch > state.leader_epoch || change.partition_epoch > state.partition_epoch {
        return refuse(ErrorCode::NotController, "This controller has not seen these epochs yet.".to_owned());
    }
    if change.leader_epoch < state.leader_epoch {
        return refuse(ErrorCode::FencedLeaderEpoch, format!("The leader epoch is {}.", state.leader_epoch));
    }
    if leader != state.leader {
        return refuse(ErrorCode::InvalidRequest, format!("The leader is {}, not {leader}.", state.leader));
    }
    if change.partition_epoch < state.partition_epoch && !is_planted(PlantedBug::StalePartitionEpochAccepted) {
        return refuse(ErrorCode::InvalidUpdateVersion, format!("The partition epoch is {}.", state.partition_epoch));
    }
    let members: BTreeSet<BrokerId> = change.isr.iter().map(|member| member.id).collect();
    if members.len() != change.isr.len() || !members.iter().all(|id| state.replicas.contains(id)) {
        return refuse(ErrorCode::InvalidRequest, "The ISR must consist of different replicas.".to_owned());
    }
    if !members.contains(&leader) {
        return refuse(ErrorCode::InvalidRequest, "The ISR must contain the leader.".to_owned());
    }
    if change.recovering && (members.len() > 1 || !state.recovering) {
        let text = "A leader is recovering only after an unclean election, and alone in the ISR until then.";
        return refuse(ErrorCode::InvalidRequest, text.to_owned());
    }
    for member in &change.isr {
        if let Some(why) = ineligible(image, *member) {
            return refuse(ErrorCode::IneligibleReplica, format!("Broker {} may not be in the ISR: {why}.", member.id));
        }
    }
    Ok(())
}

/// Why a broker may not be in an ISR.
fn ineligible(image: &MetadataImage, member: BrokerIdentity) -> Option<String> {
    match image.broker(member.id) {
        None => Some("it is not registered".to_owned()),
        Some(broker) if broker.shutting_down => Some("it is shutting down".to_owned()),
        Some(broker) if broker.fenced => Some("it is fenced".to_owned()),
        Some(_) if is_planted(PlantedBug::StaleBrokerEpochAccepted) => None,
        Some(broker) if member.epoch != ANY_EPOCH && member.epoch != broker.epoch => {
            Some(format!("its epoch is {}, not {}", broker.epoch, member.epoch))
        }
        Some(_) => None,
    }
}
