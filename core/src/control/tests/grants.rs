use std::collections::BTreeSet;

use super::*;
use crate::image::PartitionKey;

fn judge(cluster: &mut Cluster, ids: &[i32], policy: SmallPartitions) -> RestartVerdict {
    let brokers = brokers(ids).into_iter().collect();
    let offset = cluster.image.offset();
    match cluster.run(&Command::JudgeRestart(JudgeRestart { brokers, policy })) {
        Ok(Reply::RestartJudged(verdict)) => {
            assert_eq!((cluster.image.offset(), verdict.offset), (offset, offset), "asking changes nothing");
            verdict
        }
        other => panic!("{other:?}"),
    }
}

fn open(cluster: &mut Cluster, ids: &[i32], operator_epoch: i64, duration_ms: i64) -> Result<Reply, ControlError> {
    let brokers: BTreeSet<BrokerId> = brokers(ids).into_iter().collect();
    cluster.run(&Command::OpenGrant(OpenGrant { brokers, operator_epoch, duration_ms, policy: SmallPartitions::Warn }))
}

/// Topics with three, two and one replicas and minima of 2, 1 and 1, all in sync.
fn cluster() -> (Cluster, PartitionKey) {
    let mut cluster = Cluster::with_brokers(4);
    let id = cluster.create_on("safe", &[&[0, 1, 2]]);
    cluster.configure("safe", "min.insync.replicas", Some("2"));
    cluster.create_on("pair", &[&[0, 1]]);
    cluster.create_on("single", &[&[0]]);
    (cluster, (id, 0))
}

#[test]
fn brokers_may_go_while_every_partition_keeps_its_minimum() {
    let (mut cluster, _) = cluster();
    let names = |list: &[AffectedPartition]| list.iter().map(|it| it.topic.to_string()).collect::<Vec<_>>();
    // Asked for, what blocks, what is only listed.
    type Case<'a> = (&'a [i32], &'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 6] = [
        (&[0], &[], &["single"]),
        (&[1], &[], &[]),
        (&[3], &[], &[]),
        (&[], &[], &[]),
        (&[1, 2], &["safe"], &[]),
        (&[0, 1], &["safe", "pair"], &["single"]),
    ];
    for (ids, blocking, small) in cases {
        let verdict = judge(&mut cluster, ids, SmallPartitions::Warn);
        assert_eq!((names(&verdict.blocking), names(&verdict.small)), (owned(blocking), owned(small)), "{ids:?}");
        assert_eq!((verdict.blocking_count, verdict.small_count), (blocking.len(), small.len()));
        assert_eq!(verdict.is_yes(), blocking.is_empty(), "{ids:?}");
    }
    let strict = judge(&mut cluster, &[0], SmallPartitions::Block);
    assert_eq!((names(&strict.blocking), strict.small_count), (owned(&["single"]), 0));
    let unknown = judge(&mut cluster, &[9], SmallPartitions::Warn);
    assert_eq!((unknown.is_yes(), unknown.unknown), (false, brokers(&[9])));
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn who_is_behind_and_by_how_much_is_said() {
    let (mut cluster, key) = cluster();
    cluster.set_isr("safe", 0, &[0, 1]);
    cluster.lags.report(key, vec![FollowerLag { broker: BrokerId(2), records: 17 }]);
    let blocked = |records, is_away| AffectedPartition {
        topic: text("safe"),
        partition: 0,
        leader: BrokerId(0),
        isr: brokers(&[0, 1]),
        min_in_sync: 2,
        behind: vec![Behind { broker: BrokerId(2), is_away, records }],
    };
    assert_eq!(judge(&mut cluster, &[1], SmallPartitions::Warn).blocking, [blocked(Some(17), false)]);
    cluster.lags.report(key, Vec::new());
    cluster.fence(2);
    assert_eq!(judge(&mut cluster, &[1], SmallPartitions::Warn).blocking, [blocked(None, true)]);
    assert!(judge(&mut cluster, &[2], SmallPartitions::Warn).is_yes(), "nothing depends on who is down already");
    cluster.lags.report((Uuid([55; 16]), 0), vec![FollowerLag { broker: BrokerId(1), records: 1 }]);
    cluster.lags.retain_known(&cluster.image);
    assert_eq!(cluster.lags.of((Uuid([55; 16]), 0), BrokerId(1)), None);
}

#[test]
fn without_any_broker_a_verdict_is_about_what_is_below_its_minimum_now() {
    let (mut cluster, _) = cluster();
    let below = |cluster: &mut Cluster| judge(cluster, &[], SmallPartitions::Block).blocking_count;
    assert_eq!(below(&mut cluster), 0);
    cluster.set_isr("safe", 0, &[0]);
    assert_eq!(below(&mut cluster), 1);
}

#[test]
fn the_minimum_that_counts_is_the_topics_or_the_clusters_or_what_leaders_were_started_with() {
    let mut cluster = Cluster::with_brokers(0);
    for id in 0..3 {
        let epoch = cluster.register_with(id, 1, |request| request.min_in_sync = Some(2));
        cluster.run(&Command::UnfenceBroker(BrokerIdentity { id: BrokerId(id), epoch })).unwrap();
    }
    cluster.create_on("t", &[&[0, 1, 2]]);
    let minimum = |cluster: &mut Cluster| {
        let blocking = judge(cluster, &[0, 1, 2], SmallPartitions::Block).blocking;
        blocking[0].min_in_sync
    };
    let name = "min.insync.replicas";
    cluster.static_config.insert(name.to_owned(), "3".to_owned());
    assert_eq!(minimum(&mut cluster), 2, "not what the controller was started with");
    assert!(!judge(&mut cluster, &[1, 2], SmallPartitions::Warn).is_yes());
    let epoch = cluster.register_with(1, 2, |request| request.min_in_sync = Some(3));
    cluster.run(&Command::UnfenceBroker(BrokerIdentity { id: BrokerId(1), epoch })).unwrap();
    cluster.set_isr("t", 0, &[0, 1, 2]);
    assert_eq!(minimum(&mut cluster), 3, "of one that may come to lead");
    let resource = crate::event::ConfigResource::broker_default();
    let changes = ConfigChanges::Replace(vec![(text(name), Some(text("1")))]);
    let resources = vec![ConfigAlteration { resource, changes }];
    cluster.run(&Command::AlterConfigs(AlterConfigs { resources, validate_only: false })).unwrap();
    assert_eq!(minimum(&mut cluster), 1, "set for the cluster");
    assert!(judge(&mut cluster, &[1, 2], SmallPartitions::Warn).is_yes());
    cluster.configure("t", name, Some("2"));
    assert_eq!(minimum(&mut cluster), 2, "the topic's own");
}

#[test]
fn one_grant_is_open_at_a_time_until_it_is_closed_or_expires() {
    let (mut cluster, _) = cluster();
    let Ok(Reply::GrantOpened(first)) = open(&mut cluster, &[1], 1, 1_000) else { panic!() };
    assert_eq!((first.id, first.expires_ms), (cluster.image.offset(), 1_000));
    let Ok(Reply::RestartJudged(verdict)) = open(&mut cluster, &[2], 1, 1_000) else { panic!() };
    assert_eq!((verdict.grant.as_deref(), verdict.blocking_count), (Some(&first), 0));
    // The same brokers again: prolonged, also when they are away by now.
    cluster.fence(1);
    cluster.set_isr("safe", 0, &[0, 2]);
    cluster.now_ms = 500;
    let Ok(Reply::GrantOpened(prolonged)) = open(&mut cluster, &[1], 2, 1_000) else { panic!() };
    assert_eq!((prolonged.id, prolonged.operator_epoch, prolonged.expires_ms), (first.id, 2, 1_500));
    cluster.unfence(1);
    cluster.set_isr("safe", 0, &[0, 1, 2]);
    cluster.set_isr("pair", 0, &[0, 1]);
    cluster.now_ms = 1_500;
    let Ok(Reply::GrantOpened(second)) = open(&mut cluster, &[2], 2, 1_000) else { panic!("expired") };
    assert!(second.id > first.id);
    let close = |id| Command::CloseGrant(CloseGrant { id, operator_epoch: 2 });
    cluster.run(&close(first.id)).unwrap();
    assert!(cluster.image.grant().is_some(), "another one was meant");
    cluster.run(&close(second.id)).unwrap();
    assert_eq!(cluster.image.grant(), None);
    cluster.run(&close(second.id)).unwrap();
}

#[test]
fn a_grant_is_not_given_where_the_brokers_may_not_go() {
    let (mut cluster, _) = cluster();
    let Ok(Reply::RestartJudged(verdict)) = open(&mut cluster, &[0, 1], 1, 1_000) else { panic!() };
    assert_eq!((verdict.blocking_count, cluster.image.grant()), (2, None));
    cluster.set_isr("safe", 0, &[0, 1]);
    let Ok(Reply::RestartJudged(verdict)) = open(&mut cluster, &[1], 1, 1_000) else { panic!() };
    assert_eq!(verdict.blocking[0].behind[0].broker, BrokerId(2));
}

#[test]
fn an_operator_that_does_not_lead_any_more_can_do_nothing() {
    let (mut cluster, _) = cluster();
    let Ok(Reply::GrantOpened(grant)) = open(&mut cluster, &[1], 5, 1_000) else { panic!() };
    let stale = [
        open(&mut cluster, &[1], 4, 1_000),
        open(&mut cluster, &[2], 4, 1_000),
        open(&mut cluster, &[2], -1, 1_000),
        cluster.run(&Command::CloseGrant(CloseGrant { id: grant.id, operator_epoch: 4 })),
    ];
    for outcome in stale {
        assert_eq!(outcome.unwrap_err().code, ErrorCode::StaleControllerEpoch);
    }
    cluster.run(&Command::CloseGrant(CloseGrant { id: grant.id, operator_epoch: 6 })).unwrap();
    assert_eq!(open(&mut cluster, &[1], 5, 1_000).unwrap_err().code, ErrorCode::StaleControllerEpoch);
}

#[test]
fn grants_have_limits() {
    let (mut cluster, _) = cluster();
    for duration_ms in [0, -1, GRANT_DURATION_MAX_MS + 1, i64::MAX] {
        assert_eq!(open(&mut cluster, &[1], 1, duration_ms).unwrap_err().code, ErrorCode::InvalidRequest);
    }
    let many: Vec<i32> = (0..=GRANT_BROKERS_MAX as i32).collect();
    for ids in [&[][..], &many] {
        assert_eq!(open(&mut cluster, ids, 1, 1_000).unwrap_err().code, ErrorCode::InvalidRequest);
    }
}

#[test]
fn a_verdict_counts_all_and_names_some() {
    let mut cluster = Cluster::with_brokers(2);
    let replicas: Vec<&[i32]> = vec![&[0, 1]; LISTED_PARTITIONS_MAX + 5];
    cluster.create_on("t", &replicas);
    let verdict = judge(&mut cluster, &[0, 1], SmallPartitions::Warn);
    assert_eq!((verdict.blocking_count, verdict.blocking.len()), (LISTED_PARTITIONS_MAX + 5, LISTED_PARTITIONS_MAX));
}
