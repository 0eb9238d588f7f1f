//! Who hears of a partition's news: fetches that wait for it to grow, and fetch sessions that want to know which of their
//! partitions are worth a look (Kafka's purgatory, without the polling and without the looking around).
//!
//! Whoever fetches has one [`News`] and subscribes it to partitions, for a single wait or for as long as a session lives.
//! A partition with news notes its number there once and counts down the bytes that a waiting fetch still wants; it does
//! nothing more until somebody has looked. So an idle partition costs its subscribers nothing, and a partition that nobody
//! subscribes to pays one load of an atomic counter for an append.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use futures::task::AtomicWaker;
use parking_lot::Mutex;

/// What a fetch or a session has heard.
#[derive(Default)]
pub(crate) struct News {
    /// Numbers of partitions with news that nobody has looked at. No longer than the number of subscriptions, but for those
    /// that ended meanwhile.
    noted: Mutex<Vec<u32>>,
    missing_bytes: AtomicI64,
    is_woken: AtomicBool,
    /// Whose turn it is to wait, where one request can overtake another.
    turn: AtomicI32,
    waker: AtomicWaker,
}

impl News {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on a wait lasts until there are `missing_bytes` more. Whoever calls this looks at [`News::any`] before it
    /// waits: what came earlier does not count.
    pub(crate) fn expect(&self, missing_bytes: i64) {
        self.missing_bytes.store(missing_bytes, Ordering::Release);
        self.is_woken.store(false, Ordering::SeqCst);
    }

    /// Whether there are news that nobody has looked at.
    pub(crate) fn any(&self) -> bool {
        !self.noted.lock().is_empty()
    }

    /// Gives the numbers of partitions with news, each to `take`.
    pub(crate) fn drain(&self, take: impl FnMut(u32)) {
        self.noted.lock().drain(..).for_each(take);
    }

    /// Whoever waits in another turn than `turn` has been overtaken.
    pub(crate) fn begin_turn(&self, turn: i32) {
        self.turn.store(turn, Ordering::SeqCst);
        self.wake();
    }

    /// Whether somebody else waits here by now.
    pub(crate) fn is_overtaken(&self, turn: i32) -> bool {
        self.turn.load(Ordering::SeqCst) != turn
    }

    /// Waits until enough bytes came, or there is another reason to look.
    pub(crate) async fn woken(&self) {
        self.woken_in(self.turn.load(Ordering::SeqCst)).await;
    }

    /// The same, until another turn than `turn` begins. There is room for one who waits, so who is overtaken must not take
    /// the other's place.
    pub(crate) async fn woken_in(&self, turn: i32) {
        poll_fn(|context| {
            if self.is_overtaken(turn) {
                return Poll::Ready(());
            }
            self.waker.register(context.waker());
            let is_over = self.is_woken.load(Ordering::SeqCst) || self.is_overtaken(turn);
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn note(&self, number: u32) {
        self.noted.lock().push(number);
    }

    fn add(&self, bytes: i64) {
        if self.missing_bytes.fetch_sub(bytes, Ordering::AcqRel) <= bytes {
            self.wake();
        }
    }

    fn wake(&self) {
        if !self.is_woken.swap(true, Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}

/// One partition's way to one [`News`].
pub(crate) struct Subscription {
    news: Arc<News>,
    number: u32,
    is_noted: AtomicBool,
    /// Its place among the subscriptions of the partition; 0 = it has none.
    place: AtomicU64,
}

impl Subscription {
    pub(crate) fn new(news: &Arc<News>, number: u32) -> Arc<Self> {
        Arc::new(Self { news: Arc::clone(news), number, is_noted: AtomicBool::new(false), place: AtomicU64::new(0) })
    }

    /// Somebody is about to look at the partition; news from now on are noted again.
    pub(crate) fn looked_at(&self) {
        self.is_noted.swap(false, Ordering::AcqRel);
    }

    fn note(&self) {
        if !self.is_noted.swap(true, Ordering::AcqRel) {
            self.news.note(self.number);
        }
    }
}

/// The subscriptions to one partition.
#[derive(Default)]
pub(crate) struct Subscribers {
    all: Mutex<Places>,
    count: AtomicUsize,
}

/// Subscriptions in the order in which they came, so that one can be taken out wherever it stands.
#[derive(Default)]
struct Places {
    taken: BTreeMap<u64, Arc<Subscription>>,
    last: u64,
}

impl Subscribers {
    pub(crate) fn enter(&self, subscription: &Arc<Subscription>) {
        let mut all = self.all.lock();
        if subscription.place.load(Ordering::Relaxed) == 0 {
            all.last += 1;
            let place = all.last;
            subscription.place.store(place, Ordering::Relaxed);
            all.taken.insert(place, Arc::clone(subscription));
        }
        // With the fence of the lock this is seen by every append that the caller's next look does not see.
        self.count.store(all.taken.len(), Ordering::SeqCst);
    }

    pub(crate) fn leave(&self, subscription: &Arc<Subscription>) {
        let mut all = self.all.lock();
        all.taken.remove(&subscription.place.swap(0, Ordering::Relaxed));
        self.count.store(all.taken.len(), Ordering::SeqCst);
    }

    /// `bytes` more can be read.
    pub(crate) fn grown(&self, bytes: i64) {
        self.each(|it| {
            it.note();
            it.news.add(bytes);
        });
    }

    /// There is something to tell that nobody need be woken for.
    pub(crate) fn noted(&self) {
        self.each(Subscription::note);
    }

    /// What the partition can give has changed in another way: all have to look at once.
    pub(crate) fn changed(&self) {
        self.each(|it| {
            it.note();
            it.news.wake();
        });
    }

    fn each(&self, tell: impl Fn(&Subscription)) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.all.lock().taken.values().for_each(|subscription| tell(subscription));
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taffrail_runtime::{task, time};

    use super::*;

    fn noted(news: &News) -> Vec<u32> {
        let mut noted = Vec::new();
        news.drain(|number| noted.push(number));
        noted
    }

    fn is_woken(news: &News) -> bool {
        news.is_woken.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn a_wait_ends_when_its_partitions_together_have_grown_enough() {
        let (first, second) = (Subscribers::default(), Subscribers::default());
        let news = News::new();
        first.enter(&Subscription::new(&news, 1));
        second.enter(&Subscription::new(&news, 2));
        news.expect(100);
        let waiting = Arc::clone(&news);
        let task = task::spawn(async move { waiting.woken().await });
        first.grown(60);
        assert!(!is_woken(&news));
        second.grown(40);
        time::timeout(Duration::from_secs(5), task).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn who_is_overtaken_waits_no_more_and_the_other_one_does() {
        let (partition, news) = (Subscribers::default(), News::new());
        partition.enter(&Subscription::new(&news, 1));
        let wait = |turn| {
            let news = Arc::clone(&news);
            task::spawn(async move { news.woken_in(turn).await })
        };
        news.begin_turn(1);
        news.expect(100);
        let first = wait(1);
        task::yield_now().await;
        news.begin_turn(2);
        news.expect(100);
        let second = wait(2);
        time::timeout(Duration::from_secs(5), first).await.unwrap().unwrap();
        assert!(!second.is_finished());
        partition.grown(100);
        time::timeout(Duration::from_secs(5), second).await.unwrap().unwrap();
    }

    #[test]
    fn a_partition_is_noted_once_until_somebody_looks() {
        let partition = Subscribers::default();
        let news = News::new();
        let subscription = Subscription::new(&news, 7);
        partition.enter(&subscription);
        news.expect(1000);
        assert!(!news.any());
        (0..5).for_each(|_| partition.grown(1));
        partition.noted();
        assert_eq!(noted(&news), [7]);
        partition.grown(1);
        assert_eq!(noted(&news), [], "taken, but not looked at yet");
        subscription.looked_at();
        partition.noted();
        assert_eq!(noted(&news), [7]);
        assert!(!is_woken(&news), "6 of 1000 bytes");
    }

    #[test]
    fn a_change_wakes_all_and_who_left_hears_nothing() {
        let partition = Subscribers::default();
        let (stays, leaves) = (News::new(), News::new());
        let leaving = Subscription::new(&leaves, 0);
        for (news, subscription) in [(&stays, &Subscription::new(&stays, 0)), (&leaves, &leaving)] {
            news.expect(100);
            partition.enter(subscription);
        }
        partition.leave(&leaving);
        partition.changed();
        partition.grown(1000);
        assert!(is_woken(&stays) && stays.any());
        assert!(!is_woken(&leaves) && !leaves.any());
        assert_eq!(partition.len(), 1);
    }
}
