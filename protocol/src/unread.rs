//! How old the records are that a group has not read: what brokers ask each other beside ListOffsets.
//!
//! Kafka has no request for it. The questions travel as a tagged field of a ListOffsets request and the answers as one of
//! its response, under a number that Kafka will not reach; a broker that does not know it passes over it, as KIP-482 says,
//! and then only the offsets are known. Both begin with the version of their format.

use bytes::{BufMut, Bytes, BytesMut};
use taffrail_core::ids::{Offset, TopicId};

use crate::message::{ListOffsetsRequest, ListOffsetsResponse};
use crate::wire::{Reader, WireError};

/// Number of the tagged fields.
const TAG: i32 = 0x7a_f1;

/// Version of the format.
const VERSION: i8 = 0;

/// Partitions of one request, at most.
pub const PARTITIONS_MAX: usize = 5_000;

/// Offsets that are asked for in one partition, at most.
pub const OFFSETS_MAX: usize = 1_000;

/// The first version of ListOffsets that has tagged fields.
pub const SINCE_VERSION: i16 = 6;

/// What is asked about one partition of the request, whose order the questions have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The life of the topic that the offsets belong to.
    pub topic_id: TopicId,
    /// Offsets of which the age is wanted.
    pub offsets: Vec<Offset>,
}

/// How old a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// There is no such record, or nothing is known of it.
    Unknown,
    /// Milliseconds since it was appended.
    Appended(i64),
    /// Milliseconds since the newest timestamp in its batch, which its producer may have made up.
    Stamped(i64),
}

/// What is known of one partition of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Where the log begins.
    pub log_start: Offset,
    /// Of each offset that was asked for.
    pub ages: Vec<Age>,
}

/// Puts questions into a request, one for each of its partitions.
pub fn ask(request: &mut ListOffsetsRequest, questions: &[Question]) {
    let mut out = BytesMut::new();
    out.put_i8(VERSION);
    out.put_u32(questions.len() as u32);
    for question in questions {
        out.put_slice(&question.topic_id.0);
        out.put_u32(question.offsets.len() as u32);
        question.offsets.iter().for_each(|offset| out.put_i64(*offset));
    }
    request.unknown_tagged_fields.insert(TAG, out.freeze());
}

/// The questions in a request; `None` without any, or when they are not what [`ask`] writes: a field that is not understood
/// is passed over.
pub fn asked(request: &ListOffsetsRequest) -> Option<Vec<Question>> {
    let bytes = request.unknown_tagged_fields.get(&TAG)?;
    let questions = read(bytes, |reader| {
        let topic_id = reader.uuid()?;
        let offsets = list(reader, OFFSETS_MAX, |reader| reader.i64())?;
        Ok(Question { topic_id, offsets })
    });
    questions.ok()
}

/// Puts answers into a response; `None` for partitions of which there are none.
pub fn answer(response: &mut ListOffsetsResponse, answers: &[Option<Answer>]) {
    let mut out = BytesMut::new();
    out.put_i8(VERSION);
    out.put_u32(answers.len() as u32);
    for answer in answers {
        let (log_start, ages) = answer.as_ref().map_or((-1, &[][..]), |answer| (answer.log_start, &answer.ages[..]));
        out.put_i64(log_start);
        out.put_u32(ages.len() as u32);
        for age in ages {
            let (kind, ms) = match age {
                Age::Unknown => (0, 0),
                Age::Appended(ms) => (1, *ms),
                Age::Stamped(ms) => (2, *ms),
            };
            out.put_i8(kind);
            out.put_i64(ms);
        }
    }
    response.unknown_tagged_fields.insert(TAG, out.freeze());
}

/// The answers in a response, in the order of the questions; `None` from a broker that knows of none, or of others than
/// [`answer`] writes.
pub fn answered(response: &ListOffsetsResponse) -> Option<Vec<Option<Answer>>> {
    let bytes = response.unknown_tagged_fields.get(&TAG)?;
    let answers = read(bytes, |reader| {
        let log_start = reader.i64()?;
        let ages = list(reader, OFFSETS_MAX, |reader| {
            let (kind, ms) = (reader.i8()?, reader.i64()?);
            Ok(match kind {
                1 => Age::Appended(ms),
                2 => Age::Stamped(ms),
                _ => Age::Unknown,
            })
        })?;
        Ok((log_start >= 0).then_some(Answer { log_start, ages }))
    });
    answers.ok()
}

fn read<T>(bytes: &Bytes, one: impl Fn(&mut Reader<'_>) -> Result<T, WireError>) -> Result<Vec<T>, WireError> {
    let reader = &mut Reader::new(bytes, true);
    match reader.i8()? {
        VERSION => list(reader, PARTITIONS_MAX, one),
        unknown => Err(WireError::Length(i64::from(unknown))),
    }
}

/// A list of at most `most` elements. Room for them is made as they come.
fn list<T>(
    reader: &mut Reader<'_>,
    most: usize,
    one: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = reader.i32()?;
    match usize::try_from(count) {
        // Each element takes a byte at least.
        Ok(count) if count <= most && count <= reader.remaining() => (0..count).map(|_| one(reader)).collect(),
        _ => Err(WireError::Length(i64::from(count))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use taffrail_core::ids::Uuid;

    #[test]
    fn questions_and_answers_come_back_as_they_went() {
        let questions = [
            Question { topic_id: Uuid([1; 16]), offsets: vec![0, 7, i64::MAX] },
            Question { topic_id: Uuid([2; 16]), offsets: Vec::new() },
        ];
        let mut request = ListOffsetsRequest::default();
        assert_eq!(asked(&request), None);
        ask(&mut request, &questions);
        assert_eq!(asked(&request), Some(questions.to_vec()));

        let ages = vec![Age::Unknown, Age::Appended(5), Age::Stamped(70)];
        let answers = [Some(Answer { log_start: 3, ages }), None];
        let mut response = ListOffsetsResponse::default();
        assert_eq!(answered(&response), None);
        answer(&mut response, &answers);
        assert_eq!(answered(&response), Some(answers.to_vec()));
    }

    #[test]
    fn what_a_newer_version_says_is_passed_over_and_not_guessed() {
        let mut request = ListOffsetsRequest::default();
        request.unknown_tagged_fields.insert(TAG, Bytes::from_static(&[1, 0, 0, 0, 0]));
        assert_eq!(asked(&request), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_take_more_memory_than_they_are(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut request = ListOffsetsRequest::default();
            request.unknown_tagged_fields.insert(TAG, Bytes::from(bytes.clone()));
            if let Some(questions) = asked(&request) {
                prop_assert!(questions.len() <= bytes.len());
            }
            let mut response = ListOffsetsResponse::default();
            response.unknown_tagged_fields.insert(TAG, Bytes::from(bytes));
            let _ = answered(&response);
        }
    }
}
