//! The responses of one connection, in the order of its requests.
//!
//! Each request takes a place when it is read; its answer is put there whenever it is ready; the writer takes answers from
//! the front only. So the order holds (invariant 10) however long single requests take.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use taffrail_runtime::task::JoinHandle;

use super::limits::{REQUESTS_IN_FLIGHT_MAX, UNSENT_MAX_BYTES};
use super::service::{CloseReason, Frame, Reply};
use super::signal::Signal;

/// A request's place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

enum Slot {
    /// The handler is at work; a task that may be dropped with the connection is named here.
    Open(Option<JoinHandle<()>>),
    Filled(Reply),
}

/// The places of one connection. Lives on one shard.
#[derive(Default)]
pub(crate) struct Outbox {
    /// Number of the place at the front of `slots`.
    front: Cell<u64>,
    slots: RefCell<VecDeque<Slot>>,
    /// Bytes of answers in memory that have not been sent yet; the writer may be at it.
    unsent_bytes: Cell<usize>,
    /// Something for the writer: an answer at the front, or the end.
    filled: Signal,
    /// Something for the reader: a place has become free, or the end.
    freed: Signal,
    /// The first reason for the end of the connection, once there is one.
    reason: RefCell<Option<CloseReason>>,
    /// No further request will be read.
    reading_ended: Cell<bool>,
}

/// What the writer finds at the front.
pub(crate) enum Front {
    /// An answer to send.
    Frame(Frame),
    /// The oldest request is still at work.
    Wait,
    /// Nothing more will come.
    End,
}

impl Outbox {
    /// Takes the next place.
    pub(crate) fn open(&self) -> Place {
        let mut slots = self.slots.borrow_mut();
        slots.push_back(Slot::Open(None));
        Place(self.front.get() + slots.len() as u64 - 1)
    }

    /// Puts an answer into its place. `quietly`: from the connection's own task, which polls the writer next.
    pub(crate) fn fill(&self, place: Place, reply: Reply, quietly: bool) {
        let front = self.front.get();
        // A place that is gone was given up when the connection ended.
        let Some(index) = place.0.checked_sub(front) else { return };
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(index as usize) else { return };
        if let Reply::Frame(frame) = &reply {
            self.unsent_bytes.set(self.unsent_bytes.get() + frame.memory_bytes());
        }
        *slot = Slot::Filled(reply);
        if index > 0 {
            return;
        }
        if quietly {
            self.filled.raise_quietly();
        } else {
            self.filled.raise();
        }
    }

    /// Names the task that works on `place` and that is dropped when the connection ends.
    pub(crate) fn droppable(&self, place: Place, task: JoinHandle<()>) {
        let mut slots = self.slots.borrow_mut();
        if let Some(index) = place.0.checked_sub(self.front.get())
            && let Some(slot @ Slot::Open(None)) = slots.get_mut(index as usize)
        {
            *slot = Slot::Open(Some(task));
        }
    }

    /// Takes what is at the front.
    pub(crate) fn pop(&self) -> Front {
        let mut slots = self.slots.borrow_mut();
        loop {
            match slots.front() {
                Some(Slot::Open(_)) => return Front::Wait,
                None if self.reading_ended.get() => return Front::End,
                None => return Front::Wait,
                Some(Slot::Filled(_)) => {}
            }
            let Some(Slot::Filled(reply)) = slots.pop_front() else { unreachable!("the front is filled") };
            self.front.set(self.front.get() + 1);
            self.freed.raise();
            match reply {
                Reply::Frame(frame) => return Front::Frame(frame),
                Reply::Silent => {}
                Reply::Close(reason) => {
                    slots.clear();
                    self.end(reason);
                    return Front::End;
                }
            }
        }
    }

    /// Places that are taken.
    pub(crate) fn len(&self) -> usize {
        self.slots.borrow().len()
    }

    /// Whether no further request may be started for now: there are many under way, or the client does not take its answers.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= REQUESTS_IN_FLIGHT_MAX || self.unsent_bytes.get() >= UNSENT_MAX_BYTES
    }

    /// `frames` have been sent.
    pub(crate) fn sent(&self, frames: &[Frame]) {
        let bytes = frames.iter().map(Frame::memory_bytes).sum::<usize>();
        let was_full = self.unsent_bytes.get() >= UNSENT_MAX_BYTES;
        self.unsent_bytes.set(self.unsent_bytes.get() - bytes);
        if was_full {
            self.freed.raise();
        }
    }

    /// Waits until there may be something for the writer.
    pub(crate) async fn wait_filled(&self) {
        self.filled.wait().await;
    }

    /// Waits until there may be something for the reader.
    pub(crate) async fn wait_freed(&self) {
        self.freed.wait().await;
    }

    /// Notes why the connection ends; the first reason counts. Requests are read no more.
    pub(crate) fn end(&self, reason: CloseReason) {
        self.reason.borrow_mut().get_or_insert(reason);
        self.reading_ended.set(true);
        self.filled.raise();
        self.freed.raise();
    }

    /// Drops the requests that only wait, and with the first of them all places behind it: their answers could not be sent.
    pub(crate) fn drop_waiting(&self) {
        let mut slots = self.slots.borrow_mut();
        let Some(first) = slots.iter().position(|slot| matches!(slot, Slot::Open(Some(_)))) else { return };
        for slot in slots.drain(first..) {
            if let Slot::Open(Some(task)) = slot {
                task.abort();
            }
        }
        self.filled.raise();
    }

    /// Why the connection ended, or ends.
    pub(crate) fn reason(&self) -> Option<CloseReason> {
        self.reason.borrow().clone()
    }

    /// Whether the end has been noted.
    pub(crate) fn has_ended(&self) -> bool {
        self.reading_ended.get()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn frame(text: &'static str) -> Reply {
        Reply::Frame(Frame::from(Bytes::from_static(text.as_bytes())))
    }

    fn popped(outbox: &Outbox) -> String {
        match outbox.pop() {
            Front::Frame(Frame { chunks: super::super::service::Chunks::One(bytes), .. }) => {
                String::from_utf8(bytes.to_vec()).unwrap()
            }
            Front::Frame(_) => "many".to_owned(),
            Front::Wait => "wait".to_owned(),
            Front::End => "end".to_owned(),
        }
    }

    #[test]
    fn answers_leave_in_the_order_of_requests_whatever_order_they_come_in() {
        let outbox = Outbox::default();
        let places: Vec<Place> = (0..4).map(|_| outbox.open()).collect();
        outbox.fill(places[2], frame("c"), false);
        outbox.fill(places[1], Reply::Silent, false);
        assert_eq!(popped(&outbox), "wait");
        outbox.fill(places[0], frame("a"), false);
        assert_eq!(popped(&outbox), "a");
        assert_eq!(popped(&outbox), "c", "a silent request holds nobody up");
        assert_eq!(popped(&outbox), "wait");
        outbox.fill(places[3], frame("d"), false);
        assert_eq!(popped(&outbox), "d");
        outbox.end(CloseReason::ClientClosed);
        assert_eq!(popped(&outbox), "end");
    }

    #[test]
    fn a_request_that_closes_lets_earlier_answers_out_and_nothing_behind_it() {
        let outbox = Outbox::default();
        let places: Vec<Place> = (0..3).map(|_| outbox.open()).collect();
        outbox.fill(places[1], Reply::Close(CloseReason::Idle), false);
        outbox.fill(places[2], frame("late"), false);
        outbox.fill(places[0], frame("a"), false);
        assert_eq!(popped(&outbox), "a");
        assert_eq!(popped(&outbox), "end");
        assert_eq!(outbox.reason(), Some(CloseReason::Idle));
        outbox.fill(places[2], frame("later still"), false);
        assert_eq!(popped(&outbox), "end");
    }
}
