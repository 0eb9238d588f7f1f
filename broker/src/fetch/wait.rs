//! Waiting until a fetch has enough.

use std::sync::Arc;

use parking_lot::Mutex;
use taffrail_runtime::blocking::Pool;
use taffrail_runtime::time;

use super::read::{Findings, Item, Limits, read_all, read_all_from_memory};
use super::session::{PartitionKey, Session};
use crate::replica::news::News;
use crate::replica::{Partition, Reach, Refused, Subscribed};

/// Finds a partition.
pub(crate) type Find<'a> = &'a dyn Fn(&PartitionKey) -> Result<Arc<Partition>, Refused>;

/// Where the partitions of a fetch come from, each time that they are looked at.
pub(crate) enum Source<'a> {
    /// The request names them, once.
    Request(Named),
    /// The session knows which of them are worth a look.
    Session(&'a Mutex<Session>, Turn, Find<'a>),
}

/// A request's turn in its session, which ends when the next request begins.
#[derive(Clone)]
pub(crate) struct Turn {
    news: Arc<News>,
    epoch: i32,
}

impl Turn {
    /// The turn of the request after which the session has this epoch.
    pub(crate) fn of(session: &Mutex<Session>, epoch: i32) -> Self {
        Self { news: Arc::clone(session.lock().news()), epoch }
    }

    fn is_over(&self) -> bool {
        self.news.is_overtaken(self.epoch)
    }
}

/// Partitions that a request names, and what tells of them once it has to wait.
pub(crate) struct Named {
    items: Arc<Vec<Item>>,
    reach: Reach,
    news: Arc<News>,
    subscribed: Vec<Option<Subscribed>>,
}

impl Named {
    pub(crate) fn new(items: Vec<Item>, reach: Reach) -> Self {
        Self { items: Arc::new(items), reach, news: News::new(), subscribed: Vec::new() }
    }

    /// The partitions, for another look.
    fn items(&self) -> Arc<Vec<Item>> {
        self.news.drain(|number| {
            if let Some(Some(subscribed)) = self.subscribed.get(number as usize) {
                subscribed.looked_at();
            }
        });
        Arc::clone(&self.items)
    }

    /// Subscribes to all; tells whether that is new.
    fn subscribe(&mut self) -> bool {
        let is_new = self.subscribed.is_empty();
        if is_new {
            let subscribe = |item: &Item| {
                let partition = item.partition.as_ref().ok()?;
                Some(partition.subscribe(self.reach, &self.news, item.number))
            };
            self.subscribed = self.items.iter().map(subscribe).collect();
        }
        is_new
    }
}

impl Source<'_> {
    fn items(&self) -> Arc<Vec<Item>> {
        match self {
            Self::Request(named) => named.items(),
            Self::Session(session, _, find) => Arc::new(session.lock().due(find)),
        }
    }

    /// Whether the client has sent another request meanwhile.
    fn is_overtaken(&self) -> bool {
        matches!(self, Self::Session(_, turn, _) if turn.is_over())
    }

    /// Waits for these news.
    async fn woken(&self, news: &News) {
        match self {
            Self::Request(_) => news.woken().await,
            Self::Session(_, turn, _) => news.woken_in(turn.epoch).await,
        }
    }

    /// What tells when there are `missing_bytes` more; `None` = there may be already, or it is another request's turn.
    fn expect(&mut self, missing_bytes: u64) -> Option<Arc<News>> {
        let news = match self {
            Self::Request(named) => {
                if named.subscribe() {
                    // What came before that was not heard.
                    return None;
                }
                Arc::clone(&named.news)
            }
            Self::Session(_, turn, _) if turn.is_over() => return None,
            Self::Session(_, turn, _) => Arc::clone(&turn.news),
        };
        news.expect(i64::try_from(missing_bytes).unwrap_or(i64::MAX));
        (!news.any()).then_some(news)
    }
}

/// Reads until there are `min_bytes`, or a reason to answer with less, or until `deadline`. Gives the partitions that were
/// looked at last, and what was found.
pub(crate) async fn read_enough(
    pool: &Pool,
    source: &mut Source<'_>,
    limits: &Limits,
    min_bytes: u64,
    deadline: Option<time::Instant>,
) -> (Arc<Vec<Item>>, Findings) {
    let min_bytes = min_bytes.min(limits.max_bytes);
    loop {
        if source.is_overtaken() {
            // The next request looks at everything that this one has not told.
            return (Arc::default(), Findings::nothing(&[]));
        }
        let items = source.items();
        let findings = look(pool, &items, limits).await;
        let is_empty = matches!(source, Source::Request(_)) && items.is_empty();
        let Some(deadline) = deadline.filter(|_| !findings.is_urgent && findings.bytes < min_bytes && !is_empty) else {
            return (items, findings);
        };
        let Some(news) = source.expect(min_bytes - findings.bytes) else { continue };
        if time::timeout_at(deadline, source.woken(&news)).await.is_err() {
            let items = source.items();
            let findings = look(pool, &items, limits).await;
            return (items, findings);
        }
    }
}

/// Looks at partitions: at once if that asks nothing of the disk, else on the disk pool.
async fn look(pool: &Pool, items: &Arc<Vec<Item>>, limits: &Limits) -> Findings {
    if let Some(findings) = read_all_from_memory(items, limits) {
        return findings;
    }
    let (shared, limits) = (Arc::clone(items), limits.clone());
    match pool.run(move || read_all(&shared, &limits)).await {
        Ok(findings) => findings,
        // The disk has too much to do: the client gets nothing now, and asks again.
        Err(error) => {
            tracing::debug!(%error, "a fetch was not looked up");
            Findings::nothing(items)
        }
    }
}
