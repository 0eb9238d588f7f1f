use super::*;

type Results = Vec<(Arc<str>, i32, Option<ErrorCode>)>;

fn elect(cluster: &mut Cluster, kind: ElectionKind, partitions: Option<&[(&str, i32)]>) -> Results {
    let partitions = partitions.map(|all| all.iter().map(|(topic, partition)| (text(topic), *partition)).collect());
    match cluster.run(&Command::ElectLeaders(ElectLeaders { kind, partitions })).unwrap() {
        Reply::LeadersElected(results) => {
            results.into_iter().map(|it| (it.topic, it.partition, it.outcome.err().map(|error| error.code))).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn preferred_leaders_lead_again_when_asked_for() {
    let mut cluster = Cluster::with_brokers(3);
    cluster.create_on("t", &[&[0, 1, 2], &[1, 2, 0], &[0, 2, 1]]);
    cluster.fence(0);
    cluster.unfence(0);
    assert_eq!([0, 1, 2].map(|partition| cluster.state("t", partition).leader.0), [1, 1, 2]);
    let asked = [("t", 0), ("t", 1), ("t", 3), ("u", 0)];
    let codes: Vec<_> =
        elect(&mut cluster, ElectionKind::Preferred, Some(&asked)).into_iter().map(|(.., code)| code).collect();
    let expected = [
        Some(ErrorCode::PreferredLeaderNotAvailable),
        Some(ErrorCode::ElectionNotNeeded),
        Some(ErrorCode::UnknownTopicOrPartition),
        Some(ErrorCode::UnknownTopicOrPartition),
    ];
    assert_eq!(codes, expected, "broker 0 is not in sync yet");
    for partition in [0, 2] {
        cluster.set_isr("t", partition, &[0, 1, 2]);
    }
    let results = elect(&mut cluster, ElectionKind::Preferred, None);
    assert_eq!(results, [(text("t"), 0, None), (text("t"), 2, None)], "all that need it, and no others");
    for partition in [0, 2] {
        let state = cluster.state("t", partition);
        assert_eq!((state.leader, state.leader_epoch), (BrokerId(0), 2));
        assert_eq!(state.isr, state.replicas, "nobody leaves the ISR");
    }
    assert_eq!(cluster.image.replica_index().not_preferred_count(), 0);
}

#[test]
fn an_unclean_leader_is_elected_only_on_request_or_where_the_topic_says_so() {
    let mut cluster = Cluster::with_brokers(3);
    cluster.create_on("asked", &[&[0, 1]]);
    cluster.create_on("always", &[&[0, 1]]);
    for topic in ["asked", "always"] {
        cluster.set_isr(topic, 0, &[0]);
    }
    let nobody = elect(&mut cluster, ElectionKind::Unclean, Some(&[("asked", 0)]));
    assert_eq!(nobody[0].2, Some(ErrorCode::ElectionNotNeeded), "somebody leads");
    cluster.fence(0);
    for topic in ["asked", "always"] {
        let state = cluster.state(topic, 0);
        assert_eq!((state.leader, &state.isr), (BrokerId::NONE, &brokers(&[0])), "the last one is waited for");
    }
    cluster.configure("always", "unclean.leader.election.enable", Some("true"));
    let state = cluster.state("always", 0);
    assert_eq!((state.leader, &state.isr, state.recovering), (BrokerId(1), &brokers(&[1]), true));

    let results = elect(&mut cluster, ElectionKind::Unclean, None);
    assert_eq!(results, [(text("asked"), 0, None)]);
    let state = cluster.state("asked", 0);
    assert_eq!((state.leader, &state.isr, state.recovering), (BrokerId(1), &brokers(&[1]), true));

    cluster.fence(1);
    let results = elect(&mut cluster, ElectionKind::Unclean, Some(&[("asked", 0)]));
    assert_eq!(results[0].2, Some(ErrorCode::EligibleLeadersNotAvailable), "nobody is there at all");
    cluster.unfence(0);
    assert_eq!(cluster.state("always", 0).leader, BrokerId(0), "this topic takes whoever comes");
    assert_eq!(cluster.state("asked", 0).leader, BrokerId::NONE);
}

#[test]
fn a_smaller_minimum_takes_effect_on_who_may_lead_in_the_same_breath() {
    let mut cluster = Cluster::with_brokers(2);
    cluster.create_on("t", &[&[0, 1]]);
    cluster.configure("t", "min.insync.replicas", Some("2"));
    cluster.set_isr("t", 0, &[0]);
    assert_eq!(cluster.state("t", 0).eligible, brokers(&[1]));
    cluster.configure("t", "retention.ms", Some("1"));
    assert_eq!(cluster.state("t", 0).eligible, brokers(&[1]));
    cluster.configure("t", "min.insync.replicas", None);
    assert_eq!(cluster.state("t", 0).eligible, [], "from here on the leader commits without it");
    cluster.fence(0);
    assert_eq!(cluster.state("t", 0).leader, BrokerId::NONE);
}

#[test]
fn one_broker_cannot_have_a_minimum_of_its_own() {
    let mut cluster = Cluster::with_brokers(1);
    let operation = ConfigOperation { name: text("min.insync.replicas"), op: ConfigOp::Set, value: Some(text("2")) };
    let resource = crate::event::ConfigResource::broker(BrokerId(0));
    let change = |resource: &crate::event::ConfigResource| ConfigAlteration {
        resource: resource.clone(),
        changes: ConfigChanges::Incremental(vec![operation.clone()]),
    };
    let resources = vec![change(&resource), change(&crate::event::ConfigResource::broker_default())];
    let reply = cluster.run(&Command::AlterConfigs(AlterConfigs { resources, validate_only: false })).unwrap();
    let Reply::ConfigsAltered(results) = reply else { panic!("{reply:?}") };
    let codes: Vec<_> = results.into_iter().map(|it| it.outcome.err().map(|error| error.code)).collect();
    assert_eq!(codes, [Some(ErrorCode::InvalidConfig), None]);
}
