use super::*;

const TIMEOUT_MS: i64 = 1_000;

fn sessions(cluster: &Cluster, now_ms: i64) -> BrokerSessions {
    let mut sessions = BrokerSessions::begin(TIMEOUT_MS, 0);
    for broker in cluster.image.brokers().keys() {
        heard(&mut sessions, cluster.identity(broker.0), now_ms);
    }
    sessions
}

fn heard(sessions: &mut BrokerSessions, broker: BrokerIdentity, now_ms: i64) {
    sessions.heard(broker, Sign::Call, 0, now_ms);
}

fn attends(sessions: &mut BrokerSessions, broker: BrokerIdentity, now_ms: i64) {
    sessions.heard(broker, Sign::Attendance, 0, now_ms);
}

fn ids_of(brokers: &[BrokerIdentity]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.id.0).collect()
}

#[test]
fn a_session_ends_after_silence_for_the_whole_timeout() {
    let mut cluster = Cluster::with_brokers(3);
    let mut sessions = sessions(&cluster, 100);
    heard(&mut sessions, cluster.identity(1), 600);
    for (now_ms, silent) in [(1_099, &[][..]), (1_100, &[0, 2]), (1_599, &[0, 2]), (1_600, &[0, 1, 2])] {
        assert_eq!(ids_of(&sessions.silent(&cluster.image, now_ms)), silent, "{now_ms}");
    }
    assert_eq!(sessions.next_end_ms(&cluster.image, 1_050), Some(1_100));
    cluster.fence(0);
    cluster.fence(2);
    assert_eq!(sessions.next_end_ms(&cluster.image, 1_050), Some(1_600));
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 1_100)), [] as [i32; 0], "who is fenced cannot fall silent");
}

#[test]
fn a_new_controller_gives_everybody_a_whole_timeout() {
    let cluster = Cluster::with_brokers(2);
    let mut sessions = BrokerSessions::begin(TIMEOUT_MS, 5_000);
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 5_999)), [] as [i32; 0]);
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 6_000)), [0, 1]);
    assert!(!sessions.is_live(cluster.identity(0), 5_001), "it has heard of nobody yet");
}

#[test]
fn a_process_counts_for_nothing_once_another_has_its_number() {
    let mut cluster = Cluster::with_brokers(1);
    let old = cluster.identity(0);
    let mut sessions = sessions(&cluster, 100);
    assert!(sessions.is_live(old, 1_099));
    assert!(!sessions.is_live(old, 1_100));
    let new = BrokerIdentity { epoch: cluster.register(0, 2), ..old };
    cluster.unfence(0);
    assert!(!sessions.is_live(new, 200), "nothing has been heard of the new one");
    heard(&mut sessions, new, 300);
    heard(&mut sessions, old, 5_000);
    assert!(!sessions.connection_closed(old), "the connection of the old one says nothing of the new one");
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 1_300)), [0]);
}

#[test]
fn a_dead_process_is_fenced_at_once_and_one_at_a_time() {
    let mut cluster = Cluster::with_brokers(3);
    let mut sessions = sessions(&cluster, 100);
    let (first, second) = (cluster.identity(0), cluster.identity(1));
    assert!(!sessions.dial_refused(first, &cluster.image, 200), "its connection is open");
    assert!(sessions.connection_closed(first));
    assert!(!sessions.connection_closed(first), "it is being dialled already");
    assert!(sessions.connection_closed(second));
    assert!(sessions.dial_refused(first, &cluster.image, 200));
    cluster.fence(0);
    assert!(!sessions.dial_refused(first, &cluster.image, 210), "it is fenced already");
    assert!(!sessions.dial_refused(second, &cluster.image, 210), "the fault may be the controller's own");
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 1_100)), [1, 2], "the timeout counts for all");
    assert!(sessions.dial_refused(second, &cluster.image, 1_200), "the first was long ago");

    cluster.unfence(0);
    let third = cluster.identity(2);
    assert!(sessions.connection_closed(third));
    assert!(!sessions.dial_refused(third, &fenced(&mut cluster, 1), 1_300));
    cluster.unfence(1);
    assert!(sessions.dial_refused(third, &cluster.image, 1_300), "the others are back");
}

fn fenced(cluster: &mut Cluster, id: i32) -> MetadataImage {
    cluster.fence(id);
    cluster.image.clone()
}

#[test]
fn a_connection_that_comes_back_means_nothing() {
    let cluster = Cluster::with_brokers(1);
    let mut sessions = sessions(&cluster, 100);
    let broker = cluster.identity(0);
    assert!(sessions.connection_closed(broker));
    assert!(!sessions.is_live(broker, 200), "another process may take the number of one whose connection is gone");
    heard(&mut sessions, broker, 300);
    assert!(!sessions.dial_refused(broker, &cluster.image, 310), "it has been heard of since");
    assert!(sessions.is_live(broker, 310));
}

#[test]
fn whoever_attends_is_missed_sooner_and_one_at_a_time() {
    let mut cluster = Cluster::with_brokers(3);
    let mut sessions = BrokerSessions::begin(6 * TIMEOUT_MS, 0);
    let [first, second, third] = [0, 1, 2].map(|id| cluster.identity(id));
    attends(&mut sessions, first, 100);
    attends(&mut sessions, second, 100);
    heard(&mut sessions, third, 100);
    assert_eq!(sessions.next_end_ms(&cluster.image, 100), Some(1_100));
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 1_099)), [] as [i32; 0]);
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 1_100)), [0], "the fault may be the controller's own");
    cluster.fence(0);
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 1_200)), [] as [i32; 0]);
    assert_eq!(sessions.next_end_ms(&cluster.image, 1_200), Some(2_200), "the second is looked at again, not at once");
    cluster.unfence(0);
    attends(&mut sessions, first, 1_300);
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 1_300)), [1], "the first is back");
    attends(&mut sessions, second, 5_000);
    assert!(sessions.connection_closed(second));
    assert_eq!(
        ids_of(&sessions.silent(&cluster.image, 5_999)),
        [0],
        "a connection that closes means nothing by itself"
    );
    attends(&mut sessions, first, 5_999);
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 6_000)), [1], "whoever hears nothing any more closes it itself");
}

#[test]
fn whoever_does_not_attend_and_is_silent_is_dialled_once_and_fenced_only_if_nobody_listens() {
    let mut cluster = Cluster::with_brokers(3);
    let mut sessions = BrokerSessions::begin(6 * TIMEOUT_MS, 0);
    let [first, second, third] = [0, 1, 2].map(|id| cluster.identity(id));
    attends(&mut sessions, first, 100);
    heard(&mut sessions, second, 500);
    assert_eq!(ids_of(&sessions.doubtful(&cluster.image, 999)), [] as [i32; 0]);
    assert_eq!(ids_of(&sessions.doubtful(&cluster.image, 1_000)), [2], "this controller has never heard of it");
    assert_eq!(ids_of(&sessions.doubtful(&cluster.image, 1_499)), [] as [i32; 0], "it is being dialled already");
    assert_eq!(ids_of(&sessions.doubtful(&cluster.image, 1_500)), [1], "others passed its heartbeats on");
    assert!(!sessions.is_live(third, 1_500), "another process may take its number");
    heard(&mut sessions, second, 1_600);
    assert!(!sessions.dial_refused(second, &cluster.image, 1_700), "it has been heard of since");
    assert!(sessions.dial_refused(third, &cluster.image, 1_700));
    cluster.fence(2);
    assert_eq!(ids_of(&sessions.doubtful(&cluster.image, 2_600)), [1], "who is fenced is not asked for");
    assert!(!sessions.dial_refused(second, &cluster.image, 2_700), "one at a time");
}

#[test]
fn a_broker_that_is_heard_and_hears_nothing_is_missed_as_if_it_were_silent() {
    let cluster = Cluster::with_brokers(2);
    let mut sessions = BrokerSessions::begin(6 * TIMEOUT_MS, 0);
    let (deaf, other) = (cluster.identity(0), cluster.identity(1));
    attends(&mut sessions, deaf, 100);
    attends(&mut sessions, other, 100);
    for now_ms in [600, 1_000] {
        // Over a new connection or by way of another controller: what it says of itself is the same.
        sessions.heard(deaf, Sign::Unanswered, 0, now_ms);
        attends(&mut sessions, other, now_ms);
    }
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 1_099)), [] as [i32; 0]);
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 1_100)), [0]);
    heard(&mut sessions, deaf, 1_100);
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 1_200)), [] as [i32; 0], "it has had an answer");
}

#[test]
fn a_broker_that_is_alone_has_its_whole_timeout() {
    let cluster = Cluster::with_brokers(1);
    let mut sessions = BrokerSessions::begin(6 * TIMEOUT_MS, 0);
    attends(&mut sessions, cluster.identity(0), 100);
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 6_099)), [] as [i32; 0], "nobody could take over");
    assert_eq!(ids_of(&sessions.silent(&cluster.image, 6_100)), [0]);
}

#[test]
fn a_broker_may_go_when_it_leads_nothing_and_all_others_know() {
    let mut cluster = Cluster::with_brokers(3);
    cluster.create_on("t", &[&[0, 1, 2]]);
    let mut sessions = sessions(&cluster, 100);
    let leaving = cluster.identity(0);
    let handed_over = cluster.image.offset() + 1;
    assert!(!sessions.may_go(leaving, 0, &cluster.image), "it leads, and has not said that it wants to go");
    cluster.run(&Command::BeginShutdown(leaving)).unwrap();
    let tell = |sessions: &mut BrokerSessions, id, applied| {
        let broker = cluster.identity(id);
        sessions.heard(broker, Sign::Attendance, applied, 200);
    };
    tell(&mut sessions, 1, handed_over);
    assert!(!sessions.may_go(leaving, handed_over, &cluster.image), "broker 2 has not heard of it");
    tell(&mut sessions, 2, handed_over - 1);
    assert!(!sessions.may_go(leaving, handed_over, &cluster.image), "broker 2 is behind");
    tell(&mut sessions, 2, handed_over);
    assert!(sessions.may_go(leaving, handed_over, &cluster.image));
    tell(&mut sessions, 2, 0);
    cluster.run(&Command::BeginShutdown(cluster.identity(2))).unwrap();
    assert!(sessions.may_go(leaving, handed_over, &cluster.image), "nobody waits for one that leaves too");
}
