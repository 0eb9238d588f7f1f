//! Why a question is not answered, in words that the page shows.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use taffrail_client::groups::GroupsError;
use taffrail_client::kafka::KafkaError;
use taffrail_core::errors::ErrorCode;

use crate::exit::told;

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl Refusal {
    /// The question makes no sense.
    pub(super) fn wrong(text: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, text: text.into() }
    }

    /// What was asked about is not there.
    pub(super) fn missing(text: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, text: text.into() }
    }

    /// Too many ask at a time.
    pub(super) fn busy() -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, text: "too many readers are under way; try again".to_owned() }
    }

    /// The answer took too long.
    pub(super) fn late() -> Self {
        Self { status: StatusCode::GATEWAY_TIMEOUT, text: "the cluster did not answer in time".to_owned() }
    }
}

impl From<KafkaError> for Refusal {
    fn from(error: KafkaError) -> Self {
        let status = match (error.code(), &error) {
            (Some(ErrorCode::UnknownTopicOrPartition | ErrorCode::GroupIdNotFound), _)
            | (_, KafkaError::NoPartition { .. }) => StatusCode::NOT_FOUND,
            (Some(ErrorCode::InvalidTopicException), _) => StatusCode::BAD_REQUEST,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self { status, text: told(&error.into()) }
    }
}

impl From<GroupsError> for Refusal {
    fn from(error: GroupsError) -> Self {
        Self { status: StatusCode::BAD_GATEWAY, text: told(&error.into()) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = super::json(&json!({ "error": self.text }));
        *response.status_mut() = self.status;
        response
    }
}
