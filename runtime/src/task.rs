//! Tasks: units of work that wait without holding a thread.

use std::future::Future;

pub use tokio::task::{JoinError, JoinHandle, yield_now};

use crate::shutdown::Shutdown;

/// Starts `work` on the current runtime.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(work)
}

/// Starts `work` on the current runtime; it ends with `shutdown` if it has not before.
pub fn spawn_until<F>(shutdown: Shutdown, work: F) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    spawn(async move {
        tokio::select! {
            () = work => {}
            () = shutdown.triggered() => {}
        }
    })
}

/// Starts `work` on the current shard, which it never leaves: it need not be `Send`.
pub fn spawn_local<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    tokio::task::spawn_local(work)
}

/// Runs `main` to its end on a runtime with `threads` worker threads for what is not on the data path: metadata, gRPC,
/// HTTP, the operator.
///
/// # Errors
/// When the operating system refuses threads or an event queue.
pub fn block_on<F: Future>(threads: usize, main: F) -> std::io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .thread_name("taffrail-control")
        .enable_all()
        .build()?;
    let output = runtime.block_on(main);
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    Ok(output)
}

/// Runs `main` to its end on the calling thread alone; for tests and short commands.
///
/// # Errors
/// When the operating system refuses an event queue.
pub fn block_on_current_thread<F: Future>(main: F) -> std::io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(tokio::task::LocalSet::new().block_on(&runtime, main))
}
