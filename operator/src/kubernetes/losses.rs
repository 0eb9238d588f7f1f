//! Records that brokers know to be lost: what is beyond `min.insync.replicas` happens seldom, and nobody may overlook it.
//!
//! Brokers tell of it on their metrics port. Each loss is told once as an Event, of the Topic that is about the topic or else
//! of the Cluster; another operator that takes over tells it again.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use futures::future::join_all;
use serde::Deserialize;
use taffrail_runtime::{net, time};

/// How long a broker may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest answer: a broker remembers a thousand.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Losses that are remembered as told.
const TOLD_MAX: usize = 10_000;

/// Where brokers tell of them.
const PATH: &str = "/losses";

/// What of a partition is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Offset of the first record that is gone.
    pub from: i64,
    /// First offset that is not known to have been committed; `from` = none is known.
    pub to: i64,
}

impl Loss {
    /// The same in words.
    pub fn note(&self) -> String {
        let Self { topic, partition, from, to } = self;
        let range = match to - from {
            1 => format!("record {from}"),
            many if many > 1 => format!("records {from} to {}", to - 1),
            _ => format!("records from {from} on, if there were any,"),
        };
        format!(
            "{range} of {topic}-{partition} are lost: more replicas lost what they had not written to disk at once than \
             min.insync.replicas protects from, or an unclean election was asked for"
        )
    }
}

/// Losses that were told.
#[derive(Debug, Default)]
pub struct Told {
    ranges: BTreeMap<(String, i32), (i64, i64)>,
}

impl Told {
    /// Those of `losses` that are news, each partition once: several brokers may know of the same.
    pub fn news(&mut self, losses: Vec<Loss>) -> Vec<Loss> {
        let mut widest: BTreeMap<(String, i32), Loss> = BTreeMap::new();
        for loss in losses {
            let known = widest.entry((loss.topic.clone(), loss.partition)).or_insert_with(|| loss.clone());
            (known.from, known.to) = (known.from.min(loss.from), known.to.max(loss.to));
        }
        let mut news = Vec::new();
        for (key, loss) in widest {
            let is_told = self.ranges.get(&key).is_some_and(|(from, to)| *from <= loss.from && loss.to <= *to);
            if !is_told && (self.ranges.len() < TOLD_MAX || self.ranges.contains_key(&key)) {
                self.ranges.insert(key, (loss.from, loss.to));
                news.push(loss);
            }
        }
        news
    }
}

/// What the brokers at these places know; those that do not answer are asked again another time.
pub async fn ask(places: Vec<String>) -> Vec<Loss> {
    let answers = join_all(places.iter().map(|place| async move {
        match time::timeout(ANSWER_TIMEOUT, ask_one(place)).await {
            Ok(Ok(losses)) => losses,
            Ok(Err(error)) => {
                tracing::debug!(place, %error, "a broker does not tell what was lost");
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }));
    answers.await.into_iter().flatten().collect()
}

async fn ask_one(place: &str) -> io::Result<Vec<Loss>> {
    read(&net::http_get(place, PATH, ANSWER_BYTES_MAX).await?)
}

/// The losses of a whole answer. A release that does not know the path has none to tell.
fn read(answer: &[u8]) -> io::Result<Vec<Loss>> {
    let head_end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let (head, body) = head_end.map_or((answer, &[][..]), |at| (&answer[..at], &answer[at + 4..]));
    match head.get(9..12) {
        Some(b"200") => serde_json::from_slice(body).map_err(io::Error::other),
        Some(b"404") => Ok(Vec::new()),
        _ => Err(io::Error::other("no answer of HTTP")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(partition: i32, from: i64, to: i64) -> Loss {
        Loss { topic: "orders".to_owned(), partition, from, to }
    }

    #[test]
    fn each_loss_is_told_once_and_again_when_it_grows() {
        let mut told = Told::default();
        assert_eq!(told.news(vec![loss(0, 5, 8), loss(0, 6, 9), loss(1, 2, 2)]), [loss(0, 5, 9), loss(1, 2, 2)]);
        assert_eq!(told.news(vec![loss(0, 5, 9), loss(1, 2, 2)]), []);
        assert_eq!(told.news(vec![loss(0, 5, 9), loss(0, 20, 30)]), [loss(0, 5, 30)]);
        assert_eq!(told.news(vec![]), []);
    }

    #[test]
    fn a_note_says_which_records() {
        for (loss, expected) in [
            (loss(3, 5, 8), "records 5 to 7 of orders-3 are lost"),
            (loss(3, 5, 6), "record 5 of orders-3"),
            (loss(3, 5, 5), "records from 5 on, if there were any, of orders-3"),
        ] {
            assert!(loss.note().starts_with(expected), "{}", loss.note());
        }
    }

    #[test]
    fn answers_are_read_and_nonsense_is_an_error() {
        let ok = "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n";
        let one = r#"[{"topic":"orders","partition":3,"leaderEpoch":2,"from":5,"to":8}]"#;
        assert_eq!(read(format!("{ok}{one}").as_bytes()).unwrap(), [loss(3, 5, 8)]);
        assert_eq!(read(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap(), []);
        for bad in ["", "HTTP/1.0 200 OK\r\n\r\n{", "HTTP/1.0 503 No\r\n\r\n[]", "SSH-2.0-OpenSSH_9.9 200"] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
