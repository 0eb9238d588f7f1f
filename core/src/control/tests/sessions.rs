use super::*;

const TIMEOUT_MS: i64 = 1_000;

fn sessions(cluster: &Cluster, now_ms: i64) -> BrokerSessions {
    let mut sessions = BrokerSessions::begin(TIMEOUT_MS, 0);
    for broker in cluster.image.brokers().keys() {
        sessions.heard(cluster.identity(broker.0), now_ms);
    }
    sessions
}

fn ids_of(brokers: &[BrokerIdentity]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.id.0).collect()
}

#[test]
fn a_session_ends_after_silence_for_the_whole_timeout() {
    let mut cluster = Cluster::with_brokers(3);
    let mut sessions = sessions(&cluster, 100);
    sessions.heard(cluster.identity(1), 600);
    for (now_ms, silent) in [(1_099, &[][..]), (1_100, &[0, 2]), (1_599, &[0, 2]), (1_600, &[0, 1, 2])] {
        assert_eq!(ids_of(&sessions.silent(&cluster.image, now_ms)), silent, "{now_ms}");
    }
    assert_eq!(sessions.next_end_ms(&cluster.image), Some(1_100));
    cluster.fence(0);
    cluster.fence(2);
    assert_eq!(sessions.next_end_ms(&cluster.image), Some(1_600));
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
    sessions.heard(new, 300);
    sessions.heard(old, 5_000);
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
    sessions.heard(broker, 300);
    assert!(!sessions.dial_refused(broker, &cluster.image, 310), "it has been heard of since");
    assert!(sessions.is_live(broker, 310));
}
