//! Which names a topic may have.
//!
//! A topic's name is the name of its folder on disk, a metric label and part of log lines, so one grammar is checked
//! wherever a topic can be born: CreateTopics, auto-creation, resources. Texts of errors are Kafka's, which tools show
//! to people (Kafka's `org.apache.kafka.common.internals.Topic`).

/// Longest name, in characters. With "-<partition>" behind it, it still fits a file name of 255 bytes.
pub const NAME_MAX_CHARS: usize = 249;

/// Topic that keeps the offsets of consumer groups.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";

/// Topic that keeps the state of transactions.
pub const TRANSACTION_STATE: &str = "__transaction_state";

/// Topic that keeps the state of share groups.
pub const SHARE_GROUP_STATE: &str = "__share_group_state";

/// The name under which Kafka keeps its own metadata log: nobody may create it.
pub const CLUSTER_METADATA: &str = "__cluster_metadata";

/// Why a text is no name of a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicNameError {
    /// No characters at all.
    #[error("Topic name is invalid: the empty string is not allowed")]
    Empty,
    /// "." or "..", which are folders to a file system.
    #[error("Topic name is invalid: '{0}' is not allowed")]
    Dots(String),
    /// More than [`NAME_MAX_CHARS`].
    #[error("Topic name is invalid: the length of '{0}' is longer than the max allowed length {NAME_MAX_CHARS}")]
    TooLong(String),
    /// A character that is not allowed.
    #[error(
        "Topic name is invalid: '{0}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    )]
    Characters(String),
}

/// Checks the grammar of a topic's name.
///
/// # Errors
/// Names what is wrong; on the wire it is INVALID_TOPIC_EXCEPTION.
pub fn validate(name: &str) -> Result<(), TopicNameError> {
    if name.is_empty() {
        return Err(TopicNameError::Empty);
    }
    if name == "." || name == ".." {
        return Err(TopicNameError::Dots(name.to_owned()));
    }
    // Kafka counts UTF-16 units, as Java does; only names that the next check refuses can tell the difference.
    if name.encode_utf16().count() > NAME_MAX_CHARS {
        return Err(TopicNameError::TooLong(name.to_owned()));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        return Err(TopicNameError::Characters(name.to_owned()));
    }
    Ok(())
}

/// Whether the topic belongs to the cluster itself: clients see it flagged, and may not write to it.
pub fn is_internal(name: &str) -> bool {
    matches!(name, CONSUMER_OFFSETS | TRANSACTION_STATE | SHARE_GROUP_STATE)
}

/// The form in which two names are compared for a collision, or `None` if the name can collide with no other.
///
/// Metric names replace '.' by '_', so `a.b` and `a_b` would report into one series; Kafka refuses the second.
pub fn collision_key(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_kafka_judges_them() {
        let longest = "x".repeat(NAME_MAX_CHARS);
        let too_long = "x".repeat(NAME_MAX_CHARS + 1);
        let good = ["a", "foo.bar", "foo_bar", "A-1", "...", "-", "__consumer_offsets", longest.as_str()];
        for name in good {
            assert_eq!(validate(name), Ok(()), "{name}");
        }
        let characters = |name: &str| TopicNameError::Characters(name.to_owned());
        let bad = [
            ("", TopicNameError::Empty),
            (".", TopicNameError::Dots(".".to_owned())),
            ("..", TopicNameError::Dots("..".to_owned())),
            ("../x", characters("../x")),
            ("a/b", characters("a/b")),
            ("a b", characters("a b")),
            ("größe", characters("größe")),
            ("a\0b", characters("a\0b")),
            ("a\u{7f}", characters("a\u{7f}")),
            (too_long.as_str(), TopicNameError::TooLong(too_long.clone())),
        ];
        for (name, error) in bad {
            assert_eq!(validate(name), Err(error), "{name}");
        }
    }

    #[test]
    fn only_names_that_differ_in_dots_and_underscores_collide() {
        assert_eq!(collision_key("foo.bar"), collision_key("foo_bar"));
        assert_ne!(collision_key("foo.bar"), collision_key("Foo.bar"));
        assert_eq!(collision_key("foo-bar"), None);
    }
}
