//! A way through which connections go, and which can be cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taffrail_runtime::net::{TcpListener, connect};
use taffrail_runtime::task;
use tokio::sync::watch;

/// Passes connections on until it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: String,
    is_cut: Arc<AtomicBool>,
    /// Ends the connections.
    cuts: watch::Sender<u64>,
    accepting: task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(target: String) -> Self {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let is_cut = Arc::new(AtomicBool::new(false));
        let (cuts, _) = watch::channel(0);
        let accepting = {
            let (is_cut, cuts) = (Arc::clone(&is_cut), cuts.clone());
            task::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    if is_cut.load(Ordering::Acquire) {
                        continue;
                    }
                    let (mut cut, target) = (cuts.subscribe(), target.clone());
                    drop(task::spawn(async move {
                        let Ok(mut near) = stream.attach() else { return };
                        let Ok(mut far) = connect(&target).await else { return };
                        tokio::select! {
                            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                            _ = cut.changed() => {}
                        }
                    }));
                }
            })
        };
        Self { address, is_cut, cuts, accepting }
    }

    /// Ends all connections, and takes no new ones.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    pub(crate) fn mend(&self) {
        self.is_cut.store(false, Ordering::Release);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
