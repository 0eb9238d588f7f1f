//! Connections over loopback, with a service whose requests behave as their text says.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use prometheus::IntGauge;
use taffrail_protocol::versions::ApiKey;
use taffrail_runtime::net::{TcpStream, connect};
use taffrail_runtime::task::JoinHandle;
use taffrail_runtime::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::service::{CloseReason, Frame, Pace, Reply, Started};
use super::*;
use crate::metrics::{RequestKind, Times};

/// How long a test waits for what must happen.
const SOON: Duration = Duration::from_secs(10);

/// Size of a large answer.
const LARGE_BYTES: usize = 1 << 20;

/// "now X" is answered with X at once, and "large" with much; "wait X" and "alone X" when the test says so; "silent" never;
/// "close" closes. What says "join" somewhere may be started with others that do.
#[derive(Default)]
struct Scripted {
    started: Mutex<Vec<String>>,
    /// How many were started together, each time.
    joined: Mutex<Vec<usize>>,
    dropped: Arc<Mutex<Vec<String>>>,
    go: Arc<Notify>,
    /// What was sent, and when it was taken and was out.
    sent: Mutex<Vec<(Times, Instant, Instant)>>,
}

/// Notes that a handler was dropped before its end.
struct Alarm {
    name: String,
    dropped: Arc<Mutex<Vec<String>>>,
    armed: bool,
}

impl Alarm {
    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if self.armed {
            self.dropped.lock().push(self.name.clone());
        }
    }
}

fn reply(text: &str, arrived: Instant) -> Reply {
    let mut frame = BytesMut::new();
    frame.put_i32(text.len() as i32);
    frame.put_slice(text.as_bytes());
    let times = Times::answered_now(RequestKind::of(ApiKey::Produce), arrived, arrived);
    Reply::Frame(Frame { times: Some(times), ..Frame::from(frame.freeze()) })
}

impl Service for Scripted {
    type Connection = Rc<RefCell<u32>>;

    fn connected(&self, _peer: SocketAddr) -> Self::Connection {
        Rc::default()
    }

    fn start(&self, requests: &Self::Connection, frame: Bytes, arrived: Instant) -> Started {
        *requests.borrow_mut() += 1;
        let text = String::from_utf8_lossy(&frame).into_owned();
        self.started.lock().push(text.clone());
        let (verb, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let pace = match verb {
            "now" => return Started::Done(reply(rest, arrived)),
            "large" => return Started::Done(reply(&"x".repeat(LARGE_BYTES), arrived)),
            "silent" => return Started::Done(Reply::Silent),
            "close" => return Started::Done(Reply::Close(CloseReason::BadRequest("as asked".to_owned()))),
            "wait" => Pace::Waiting,
            "commit" => Pace::Committing,
            _ => Pace::Alone,
        };
        let (go, rest) = (Arc::clone(&self.go), rest.to_owned());
        let mut alarm = Alarm { name: rest.clone(), dropped: Arc::clone(&self.dropped), armed: true };
        let work = async move {
            go.notified().await;
            alarm.disarm();
            reply(&rest, arrived)
        };
        Started::Running(Box::pin(work), pace)
    }

    fn is_joinable(&self, frame: &[u8]) -> bool {
        frame.windows(4).any(|word| word == b"join")
    }

    fn start_together(&self, requests: &Self::Connection, frames: Vec<Bytes>, arrived: Instant) -> Vec<Started> {
        self.joined.lock().push(frames.len());
        let mut started = Vec::new();
        for frame in frames {
            started.push(self.start(requests, frame, arrived));
            if matches!(started.last(), Some(Started::Done(Reply::Close(_)))) {
                break;
            }
        }
        started
    }

    fn sent(&self, times: &Times, taken: Instant, sent: Instant) {
        self.sent.lock().push((*times, taken, sent));
    }
}

struct Harness {
    service: Arc<Scripted>,
    address: String,
    shutdown: Shutdown,
    connections: IntGauge,
    running: JoinHandle<()>,
}

async fn listen(limits: ListenerLimits) -> Harness {
    listen_within(limits, ConnectionLimits::default()).await
}

async fn listen_within(limits: ListenerLimits, connection_limits: ConnectionLimits) -> Harness {
    let socket = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let (service, shutdown) = (Arc::new(Scripted::default()), Shutdown::new());
    let connections = IntGauge::new("connections", "open connections").unwrap();
    let listener = Listener {
        name: "test".into(),
        service: Arc::clone(&service),
        limits: Arc::new(limits),
        connection_limits: Arc::new(ArcSwap::from_pointee(connection_limits)),
        shards: Arc::new(Shards::start(1, "listener-test").unwrap()),
        shutdown: shutdown.clone(),
        connections: connections.clone(),
    };
    let running = taffrail_runtime::task::spawn(listener.run(socket));
    Harness { service, address, shutdown, connections, running }
}

impl Harness {
    async fn connect(&self) -> TcpStream {
        connect(&self.address).await.unwrap()
    }

    /// Waits until the service has started `count` requests.
    async fn started(&self, count: usize) -> Vec<String> {
        level(|| self.service.started.lock().len() >= count).await;
        self.service.started.lock().clone()
    }
}

/// Waits until `holds`.
async fn level(holds: impl Fn() -> bool) {
    let deadline = time::monotonic() + SOON;
    while !holds() {
        assert!(time::monotonic() < deadline, "it did not happen in time");
        time::sleep(Duration::from_millis(2)).await;
    }
}

fn frames(texts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend((text.len() as i32).to_be_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

async fn read_one(stream: &mut TcpStream) -> String {
    let length = time::timeout(SOON, stream.read_i32()).await.unwrap().unwrap();
    let mut text = vec![0; length as usize];
    stream.read_exact(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

/// Reads until the broker closes; a reset counts, since it leaves requests unread when it closes.
async fn read_to_close(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let _ = time::timeout(SOON, stream.read_to_end(&mut rest)).await.unwrap();
    rest
}

#[tokio::test]
async fn a_waiting_request_holds_back_answers_but_not_the_start_of_later_requests() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    client.write_all(&frames(&["wait a", "now b", "silent", "commit c", "now d"])).await.unwrap();
    assert_eq!(harness.started(5).await, ["wait a", "now b", "silent", "commit c", "now d"]);
    harness.service.go.notify_one();
    assert_eq!(read_one(&mut client).await, "a");
    assert_eq!(read_one(&mut client).await, "b");
    harness.service.go.notify_one();
    assert_eq!(read_one(&mut client).await, "c");
    assert_eq!(read_one(&mut client).await, "d");
}

#[tokio::test]
async fn a_request_with_effects_is_done_before_the_next_one_starts() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    client.write_all(&frames(&["alone a", "now b"])).await.unwrap();
    assert_eq!(harness.started(1).await, ["alone a"]);
    harness.service.go.notify_one();
    assert_eq!(read_one(&mut client).await, "a");
    assert_eq!(read_one(&mut client).await, "b");
}

#[tokio::test]
async fn requests_that_arrive_byte_by_byte_are_the_same() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    for byte in frames(&["now a", "now bc"]) {
        client.write_all(&[byte]).await.unwrap();
        taffrail_runtime::task::yield_now().await;
    }
    assert_eq!(read_one(&mut client).await, "a");
    assert_eq!(read_one(&mut client).await, "bc");
}

#[tokio::test]
async fn a_request_larger_than_any_buffer_arrives_whole() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    let large = "x".repeat(3_000_000);
    client.write_all(&frames(&[&format!("now {large}"), "now b"])).await.unwrap();
    assert!(read_one(&mut client).await == large);
    assert_eq!(read_one(&mut client).await, "b");
}

#[tokio::test]
async fn lengths_that_no_request_has_close_the_connection_after_earlier_answers() {
    for length in [0, -1, i32::MIN, 1_000_001, i32::MAX] {
        let limits = ListenerLimits { request_max_bytes: 1_000_000, ..ListenerLimits::default() };
        let harness = listen(limits).await;
        let mut client = harness.connect().await;
        let mut bytes = frames(&["now a"]);
        bytes.extend(length.to_be_bytes());
        client.write_all(&bytes).await.unwrap();
        assert_eq!(read_to_close(&mut client).await, frames(&["a"]), "{length}");
        level(|| harness.connections.get() == 0).await;
    }
}

#[tokio::test]
async fn a_refused_request_closes_the_connection_after_earlier_answers() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    client.write_all(&frames(&["wait a", "close", "now b"])).await.unwrap();
    harness.started(2).await;
    harness.service.go.notify_one();
    assert_eq!(read_to_close(&mut client).await, frames(&["a"]));
}

#[tokio::test]
async fn when_the_client_leaves_what_only_waits_is_dropped_and_what_has_effects_is_seen_through() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    client.write_all(&frames(&["wait fetch", "commit produce"])).await.unwrap();
    harness.started(2).await;
    drop(client);
    level(|| harness.connections.get() == 0).await;
    level(|| *harness.service.dropped.lock() == ["fetch"]).await;
    harness.service.go.notify_waiters();
    taffrail_runtime::task::yield_now().await;
    assert_eq!(*harness.service.dropped.lock(), ["fetch"]);
}

#[tokio::test]
async fn requests_that_arrived_before_the_client_left_are_handled() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    client.write_all(&frames(&["silent", "now a", "silent"])).await.unwrap();
    drop(client);
    harness.started(3).await;
}

#[tokio::test]
async fn more_than_the_requests_in_flight_stay_unread() {
    for verb in ["wait", "wait join"] {
        let harness = listen(ListenerLimits::default()).await;
        let mut client = harness.connect().await;
        let many: Vec<String> = (0..limits::REQUESTS_IN_FLIGHT_MAX + 5).map(|n| format!("{verb} {n}")).collect();
        let texts: Vec<&str> = many.iter().map(String::as_str).collect();
        client.write_all(&frames(&texts)).await.unwrap();
        harness.started(limits::REQUESTS_IN_FLIGHT_MAX).await;
        taffrail_runtime::task::yield_now().await;
        assert_eq!(harness.service.started.lock().len(), limits::REQUESTS_IN_FLIGHT_MAX);
        for text in many {
            harness.service.go.notify_one();
            assert_eq!(Some(read_one(&mut client).await.as_str()), text.strip_prefix("wait "));
        }
    }
}

#[tokio::test]
async fn who_does_not_read_answers_has_no_more_requests_started_until_it_does() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    let requests = limits::REQUESTS_IN_FLIGHT_MAX;
    client.write_all(&frames(&vec!["large"; requests])).await.unwrap();
    // What the system takes for the client is sent; then there is silence.
    let mut started = 0;
    while harness.service.started.lock().len() > started {
        started = harness.service.started.lock().len();
        time::sleep(Duration::from_millis(50)).await;
    }
    assert!(started < requests / 2, "{started} were started");
    for _ in 0..requests {
        assert_eq!(read_one(&mut client).await.len(), LARGE_BYTES);
    }
}

#[tokio::test]
async fn requests_whose_rest_does_not_come_hold_up_no_small_ones_and_large_ones_not_for_long() {
    let limits = ListenerLimits {
        request_max_bytes: 100_000,
        requests_total_max_bytes: 100_000,
        request_memory_wait_max: Duration::from_secs(6),
        ..ListenerLimits::default()
    };
    let harness = listen(limits).await;
    let large = frames(&[&format!("now {}", "x".repeat(90_000))]);
    let (mut stalled, mut waiting) = (harness.connect().await, harness.connect().await);
    stalled.write_all(&large[..80_000]).await.unwrap();
    time::sleep(Duration::from_millis(50)).await;
    waiting.write_all(&large).await.unwrap();
    let mut small = harness.connect().await;
    for _ in 0..20 {
        small.write_all(&frames(&["now small"])).await.unwrap();
        assert_eq!(read_one(&mut small).await, "small");
    }
    assert!(harness.service.started.lock().iter().all(|text| text.len() < 100), "the large one has no room yet");
    assert_eq!(read_to_close(&mut stalled).await, b"");
    assert_eq!(read_one(&mut waiting).await.len(), 90_000);
}

#[tokio::test]
async fn requests_that_arrived_together_are_started_together_and_answered_in_order() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    let texts = ["now join a", "commit join b", "now join c", "now d", "now join e"];
    client.write_all(&frames(&texts)).await.unwrap();
    assert_eq!(harness.started(5).await, texts);
    assert_eq!(*harness.service.joined.lock(), [3, 1]);
    harness.service.go.notify_one();
    for answer in ["join a", "join b", "join c", "d", "join e"] {
        assert_eq!(read_one(&mut client).await, answer);
    }
}

#[tokio::test]
async fn a_joined_request_that_closes_lets_those_before_it_out() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    client.write_all(&frames(&["now join a", "close join", "now join c"])).await.unwrap();
    assert_eq!(read_to_close(&mut client).await, frames(&["join a"]));
    assert_eq!(harness.service.started.lock().len(), 2);
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_one_that_waits_for_us_is_not() {
    let limits = ListenerLimits { idle_max: Duration::from_millis(60), ..ListenerLimits::default() };
    let harness = listen(limits).await;
    let (mut idle, mut waiting) = (harness.connect().await, harness.connect().await);
    waiting.write_all(&frames(&["wait a"])).await.unwrap();
    assert_eq!(read_to_close(&mut idle).await, b"");
    time::sleep(Duration::from_millis(80)).await;
    harness.service.go.notify_one();
    assert_eq!(read_one(&mut waiting).await, "a");
    assert_eq!(read_to_close(&mut waiting).await, b"");
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_and_others_go_on() {
    let limits = ConnectionLimits { max: 1, ..ConnectionLimits::default() };
    let harness = listen_within(ListenerLimits::default(), limits).await;
    let mut first = harness.connect().await;
    first.write_all(&frames(&["now a"])).await.unwrap();
    assert_eq!(read_one(&mut first).await, "a");
    let mut second = harness.connect().await;
    assert_eq!(read_to_close(&mut second).await, b"");
    first.write_all(&frames(&["now b"])).await.unwrap();
    assert_eq!(read_one(&mut first).await, "b");
}

#[tokio::test]
async fn stopping_answers_what_has_effects_and_closes() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    client.write_all(&frames(&["commit a"])).await.unwrap();
    harness.started(1).await;
    harness.shutdown.trigger();
    taffrail_runtime::task::yield_now().await;
    harness.service.go.notify_one();
    assert_eq!(read_to_close(&mut client).await, frames(&["a"]));
    time::timeout(SOON, harness.running).await.unwrap().unwrap();
    assert!(connect(&harness.address).await.is_err());
}

#[tokio::test]
async fn answers_are_counted_as_they_leave_with_what_they_waited_for() {
    let harness = listen(ListenerLimits::default()).await;
    let mut client = harness.connect().await;
    client.write_all(&frames(&["wait a", "now b", "silent"])).await.unwrap();
    harness.started(3).await;
    assert_eq!(harness.service.sent.lock().len(), 0, "nothing has left");
    harness.service.go.notify_one();
    assert_eq!((read_one(&mut client).await, read_one(&mut client).await), ("a".to_owned(), "b".to_owned()));
    level(|| harness.service.sent.lock().len() == 2).await;
    let sent = harness.service.sent.lock().clone();
    let [(first, _, _), (second, second_taken, _)] = sent.as_slice() else { panic!("two answers: {sent:?}") };
    assert!(first.waited_since.is_some_and(|since| since >= first.started && since <= first.answered), "{first:?}");
    assert_eq!(second.waited_since, None, "it waited for nobody");
    assert!(second.answered <= first.answered && *second_taken >= first.answered, "its answer stood behind the first");
    assert_eq!(second.arrived, first.arrived, "they came together");
    assert!(sent.iter().all(|(times, taken, out)| times.answered <= *taken && taken <= out), "{sent:?}");
}
