//! One word that everything is to stop, heard by all who hold a clone.

use std::sync::Arc;

use tokio::sync::watch;

/// Handle to a stop signal: clones share it.
#[derive(Clone, Debug)]
pub struct Shutdown {
    sender: Arc<watch::Sender<bool>>,
    receiver: watch::Receiver<bool>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A signal that has not been given yet.
    pub fn new() -> Self {
        let (sender, receiver) = watch::channel(false);
        Self { sender: Arc::new(sender), receiver }
    }

    /// Tells all holders to stop. Telling twice is the same as once.
    pub fn trigger(&self) {
        self.sender.send_replace(true);
    }

    /// Whether the word has been given.
    pub fn is_triggered(&self) -> bool {
        *self.receiver.borrow()
    }

    /// Waits for the word; returns at once when it was given before.
    pub async fn triggered(&self) {
        let mut receiver = self.receiver.clone();
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = receiver.wait_for(|stop| *stop).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_hears_the_word_even_late() {
        let shutdown = Shutdown::new();
        let early = shutdown.clone();
        let waiter = crate::task::spawn(async move { early.triggered().await });
        shutdown.trigger();
        waiter.await.unwrap();
        shutdown.clone().triggered().await;
        assert!(shutdown.is_triggered());
    }
}
