//! Signals that ask the process to stop.

/// Waits for SIGINT (Ctrl-C) or SIGTERM, and tells which came.
///
/// # Errors
/// When the handlers cannot be installed.
#[cfg(unix)]
pub async fn terminate() -> std::io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    })
}
