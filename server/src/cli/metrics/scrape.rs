//! Reads metrics of a process.

use std::io;
use std::time::Duration;

use taffrail_runtime::{net, time};

/// Largest answer that is taken.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScrapeError {
    /// Nobody answers there, or the connection broke.
    #[error("no metrics from {address} (name another process by --address): {source}")]
    Io {
        /// Host and port.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The process takes too long.
    #[error("{0} did not answer in time")]
    Silent(String),
    /// What came is no answer to the question.
    #[error("{address} answers {what}")]
    Strange {
        /// Host and port.
        address: String,
        /// What it answers.
        what: String,
    },
}

/// The text at `path` of the process at `address`, which may take `timeout`.
///
/// # Errors
/// When there is none.
pub(crate) async fn scrape(address: &str, path: &str, timeout: Duration) -> Result<String, ScrapeError> {
    let answer = time::timeout(timeout, net::http_get(address, path, ANSWER_BYTES_MAX)).await;
    let answer = answer.map_err(|_| ScrapeError::Silent(address.to_owned()))?;
    let answer = answer.map_err(|source| ScrapeError::Io { address: address.to_owned(), source })?;
    body(&answer).map_err(|what| ScrapeError::Strange { address: address.to_owned(), what })
}

/// The body of an answer; what it is if it is none of a scrape.
fn body(answer: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Err("something else than HTTP".to_owned());
    };
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(crate::cli::output::shown(status));
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_body_of_an_answer_is_taken_and_other_answers_are_told() {
        let cases = [
            ("HTTP/1.0 200 OK\r\nA: b\r\n\r\nup 1\n\r\n\r\n", Ok("up 1\n\r\n\r\n")),
            ("HTTP/1.1 404 Not Found\r\n\r\n", Err("HTTP/1.1 404 Not Found")),
            ("HTTP/1.1 \u{1b}[2J\r\n\r\n", Err("HTTP/1.1 \\u{1b}[2J")),
            ("SSH-2.0\r\n", Err("something else than HTTP")),
            ("", Err("something else than HTTP")),
        ];
        for (answer, expected) in cases {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(body(answer.as_bytes()), expected, "{answer:?}");
        }
    }
}
