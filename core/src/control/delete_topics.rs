//! Deleting topics.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::draft::Draft;
use super::{ControlError, DeleteTopics, DeletedTopic, Inputs, Outcome, TopicRef, configs};
use crate::errors::ErrorCode;
use crate::event::MetadataEvent;
use crate::ids::TopicId;
use crate::image::MetadataImage;

pub(super) fn delete(
    draft: &mut Draft,
    request: &DeleteTopics,
    inputs: &Inputs<'_>,
) -> Result<Vec<DeletedTopic>, ControlError> {
    let layers = draft.image().broker_layers(None, inputs.static_config);
    if !configs::broker_config(&layers)?.delete_topic_enable {
        return Err(ControlError::plain(ErrorCode::TopicDeletionDisabled));
    }
    let mut times: BTreeMap<(Option<&str>, TopicId), usize> = BTreeMap::new();
    for reference in &request.topics {
        *times.entry(key(reference)).or_default() += 1;
    }
    // All references are judged before anything is deleted: the request is one.
    let mut found = Vec::with_capacity(request.topics.len());
    for reference in &request.topics {
        let outcome = match times.remove(&key(reference)) {
            // Answered at its first occurrence.
            None => continue,
            Some(1) => resolve(draft.image(), reference),
            Some(_) => Err(duplicate(reference)),
        };
        found.push(match outcome {
            Ok((name, id)) => DeletedTopic { name: Some(name), id, outcome: Ok(()) },
            Err(error) => DeletedTopic { name: reference.name.clone(), id: reference.id, outcome: Err(error) },
        });
    }
    let mut named: BTreeMap<TopicId, usize> = BTreeMap::new();
    for topic in found.iter().filter(|topic| topic.outcome.is_ok()) {
        *named.entry(topic.id).or_default() += 1;
    }
    for topic in found.iter_mut().filter(|topic| topic.outcome.is_ok()) {
        if named.get(&topic.id) != Some(&1) {
            let text = "The provided topic name maps to an ID that was already supplied.";
            topic.outcome = Err(ControlError::new(ErrorCode::InvalidRequest, text));
        } else if let Some(name) = topic.name.clone() {
            draft.emit(MetadataEvent::TopicDeleted { name, topic_id: topic.id });
        }
    }
    Ok(found)
}

fn key(reference: &TopicRef) -> (Option<&str>, TopicId) {
    (reference.name.as_deref(), reference.id)
}

fn resolve(image: &MetadataImage, reference: &TopicRef) -> Outcome<(Arc<str>, TopicId)> {
    let refuse = |text: &str| Err(ControlError::new(ErrorCode::InvalidRequest, text));
    let topic = match (&reference.name, reference.id.is_zero()) {
        (None, true) => return refuse("Neither topic name nor id were specified."),
        (Some(_), false) => return refuse("You may not specify both topic name and topic id."),
        (Some(name), true) => image.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition),
        (None, false) => image.topic_by_id(reference.id).ok_or(ErrorCode::UnknownTopicId),
    };
    topic.map(|topic| (Arc::clone(&topic.name), topic.id)).map_err(ControlError::plain)
}

fn duplicate(reference: &TopicRef) -> ControlError {
    let text = if reference.name.is_some() { "Duplicate topic name." } else { "Duplicate topic id." };
    ControlError::new(ErrorCode::InvalidRequest, text)
}
