//! How many leaders of partitions a controller has elected and how many replicas it has taken out of ISRs and into them, and
//! what made it do so. They are counted by the controller that decided them, when they are committed, so that sums over all
//! controllers count nothing twice.

use parking_lot::Mutex;
use taffrail_core::control::Command;
use taffrail_core::event::MetadataEvent;
use taffrail_core::image::MetadataImage;

/// What made the controller change a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A broker was fenced: its session ended.
    BrokerFenced,
    /// A broker came back from another process than the one that was known.
    BrokerRestarted,
    /// A broker was unfenced, and partitions had nobody else.
    BrokerReturned,
    /// A broker hands over before it stops.
    BrokerStopping,
    /// A broker was unregistered.
    BrokerUnregistered,
    /// A follower fell behind or caught up, says its leader.
    Lag,
    /// Anything else.
    Other,
    /// The replicas changed.
    ReplicasChanged,
    /// An ElectLeaders request.
    Requested,
    /// A setting was changed, such as the permission for unclean elections.
    SettingsChanged,
    /// The controller's own upkeep, which gives leadership back to preferred leaders.
    Tended,
}

impl Cause {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 11] = [
        Self::BrokerFenced,
        Self::BrokerRestarted,
        Self::BrokerReturned,
        Self::BrokerStopping,
        Self::BrokerUnregistered,
        Self::Lag,
        Self::Other,
        Self::ReplicasChanged,
        Self::Requested,
        Self::SettingsChanged,
        Self::Tended,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BrokerFenced => "broker_fenced",
            Self::BrokerRestarted => "broker_restarted",
            Self::BrokerReturned => "broker_returned",
            Self::BrokerStopping => "broker_stopping",
            Self::BrokerUnregistered => "broker_unregistered",
            Self::Lag => "lag",
            Self::Other => "other",
            Self::ReplicasChanged => "replicas_changed",
            Self::Requested => "requested",
            Self::SettingsChanged => "settings_changed",
            Self::Tended => "tended",
        }
    }

    /// What the changes of a command are counted under.
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::FenceBroker(_) => Self::BrokerFenced,
            Command::RegisterBroker(_) => Self::BrokerRestarted,
            Command::UnfenceBroker(_) => Self::BrokerReturned,
            Command::BeginShutdown(_) => Self::BrokerStopping,
            Command::UnregisterBroker { .. } => Self::BrokerUnregistered,
            Command::AlterPartition(_) => Self::Lag,
            Command::ReassignPartitions(_) | Command::ChangeReplicationFactor(_) => Self::ReplicasChanged,
            Command::ElectLeaders(_) => Self::Requested,
            Command::AlterConfigs(_) => Self::SettingsChanged,
            Command::Tend(_) => Self::Tended,
            _ => Self::Other,
        }
    }
}

/// Numbers of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Leaders that were elected.
    pub elections: u64,
    /// Of these, those that may lack committed records.
    pub unclean: u64,
    /// Replicas that left an ISR and stay replicas.
    pub isr_shrinks: u64,
    /// Replicas that joined an ISR.
    pub isr_expands: u64,
}

impl Changes {
    /// Takes note of the next event of a command; `image` is as it was before the event.
    pub(crate) fn note(&mut self, image: &MetadataImage, event: &MetadataEvent) {
        let MetadataEvent::PartitionChanged { topic_id, partition, state: after } = event else { return };
        let Some(before) = image.partition((*topic_id, *partition)) else { return };
        if after.has_leader() && after.leader != before.leader {
            self.elections += 1;
            self.unclean += u64::from(after.recovering && !before.has_all_committed(after.leader));
        }
        let gone = before.isr.iter().filter(|id| after.replicas.contains(id) && !after.isr.contains(id));
        self.isr_shrinks += gone.count() as u64;
        self.isr_expands += after.isr.iter().filter(|id| !before.isr.contains(id)).count() as u64;
    }
}

/// The changes that one controller has made since it started.
#[derive(Debug, Default)]
pub(crate) struct ChangesMade {
    /// In the order of [`Cause::ALL`].
    by_cause: Mutex<[Changes; Cause::ALL.len()]>,
}

impl ChangesMade {
    /// Counts the changes of one command, which are committed.
    pub(crate) fn count(&self, cause: Cause, changes: Changes) {
        for (known, made) in Cause::ALL.into_iter().zip(self.by_cause.lock().iter_mut()) {
            if known == cause {
                made.elections += changes.elections;
                made.unclean += changes.unclean;
                made.isr_shrinks += changes.isr_shrinks;
                made.isr_expands += changes.isr_expands;
            }
        }
    }

    /// What has been counted, for each cause.
    pub(crate) fn by_cause(&self) -> impl Iterator<Item = (Cause, Changes)> + use<> {
        let made = *self.by_cause.lock();
        Cause::ALL.into_iter().zip(made)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use taffrail_core::event::PartitionState;
    use taffrail_core::ids::{BrokerId, Uuid};

    use super::*;

    #[test]
    fn elections_and_who_leaves_or_joins_an_isr_are_told_from_other_changes() {
        let topic_id = Uuid([1; 16]);
        let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        let state = PartitionState::new(brokers(&[1, 2, 3]), brokers(&[1, 2]));
        let changed =
            |state: PartitionState| MetadataEvent::PartitionChanged { topic_id, partition: 0, state: Arc::new(state) };
        let mut image = MetadataImage::default();
        let first = [
            MetadataEvent::ClusterCreated { cluster_id: Uuid([9; 16]) },
            MetadataEvent::TopicCreated { name: "t".into(), topic_id },
            MetadataEvent::PartitionCreated { topic_id, partition: 0, state: Arc::new(state.clone()) },
        ];
        let steps = [
            // Only the ISR; another leader; a replica less; nobody; one that was in no ISR.
            (PartitionState { isr: brokers(&[1, 2, 3]), ..state.clone() }, [0, 0, 0, 1]),
            (PartitionState { leader: BrokerId(2), isr: brokers(&[2, 3]), ..state.clone() }, [1, 0, 1, 1]),
            (
                PartitionState { replicas: brokers(&[1, 2]), leader: BrokerId(2), isr: brokers(&[2]), ..state.clone() },
                [1, 0, 1, 1],
            ),
            (PartitionState { leader: BrokerId::NONE, isr: Vec::new(), ..state.clone() }, [1, 0, 2, 1]),
            (PartitionState { leader: BrokerId(3), isr: brokers(&[3]), recovering: true, ..state }, [2, 1, 2, 2]),
        ];
        let mut changes = Changes::default();
        for event in first {
            changes.note(&image, &event);
            image.apply(&event).unwrap();
        }
        assert_eq!(changes, Changes::default(), "a first leader is not elected");
        for (state, [elections, unclean, isr_shrinks, isr_expands]) in steps {
            let event = changed(state);
            changes.note(&image, &event);
            image.apply(&event).unwrap();
            assert_eq!(changes, Changes { elections, unclean, isr_shrinks, isr_expands }, "{event:?}");
        }
    }

    #[test]
    fn changes_are_counted_under_their_cause_alone() {
        let made = ChangesMade::default();
        made.count(Cause::Requested, Changes { elections: 2, unclean: 1, isr_shrinks: 4, ..Changes::default() });
        made.count(Cause::Requested, Changes { elections: 1, isr_expands: 5, ..Changes::default() });
        let all = Changes { elections: 3, unclean: 1, isr_shrinks: 4, isr_expands: 5 };
        for (cause, changes) in made.by_cause() {
            let expected = if cause == Cause::Requested { all } else { Changes::default() };
            assert_eq!(changes, expected, "{}", cause.name());
        }
    }
}
