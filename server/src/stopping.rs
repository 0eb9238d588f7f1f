//! How a process stops: in order, unless that takes too long or somebody is impatient.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use anyhow::bail;
use futures::future::{Either, select};
use taffrail_runtime::{signal, time};

/// How long after the first signal another one means impatience.
const SECOND_SIGNAL_AFTER: Duration = Duration::from_secs(1);

/// Waits for `stopping`, unless that takes longer than `timeout` or somebody asks a second time.
///
/// # Errors
/// Its own, or why it was not waited for.
pub(crate) async fn stop_within(
    timeout: Duration,
    stopping: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let stopping = time::timeout(timeout, stopping);
    let again = async {
        // Whoever wraps us may pass on a signal that the terminal has sent us already.
        time::sleep(SECOND_SIGNAL_AFTER).await;
        signal::terminate().await
    };
    match select(pin!(stopping), pin!(again)).await {
        Either::Left((Ok(result), _)) => result,
        Either::Left((Err(_), _)) => bail!("not stopped in time: the next start recovers what was not closed"),
        Either::Right(_) => bail!("told twice to stop: the next start recovers what was not closed"),
    }
}
