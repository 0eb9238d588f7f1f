//! Why conditions are as they are, and why events are told: closed lists, with what each means and what to do about it.
//!
//! `docs/kubernetes-reasons.md` is made of them; a test fails when it is stale. Conditions and events take these types and no
//! text, so there is no reason that the page does not have.

/// Defines a closed list of reasons: each with where it is seen, what it means and what to do.
macro_rules! reasons {
    ($(#[$attribute:meta])* $list:ident: $($name:ident, $seen:literal, $meaning:literal, $action:literal;)*) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $list {
            $(#[doc = $meaning] $name,)*
        }

        impl $list {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name in resources.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Where it is seen: kinds of resources and their conditions.
            pub const fn seen(self) -> &'static str {
                match self {
                    $(Self::$name => $seen,)*
                }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                }
            }

            /// What to do about it.
            pub const fn action(self) -> &'static str {
                match self {
                    $(Self::$name => $action,)*
                }
            }
        }
    };
}

reasons! {
    /// Why a condition is as it is.
    Reason:
    Serving, "Cluster, Topic: `Ready`",
        "It is as its resource says, and serves.",
        "Nothing.";
    Watched, "ConsumerGroup: `Ready`",
        "The group is known to its coordinator, and nothing that is asked for is left to do.",
        "Nothing.";
    Done, "Cluster: `Reconciling`; ConsumerGroup: `ResetComplete`",
        "What was asked for was done.",
        "Nothing.";
    Stopped, "Cluster: `Ready`",
        "The pods are gone because `spec.lifecycle` is `Stopped`; disks and identity stay.",
        "Set `spec.lifecycle: Running` to have it back with its data.";
    Asked, "Cluster: `Paused`",
        "`spec.paused` is set: the operator reports and changes nothing.",
        "Set `spec.paused: false` when your own work on the cluster is over.";
    Active, "Cluster: `QuorumHealthy`",
        "The controllers have an active one.",
        "Nothing.";
    NoneActive, "Cluster: `QuorumHealthy`",
        "No controller is active, or the operator reaches none: metadata cannot change, and no broker is restarted. Produce and fetch go on.",
        "Look at the controllers' pods and logs; a majority of them has to run and reach each other.";
    NoQuorum, "Cluster: `Ready`",
        "The same as `NoneActive`.",
        "See there. While a cluster is created this passes by itself.";
    BrokersMissing, "Cluster: `Ready`",
        "Fewer brokers serve than the spec asks for, and not because one is being restarted in turn.",
        "`kubectl get pods` shows which; a pod that is Pending says why in its events, one that crashes in its log.";
    PartitionsOffline, "Cluster: `Ready`",
        "Partitions have no leader: nobody can write or read them.",
        "Get a broker back that has them in sync: `status` of the Topics names the partitions and their replicas.";
    InvalidSpec, "Cluster, Topic, ConsumerGroup: `Ready`, `Stalled`",
        "The spec makes no sense, or asks for what is not acted on yet. Nothing is changed.",
        "The message names the field and what would be right.";
    NoImage, "Cluster: `Ready`, `Stalled`",
        "Neither the Cluster nor the operator names an image.",
        "Set `spec.template.image`, or install the chart with `image.repository` and `image.tag`.";
    SettingsRefused, "Cluster: `Stalled`",
        "The controllers refuse a setting in `spec.config`. Running brokers keep the ones that they have.",
        "The message names the setting and what would be right.";
    Scaling, "Cluster: `Reconciling`",
        "Nodes come or leave, and one that leaves gives its replicas away first; or partitions move to brokers with less than their share.",
        "Wait; the message says how many replicas are left.";
    CreatingPods, "Cluster: `Reconciling`",
        "Pods are made.",
        "Wait.";
    ReplacingPod, "Cluster: `Reconciling`",
        "A pod was deleted so that one as the spec says can come in its place.",
        "Wait.";
    AskingForGrant, "Cluster: `Reconciling`",
        "The controllers are asked whether a broker may be taken down now.",
        "Wait.";
    ReturningGrant, "Cluster: `Reconciling`",
        "A broker is back in sync, and leave to disrupt is given back.",
        "Wait.";
    Waiting, "Cluster: `Reconciling`",
        "The next step waits for what the message names.",
        "Usually nothing; when it is more than the time of a restart there is a condition `RolloutBlocked` too.";
    PodGoing, "Cluster: `status.rollout.blockedBy`",
        "A pod is being deleted.",
        "Wait. A pod on a node that is gone goes when its Node is deleted or marked out-of-service.";
    PodStarting, "Cluster: `status.rollout.blockedBy`",
        "A pod has not become ready yet.",
        "Wait; start-up has no deadline while recovery progresses.";
    PodBroken, "Cluster: `RolloutBlocked`, `status.rollout.blockedBy`",
        "A pod cannot run as the spec has it: its image cannot be pulled, it fits on no node, or it crashes.",
        "Put the spec right: it counts within seconds, and that pod is replaced first.";
    QuorumUnknown, "Cluster: `RolloutBlocked`, `status.rollout.blockedBy`",
        "It is not known which controllers vote, so none is taken down.",
        "See `NoneActive`.";
    QuorumAtRisk, "Cluster: `RolloutBlocked`, `status.rollout.blockedBy`",
        "Without the controller that is next there would be no majority of those that have everything.",
        "Get the other controllers back; the message names them.";
    MetadataUnknown, "Cluster: `RolloutBlocked`, `status.rollout.blockedBy`",
        "The operator's view of the brokers is not that of now, so none is taken down.",
        "See `NoneActive`; it passes when the operator reaches the controllers.";
    BrokerFenced, "Cluster: `RolloutBlocked`, `status.rollout.blockedBy`",
        "A broker other than the next one is out of the cluster, so no second one is taken down.",
        "Look at that broker's pod and log.";
    UnderReplicated, "Cluster: `RolloutBlocked`, `status.rollout.blockedBy`",
        "A partition has replicas out of sync, and the next broker waits until it has caught up.",
        "Usually wait; the message names the partition, and the broker that is behind.";
    UnderMinIsr, "Cluster: `RolloutBlocked`, `status.rollout.blockedBy`",
        "Without the broker that is next a partition would have fewer replicas in sync than `min.insync.replicas`.",
        "Wait for the replica that is behind, which the message names. Where it never comes: more replicas, or another minimum.";
    GrantHeld, "Cluster: `RolloutBlocked`, `status.rollout.blockedBy`",
        "Leave to disrupt is given for another broker, which is not back yet.",
        "Wait: it ends by itself after five minutes if nobody prolongs it.";
    GrantRefused, "Cluster: `RolloutBlocked`, `status.rollout.blockedBy`",
        "The controllers do not let the broker be taken down.",
        "The message is theirs.";
    WindowClosed, "Cluster: `Reconciling`, `status.rollout.blockedBy`",
        "Pods are to be replaced, and no window of `spec.rollout.windows` is open for the reason.",
        "Wait; the message says when the window opens. To go on now, add a window or take them out.";
    NotApproved, "Cluster: `RolloutBlocked`, `status.rollout.blockedBy`",
        "Pods are to be replaced, and `spec.rollout.approval` is `Manual`.",
        "Look at `status.plan`; to agree, set `spec.rollout.approvedGeneration` to what the message says.";
    Refused, "Cluster: `ScaleDownBlocked`; Topic: `Ready`, `Stalled`",
        "The controllers say no: to taking a node away without room for its replicas, or to what a Topic asks for.",
        "The message is theirs; ask for what they allow.";
    NotAllowed, "Topic, ConsumerGroup: `Ready`, `Stalled`",
        "The Cluster does not let resources of this namespace name it.",
        "Add the namespace to the Cluster's `spec.allowedNamespaces`.";
    OwnedByAnother, "Topic, ConsumerGroup: `Ready`, `Stalled`, `Conflict`",
        "An older resource manages the same topic or group. Nothing is done for this one.",
        "Delete one of the two; when the older goes, this one takes over and the data stay.";
    Creating, "Topic: `Ready`",
        "The topic was asked for a moment ago.",
        "Wait.";
    NotFound, "Topic, ConsumerGroup: `Ready`",
        "There is no such topic or group in the cluster, and the resource does not make one.",
        "For a Topic say `management: Managed`; a group comes with its first member or commit.";
    Leaderless, "Topic: `Ready`",
        "Partitions have no leader: nobody can write or read them.",
        "See `PartitionsOffline`.";
    Moving, "Topic: `Reconciling`",
        "Replicas move to other brokers.",
        "Wait; `status.reassignment` counts them.";
    TooFewInSync, "Topic: `UnderMinIsr`",
        "A partition has fewer replicas in sync than its minimum: writes with acks=all fail.",
        "`status.perPartition` names the replicas that are missing; get their brokers back.";
    Differs, "Topic: `Drifted`",
        "The topic differs from the spec, because somebody changed it and `driftPolicy` is `Report`.",
        "Take the change over into the spec, or set `driftPolicy: Correct`.";
    PartitionsCannotShrink, "Topic: `Ready`, `Stalled`",
        "The topic has more partitions than the spec, and partitions cannot be taken away.",
        "Ask for at least as many as it has.";
    KeysWouldMove, "Topic: `Ready`, `Stalled`",
        "Partitions are to be added to a compacted topic: records of a key would land in another partition than before.",
        "If that does no harm, say `allowKeyedExpansion: true`.";
    Expired, "Topic: `Ready`, `Stalled`",
        "`spec.deleteDeadline` is over, and the topic was deleted.",
        "Delete the resource, or give it another deadline to have the topic made again.";
    ReplicasCannotChange, "Topic: `Ready`, `Stalled`",
        "The topic has another number of replicas than the spec, and here it cannot be changed.",
        "Ask for as many as it has.";
    Unreachable, "ConsumerGroup: `Ready`",
        "The group's coordinator cannot be asked now; the rest of the status is as it was seen last.",
        "Usually wait; the message names the broker and what happened.";
    GroupActive, "ConsumerGroup: `ResetBlocked`, `Ready`, `Reconciling`",
        "The group has members, and offsets are never changed under them.",
        "Stop the consumers: the reset is done within seconds. Then start them again.";
    Parking, "ConsumerGroup: `ResetBlocked`, `Ready`, `Reconciling`",
        "The workload that the reset names is scaled to nothing, and its members leave the group.",
        "Wait: it is scaled back when the reset is done, or after five minutes if members stay.";
    NotParked, "ConsumerGroup: `ResetBlocked`, `Ready`, `Reconciling`",
        "The workload that the reset names is not there, or cannot be scaled.",
        "The message says why. Scale it yourself, put `workloadRef` right under another `requestId`, or say `ifActive: Refuse`.";
    LeadersSilent, "ConsumerGroup: `ResetBlocked`, `Ready`, `Reconciling`",
        "Leaders of partitions do not say where their logs begin and end, so the offsets to set cannot be worked out whole.",
        "Wait; see the Topic's status for partitions without a leader.";
    ObservedOnly, "ConsumerGroup: `ResetBlocked`, `Ready`, `Stalled`",
        "A reset is asked for, and the resource only observes.",
        "Say `management: Managed`.";
    UnknownTopic, "ConsumerGroup: `ResetBlocked`, `Ready`, `Stalled`, `Reconciling`",
        "The reset names a topic or partition that does not exist, and nothing of it is done; or there is no such topic yet to set initial offsets in.",
        "Create the topic, or put the names right (for a reset under another `requestId`).";
    NoOffsets, "ConsumerGroup: `ResetBlocked`, `Ready`, `Stalled`",
        "Nothing is committed that could be reset or shifted.",
        "Name the topics in `spec.topics`, and a place that needs no earlier offset.";
    LagHigh, "ConsumerGroup: `Lagging`",
        "The group was over `spec.lag.warn` for all of the window, and is not catching up.",
        "Look for a member that is stuck or slow, and for more records than usual; more members help up to the number of partitions.";
    LagCritical, "ConsumerGroup: `Lagging`",
        "The same, and it is over `spec.lag.critical` now.",
        "The same, now. Records that are deleted before they are read are lost to the group: compare `lagSeconds` with `retention.ms`.";
}

reasons! {
    /// Why an event is told.
    EventReason:
    PodReplaced, "Cluster, Normal",
        "A pod was deleted, and another one comes in its place; the note says why.",
        "Nothing.";
    RolloutBlocked, "Cluster, Warning",
        "A restart waits, for more than the time that a restart takes.",
        "The note has the rule's name: see there above.";
    DrainStarted, "Cluster, Normal",
        "A broker gives its replicas away, because it is to leave.",
        "Wait.";
    DrainEnded, "Cluster, Normal",
        "A broker does not leave after all, and may have replicas again.",
        "Nothing.";
    BrokerCordoned, "Cluster, Normal",
        "A broker gets no new replicas, because it is to leave.",
        "Nothing.";
    RebalanceStarted, "Cluster, Normal",
        "Partitions move to brokers that have less than their share, because `rebalance.onScaleUp` is set.",
        "Nothing.";
    NodeRemoved, "Cluster, Normal",
        "A broker or controller is gone for good, from the metadata too.",
        "Nothing.";
    ScaleDownBlocked, "Cluster, Warning",
        "A node cannot leave; the note says what stands in its way.",
        "Make room, or take the change back.";
    ControllerAdded, "Cluster, Normal",
        "A controller has a vote now.",
        "Nothing.";
    ControllerRemoved, "Cluster, Normal",
        "A controller has no vote any more.",
        "Nothing.";
    DataLost, "Topic or Cluster, Warning",
        "Committed records are gone: more replicas lost what they had not written to disk at once than `min.insync.replicas` protects from, or somebody asked for an unclean election.",
        "The note has the offsets. Write the records again from their source if you can; for the future more replicas, or `flush.messages`, protect from more.";
    RackUnknown, "Cluster, Warning",
        "A broker waits to be told its rack: its Kubernetes node has no label `brokers.rack.topologyKey`, or the operator may not read Nodes.",
        "Label the node, or install the chart with `rbac.readNodes=true`; the broker starts within seconds.";
    SettingsRefused, "Cluster, Warning",
        "The controllers refuse a setting.",
        "The note names it and says what would be right.";
    GroupReset, "ConsumerGroup, Normal",
        "Offsets of a group were set.",
        "Nothing; `status.lastReset` has them before and after.";
    InitialOffsetsSet, "ConsumerGroup, Normal",
        "A group that nobody had used was given the offsets that it begins with.",
        "Nothing.";
    ResetBlocked, "ConsumerGroup, Warning",
        "Offsets of a group are to be set, and cannot be.",
        "See the reason of the condition of that name.";
    WorkloadParked, "ConsumerGroup, Normal",
        "A workload was scaled to nothing, because a reset is to be done that names it.",
        "Nothing.";
    WorkloadRestored, "ConsumerGroup, Normal",
        "A workload was scaled back to what it had before a reset.",
        "Nothing.";
    GroupDeleted, "ConsumerGroup, Normal",
        "A group was deleted with its resource.",
        "Nothing.";
    GroupKept, "ConsumerGroup, Warning",
        "A group stays although its resource is gone and said `deletionPolicy: Delete`: it has members.",
        "Stop them and delete the group, or leave it.";
}
