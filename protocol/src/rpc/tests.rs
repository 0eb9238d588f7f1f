use std::collections::BTreeSet;
use std::sync::Arc;

use prost::Message;
use taffrail_core::control::{
    AffectedPartition, AlterConfigs, AlterPartition, AlteredPartition, AlteredResource, Behind, BrokerIdentity,
    ChangeReplicationFactor, CloseGrant, Command, ConfigAlteration, ConfigChanges, ConfigOp, ConfigOperation,
    ControlError, CreatePartitions, CreateTopics, CreatedTopic, DeleteTopics, DeletedTopic, ElectLeaders, ElectionKind,
    IsrChange, JudgeRestart, NewPartitions, NewTopic, OpenGrant, PartitionOutcome, ProducerIdBlock, ReassignPartitions,
    Reassignment, RegisterBroker, ReplicaAssignment, Reply, RestartVerdict, SmallPartitions, Tend, Tended, TopicRef,
};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::{
    BrokerDuty, ConfigResource, FeatureRange, Grant, Listener, PartitionState, SecurityProtocol,
};
use taffrail_core::ids::{BrokerId, Uuid};

use super::*;

fn text(value: &str) -> Arc<str> {
    value.into()
}

fn commands() -> Vec<Command> {
    let broker = BrokerIdentity { id: BrokerId(3), epoch: 44 };
    let settings = vec![(text("a"), Some(text("1"))), (text("b"), None), (text("c"), Some(text("")))];
    let operations = [ConfigOp::Set, ConfigOp::Delete, ConfigOp::Append, ConfigOp::Subtract]
        .map(|op| ConfigOperation { name: text("k"), op, value: Some(text("v")) });
    let resource = ConfigResource::broker(BrokerId(1));
    let topic = NewTopic {
        assignments: vec![ReplicaAssignment { partition: 0, replicas: vec![BrokerId(1), BrokerId(2)] }],
        configs: settings.clone(),
        id: Some(Uuid([8; 16])),
        ..NewTopic::new("t")
    };
    let grown = |assignments| NewPartitions { name: text("t"), count: 5, assignments };
    vec![
        Command::CreateCluster { cluster_id: Uuid([1; 16]) },
        Command::RegisterBroker(RegisterBroker {
            id: BrokerId(3),
            cluster_id: Some(Uuid([1; 16])),
            incarnation: Uuid([2; 16]),
            rack: Some(text("r")),
            listeners: vec![Listener {
                name: text("SSL"),
                host: text("h"),
                port: 65_535,
                security: SecurityProtocol::Ssl,
            }],
            log_dirs: vec![Uuid([3; 16])],
            features: [(text("f"), FeatureRange { min_level: 0, max_level: 2 })].into(),
            unclean_shutdown: true,
            min_in_sync: Some(2),
        }),
        Command::UnfenceBroker(broker),
        Command::FenceBroker(broker),
        Command::UnregisterBroker { broker: BrokerId(3) },
        Command::CreateTopics(CreateTopics { topics: vec![topic, NewTopic::sized("u", 2, 3)], validate_only: true }),
        Command::DeleteTopics(DeleteTopics { topics: vec![TopicRef::named("a"), TopicRef::identified(Uuid([4; 16]))] }),
        Command::CreatePartitions(CreatePartitions {
            topics: vec![grown(None), grown(Some(Vec::new())), grown(Some(vec![vec![BrokerId(1)], Vec::new()]))],
            validate_only: true,
        }),
        Command::AlterConfigs(AlterConfigs {
            resources: vec![
                ConfigAlteration {
                    resource: resource.clone(),
                    changes: ConfigChanges::Incremental(operations.to_vec()),
                },
                ConfigAlteration { resource, changes: ConfigChanges::Replace(settings) },
            ],
            validate_only: true,
        }),
        Command::AllocateProducerIds(broker),
    ]
}

fn replica_commands() -> Vec<Command> {
    let broker = BrokerIdentity { id: BrokerId(3), epoch: 44 };
    let brokers = BTreeSet::from([BrokerId(1), BrokerId(3)]);
    let isr = vec![broker, BrokerIdentity { id: BrokerId(1), epoch: -1 }];
    let change =
        IsrChange { topic_id: Uuid([4; 16]), partition: 5, leader_epoch: 6, partition_epoch: 7, isr, recovering: true };
    let moved = |replicas: Option<Vec<BrokerId>>| Reassignment { topic: text("t"), partition: 3, replicas };
    let partitions = vec![moved(None), moved(Some(Vec::new())), moved(Some(vec![BrokerId(2), BrokerId(1)]))];
    let duty = |duty| Command::SetBrokerDuty { broker: BrokerId(3), duty };
    vec![
        Command::BeginShutdown(broker),
        duty(BrokerDuty::Serving),
        duty(BrokerDuty::Cordoned),
        duty(BrokerDuty::Draining),
        Command::AlterPartition(AlterPartition { broker, partitions: vec![change] }),
        Command::ReassignPartitions(ReassignPartitions { partitions, allow_replication_factor_change: true }),
        Command::ChangeReplicationFactor(ChangeReplicationFactor { topics: vec![(text("t"), 3)] }),
        Command::ElectLeaders(ElectLeaders { kind: ElectionKind::Preferred, partitions: None }),
        Command::ElectLeaders(ElectLeaders {
            kind: ElectionKind::Unclean,
            partitions: Some(vec![(text("t"), 0), (text("u"), 9)]),
        }),
        Command::Tend(Tend { leaders: true, replicas: false, changes_max: 1_000 }),
        Command::JudgeRestart(JudgeRestart { brokers: brokers.clone(), policy: SmallPartitions::Block }),
        Command::OpenGrant(OpenGrant {
            brokers,
            operator_epoch: 8,
            duration_ms: 60_000,
            policy: SmallPartitions::Warn,
        }),
        Command::CloseGrant(CloseGrant { id: 70, operator_epoch: 8 }),
    ]
}

fn replica_replies() -> Vec<Reply> {
    let refused = ControlError::new(ErrorCode::FencedLeaderEpoch, "why");
    let state = PartitionState {
        adding: vec![BrokerId(2)],
        recovering: true,
        ..PartitionState::new(vec![BrokerId(1), BrokerId(2)], vec![BrokerId(1)])
    };
    let altered = |outcome| AlteredPartition { topic_id: Uuid([1; 16]), partition: 2, outcome };
    let outcomes = |outcome| vec![PartitionOutcome { topic: text("t"), partition: 1, outcome }];
    let affected = AffectedPartition {
        topic: text("t"),
        partition: 1,
        leader: BrokerId(1),
        isr: vec![BrokerId(1), BrokerId(2)],
        min_in_sync: 2,
        behind: vec![
            Behind { broker: BrokerId(3), is_away: false, records: Some(17) },
            Behind { broker: BrokerId(4), is_away: true, records: None },
        ],
    };
    let grant =
        Grant { id: 70, brokers: BTreeSet::from([BrokerId(1)]), operator_epoch: 8, expires_ms: 1_700_000_000_000 };
    vec![
        Reply::PartitionsAltered(vec![altered(Ok(Arc::new(state))), altered(Err(refused.clone()))]),
        Reply::PartitionsReassigned(outcomes(Err(refused.clone()))),
        Reply::ReplicationFactorsChanged(vec![(text("a"), Ok(())), (text("b"), Err(refused))]),
        Reply::LeadersElected(outcomes(Ok(()))),
        Reply::Tended(Tended { elections: 1, moves: 2, stuck: 3, is_unfinished: true }),
        Reply::RestartJudged(RestartVerdict::default()),
        Reply::RestartJudged(RestartVerdict {
            offset: 9,
            unknown: vec![BrokerId(5)],
            grant: Some(Arc::new(grant.clone())),
            blocking_count: 100_000,
            blocking: vec![affected.clone()],
            small_count: 1,
            small: vec![affected],
        }),
        Reply::GrantOpened(grant),
    ]
}

fn replies() -> Vec<Reply> {
    let refused = ControlError::new(ErrorCode::InvalidTopicException, "why");
    let bare = ControlError::bare(ErrorCode::UnknownTopicOrPartition);
    let created = CreatedTopic { id: Uuid([1; 16]), partitions: 3, replication_factor: 2 };
    vec![
        Reply::Done,
        Reply::BrokerRegistered { epoch: 12 },
        Reply::TopicsCreated(vec![(text("a"), Ok(created)), (text("b"), Err(refused.clone()))]),
        Reply::TopicsDeleted(vec![
            DeletedTopic { name: Some(text("a")), id: Uuid([1; 16]), outcome: Ok(()) },
            DeletedTopic { name: None, id: Uuid::ZERO, outcome: Err(bare.clone()) },
        ]),
        Reply::PartitionsCreated(vec![(text("a"), Ok(())), (text("b"), Err(bare))]),
        Reply::ConfigsAltered(vec![AlteredResource { resource: ConfigResource::topic("a"), outcome: Err(refused) }]),
        Reply::ProducerIdsAllocated(ProducerIdBlock { first: 1_000, count: 1_000 }),
    ]
}

#[test]
fn commands_and_replies_come_back_as_they_were() {
    for command in commands().into_iter().chain(replica_commands()) {
        let bytes = command_to_message(&command).encode_to_vec();
        let message = v1::Command::decode(bytes.as_slice()).unwrap();
        assert_eq!(command_from_message(message), Ok(command));
    }
    for reply in replies().into_iter().chain(replica_replies()) {
        let bytes = reply_to_message(&reply).encode_to_vec();
        let message = v1::Reply::decode(bytes.as_slice()).unwrap();
        assert_eq!(reply_from_message(message), Ok(reply));
    }
}

#[test]
fn what_a_newer_release_would_send_is_refused_or_read_as_the_general_error() {
    assert!(matches!(command_from_message(v1::Command { kind: None }), Err(FormatError::Missing { .. })));
    assert!(matches!(reply_from_message(v1::Reply { kind: None }), Err(FormatError::Missing { .. })));
    let refusal = v1::Refusal { code: 31_000, message: Some("new".to_owned()) };
    assert_eq!(refusal_from_message(refusal), ControlError::new(ErrorCode::UnknownServerError, "new"));
    assert!(matches!(check_version("x", RPC_VERSION + 1, RPC_VERSION), Err(FormatError::NewerVersion { .. })));
}

#[test]
fn values_out_of_range_are_refused() {
    use v1::command::Kind;
    let listener = v1::Listener { name: "x".into(), host: "h".into(), port: 70_000, security: 0 };
    let register = |listener: v1::Listener| v1::RegisterBroker {
        incarnation: id_to_bytes(Uuid([1; 16])),
        listeners: vec![listener],
        ..v1::RegisterBroker::default()
    };
    let topic = v1::NewTopic { replication_factor: 40_000, ..v1::NewTopic::default() };
    let factor = v1::TopicFactor { name: "t".into(), replication_factor: 40_000 };
    let cases = [
        Kind::SetBrokerDuty(v1::BrokerDutyChanged { broker: 1, duty: 3 }),
        Kind::AlterPartition(v1::AlterPartition::default()),
        Kind::ChangeReplicationFactor(v1::ChangeReplicationFactor { topics: vec![factor] }),
        Kind::ElectLeaders(v1::ElectLeaders { kind: 2, ..v1::ElectLeaders::default() }),
        Kind::JudgeRestart(v1::JudgeRestart { brokers: vec![1], policy: 2 }),
        Kind::RegisterBroker(register(listener.clone())),
        Kind::RegisterBroker(register(v1::Listener { port: 1, security: 9, ..listener })),
        Kind::CreateCluster(v1::CreateCluster { cluster_id: vec![1; 15].into() }),
        Kind::CreateTopics(v1::CreateTopics { topics: vec![topic], validate_only: false }),
        Kind::AlterConfigs(v1::AlterConfigs { resources: vec![v1::ConfigAlteration::default()], validate_only: false }),
    ];
    for kind in cases {
        let outcome = command_from_message(v1::Command { kind: Some(kind.clone()) });
        assert!(outcome.is_err(), "{kind:?}");
    }
}
