//! How the controller says no.

use std::fmt;

use crate::errors::ErrorCode;

/// A refusal, as it goes to a Kafka client: a code to act on and a text to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ControlError {
    /// Kafka's error code.
    pub code: ErrorCode,
    /// What is wrong in detail; `None` where Kafka sends none.
    pub message: Option<String>,
}

impl ControlError {
    /// A refusal with a text of its own.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }

    /// A refusal with Kafka's general text for the code.
    pub fn plain(code: ErrorCode) -> Self {
        Self::new(code, code.message())
    }

    /// A refusal without a text.
    pub fn bare(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message.as_deref().unwrap_or(self.code.message()))
    }
}
