//! Records: a few of a topic from a place on. Who reads on asks again from where the answer ends, so nothing is kept for readers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use taffrail_client::kafka::{Consumer, FetchLimits, Fetched, KafkaClient, KafkaError, PartitionKey};
use taffrail_core::record::{DecompressLimits, Decompressor, Record};
use taffrail_runtime::time;

use super::Console;
use super::parameters::Parameters;
use super::refusal::Refusal;
use crate::cli::{Place, Position};

/// Records of an answer.
const RECORDS_MAX: usize = 500;
const RECORDS_DEFAULT: usize = 50;

/// Bytes of keys, values and headers in an answer; the record that goes beyond is the last one.
const ANSWER_MAX_BYTES: usize = 2 << 20;

/// Bytes of a key, a value or a header's value that are shown; there are as many fields as these take in an answer.
const FIELD_MAX_BYTES: usize = 512 << 10;
const FIELD_DEFAULT_BYTES: usize = 4 << 10;

/// Headers of a record that are shown.
const HEADERS_MAX: usize = 100;

/// Partitions that are read at a time.
const PARTITIONS_MAX: usize = 64;

/// How long records are waited for. Less may be answered than there is, and who asks again gets the rest.
const READ_MAX: Duration = Duration::from_secs(3);

/// What is fetched before it is wanted: little, as a reader wants a page.
const LIMITS: FetchLimits = FetchLimits { partition_bytes_max: 512 << 10, answer_bytes_max: 1 << 20, answers_max: 2 };

/// What a batch may be decompressed to.
const DECOMPRESSED_MAX_BYTES: usize = 32 << 20;

/// Where to begin.
enum Beginning {
    /// At the same place in each partition.
    Place(Position),
    /// At these offsets, where an answer ended.
    Offsets(BTreeMap<i32, i64>),
}

/// A page of records.
pub(super) async fn read(console: &Console, mut asked: Parameters) -> Result<Value, Refusal> {
    let topic = asked.needed("topic")?;
    let partition: Option<i32> = asked.parsed("partition", "a number")?;
    let from = from(&mut asked)?;
    let limit = asked.count("limit", RECORDS_DEFAULT, RECORDS_MAX)?;
    let field_max = asked.count("bytes", FIELD_DEFAULT_BYTES, FIELD_MAX_BYTES)?;
    let until = asked.text("until").map(|until| positions("until", &until)).transpose()?.unwrap_or_default();
    asked.end()?;
    let Some(_place) = console.reads.take() else { return Err(Refusal::busy()) };
    let mut client = console.clients.take().await?;
    let partitions = client.partitions(&topic, partition.as_slice()).await?;
    if partitions.len() > PARTITIONS_MAX {
        let text = format!(
            "{topic} has {} partitions, of which {PARTITIONS_MAX} can be read at a time: choose one",
            partitions.len()
        );
        return Err(Refusal::wrong(text));
    }
    let places = resolve(&mut client, from, &partitions).await?;
    let mut page = Page::new(limit, field_max, &places, &until);
    read_page(&mut client, &places, &mut page).await?;
    console.clients.give_back(client);
    Ok(page.answer(&topic, &places))
}

fn from(asked: &mut Parameters) -> Result<Beginning, Refusal> {
    if let Some(offsets) = asked.text("at") {
        return Ok(Beginning::Offsets(positions("at", &offsets)?));
    }
    let position: Position = asked.parsed("from", crate::cli::PLACES)?.unwrap_or(Position::START);
    if position.is_current() {
        return Err(Refusal::wrong("from is 'current', and only groups have a current offset"));
    }
    Ok(Beginning::Place(position))
}

/// Offsets as an answer tells them: `0:12,1:40`.
fn positions(name: &str, text: &str) -> Result<BTreeMap<i32, i64>, Refusal> {
    let one = |pair: &str| {
        let (partition, offset) = pair.split_once(':')?;
        Some((partition.parse().ok()?, offset.parse().ok()?))
    };
    let positions: Option<BTreeMap<i32, i64>> = text.split(',').take(PARTITIONS_MAX).map(one).collect();
    positions.ok_or_else(|| Refusal::wrong(format!("{name} needs partitions and offsets, such as 0:12,1:40")))
}

async fn resolve(
    client: &mut KafkaClient,
    from: Beginning,
    partitions: &[PartitionKey],
) -> Result<Vec<Place>, KafkaError> {
    match from {
        Beginning::Place(position) => position.resolve(client, partitions, &BTreeMap::new(), time::unix_ms()).await,
        Beginning::Offsets(offsets) => {
            let bounds = client.bounds(partitions).await?;
            let place = |((topic, number), (start, end)): (PartitionKey, (i64, i64))| {
                let offset = offsets.get(&number).copied().unwrap_or(end).clamp(start, end.max(start));
                Place { partition: (topic, number), start, end, offset }
            };
            Ok(bounds.into_iter().map(place).collect())
        }
    }
}

/// Reads until the page is full, everything that there was is read, or time is up.
async fn read_page(client: &mut KafkaClient, places: &[Place], page: &mut Page) -> Result<(), KafkaError> {
    let unread = places.iter().filter(|place| page.wants(place.partition.1, place.offset));
    let positions: BTreeMap<PartitionKey, i64> = unread.map(|place| (place.partition.clone(), place.offset)).collect();
    if positions.is_empty() {
        return Ok(());
    }
    let deadline = time::monotonic() + READ_MAX;
    let mut consumer = Consumer::with_limits(positions, LIMITS);
    while !page.is_full() && !page.is_done() {
        match time::timeout_at(deadline, consumer.next(client)).await {
            Ok(fetched) => page.take(&fetched?)?,
            Err(_) => break,
        }
    }
    Ok(())
}

/// The records of an answer.
struct Page {
    records_max: usize,
    field_max: usize,
    records: Vec<Value>,
    /// Bytes of them.
    bytes: usize,
    /// The next offset of each partition, and the one at which to stop.
    next: BTreeMap<i32, (i64, i64)>,
    decompressor: Decompressor,
}

impl Page {
    /// A page that begins at `places` and goes to their ends, or to the offsets of `until` if these come first.
    fn new(records_max: usize, field_max: usize, places: &[Place], until: &BTreeMap<i32, i64>) -> Self {
        let next = |place: &Place| {
            let number = place.partition.1;
            (number, (place.offset, until.get(&number).map_or(place.end, |until| place.end.min(*until))))
        };
        Self {
            records_max,
            field_max,
            records: Vec::new(),
            bytes: 0,
            next: places.iter().map(next).collect(),
            decompressor: Decompressor::new(DecompressLimits::bytes(DECOMPRESSED_MAX_BYTES)),
        }
    }

    fn is_full(&self) -> bool {
        self.records.len() >= self.records_max || self.bytes >= ANSWER_MAX_BYTES
    }

    /// Whether all that was asked for has been read.
    fn is_done(&self) -> bool {
        self.next.values().all(|(next, stop)| next >= stop)
    }

    /// Whether a record at this place is asked for.
    fn wants(&self, partition: i32, offset: i64) -> bool {
        self.next.get(&partition).is_some_and(|(_, stop)| offset < *stop)
    }

    /// Takes what the page has room for.
    fn take(&mut self, fetched: &Fetched) -> Result<(), KafkaError> {
        let number = fetched.partition.1;
        let mut decompressor = std::mem::take(&mut self.decompressor);
        let visited = fetched.visit(&mut decompressor, |record| {
            if self.is_full() || !self.wants(number, record.offset) {
                return ControlFlow::Break(());
            }
            self.put(number, record);
            ControlFlow::Continue(())
        });
        self.decompressor = decompressor;
        visited?;
        if !self.is_full()
            && let Some((next, stop)) = self.next.get_mut(&number)
        {
            // Behind the last record there may be what is none: markers, or records that compaction took.
            *next = fetched.next_offset.min(*stop);
        }
        Ok(())
    }

    fn put(&mut self, partition: i32, record: &Record<'_>) {
        let field_max = self.field_max;
        let mut bytes = 0;
        let mut field = |content: Option<&[u8]>| {
            bytes += content.map_or(0, |content| content.len().min(field_max));
            content.map(|content| shown(content, field_max))
        };
        let headers: Vec<Value> = record
            .headers
            .take(HEADERS_MAX)
            .map(|(name, value)| json!({ "name": field(Some(name)), "value": field(value) }))
            .collect();
        self.records.push(json!({
            "partition": partition,
            "offset": record.offset,
            "timestampMs": (record.timestamp >= 0).then_some(record.timestamp),
            "key": field(record.key),
            "value": field(record.value),
            "headerCount": record.headers.len(),
            "headers": headers,
        }));
        self.bytes += bytes;
        if let Some((next, _)) = self.next.get_mut(&partition) {
            *next = record.offset + 1;
        }
    }

    fn answer(self, topic: &str, places: &[Place]) -> Value {
        let place = |place: &Place| {
            let next = self.next.get(&place.partition.1).map_or(place.offset, |(next, _)| *next);
            json!({ "partition": place.partition.1, "startOffset": place.start, "endOffset": place.end, "from": place.offset, "next": next })
        };
        let is_read = |place: &Place| self.next.get(&place.partition.1).is_none_or(|(next, _)| *next >= place.end);
        let at_end = places.iter().all(is_read);
        json!({
            "atMs": time::unix_ms(),
            "topic": topic,
            "partitions": places.iter().map(place).collect::<Vec<_>>(),
            "atEnd": at_end,
            "records": self.records,
        })
    }
}

/// Bytes as the page shows them: as text where they are UTF-8, else in base 64; the first ones, if there are too many.
fn shown(bytes: &[u8], most: usize) -> Value {
    let first = &bytes[..bytes.len().min(most)];
    let is_cut = first.len() < bytes.len();
    let text = match std::str::from_utf8(first) {
        Ok(text) => Some(text),
        // The cut may have gone through a character.
        Err(error) if is_cut && error.error_len().is_none() => std::str::from_utf8(&first[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    match text {
        Some(text) => json!({ "text": text, "bytes": bytes.len(), "cut": is_cut }),
        None => json!({ "base64": STANDARD.encode(first), "bytes": bytes.len(), "cut": is_cut }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_where_they_can_be_and_are_cut_between_characters() {
        assert_eq!(shown(b"<b>\x1b[2J", 10), json!({ "text": "<b>\u{1b}[2J", "bytes": 7, "cut": false }));
        assert_eq!(shown("aé".as_bytes(), 2), json!({ "text": "a", "bytes": 3, "cut": true }));
        assert_eq!(shown(b"\xff\x00", 10), json!({ "base64": "/wA=", "bytes": 2, "cut": false }));
        assert_eq!(shown(b"a\xffb", 2), json!({ "base64": "Yf8=", "bytes": 3, "cut": true }));
        assert_eq!(shown(b"", 10), json!({ "text": "", "bytes": 0, "cut": false }));
    }

    #[test]
    fn offsets_are_read_as_answers_tell_them() {
        assert_eq!(positions("at", "0:12,7:40").unwrap(), [(0, 12), (7, 40)].into());
        for wrong in ["", "0", "0:", "a:1", "0:1,,"] {
            assert!(positions("at", wrong).unwrap_err().text.starts_with("at needs"), "{wrong}");
        }
    }

    #[test]
    fn a_question_says_where_to_begin_or_is_refused() {
        let from = |query: &str| from(&mut Parameters::of(Some(query)).unwrap()).map(|_| ()).map_err(|it| it.text);
        for good in ["", "from=end-50", "from=%40-15m", "at=0:1"] {
            assert_eq!(from(good), Ok(()), "{good}");
        }
        assert!(from("from=middle").unwrap_err().starts_with("from is 'middle', and start, end, an offset"));
        assert!(from("from=current").unwrap_err().starts_with("from is 'current'"));
    }

    #[test]
    fn a_page_ends_where_the_next_one_begins() {
        let places = [(0, 5, 9), (1, 2, 2)].map(|(number, offset, end)| Place {
            partition: ("t".to_owned(), number),
            start: 0,
            end,
            offset,
        });
        let mut page = Page::new(2, 10, &places, &BTreeMap::new());
        let record = |offset| Record {
            offset,
            timestamp: -1,
            sequence: 0,
            key: None,
            value: Some(b"v"),
            headers: Default::default(),
        };
        page.put(0, &record(5));
        assert!(!page.is_full() && !page.is_done());
        page.put(0, &record(8));
        assert!(page.is_full() && page.is_done());
        let answer = page.answer("t", &places);
        assert_eq!((&answer["partitions"][0]["next"], &answer["partitions"][1]["next"]), (&json!(9), &json!(2)));
        assert_eq!(answer["atEnd"], true);
        assert_eq!((&answer["records"][0]["timestampMs"], &answer["records"][0]["key"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn the_page_before_ends_where_this_one_begins() {
        let place = Place { partition: ("t".to_owned(), 0), start: 0, end: 9, offset: 2 };
        let page = Page::new(50, 10, std::slice::from_ref(&place), &[(0, 5)].into());
        assert!(page.wants(0, 4) && !page.wants(0, 5) && !page.is_done());
        assert_eq!(page.answer("t", &[place])["atEnd"], false);
        let beyond = Place { partition: ("t".to_owned(), 0), start: 0, end: 9, offset: 5 };
        assert!(Page::new(50, 10, &[beyond], &[(0, 5)].into()).is_done());
    }
}
