//! What happened in a run, as one number: two runs are the same if and only if their traces are.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::hash::{BuildHasher, Hasher};

use taffrail_runtime::simulation;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Prints when and where a line was logged.
struct Moment;

impl tracing_subscriber::fmt::time::FormatTime for Moment {
    fn format_time(&self, to: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        match simulation::moment() {
            Some((now_ms, Some(here))) => write!(to, "{now_ms:>6} {here}"),
            Some((now_ms, None)) => write!(to, "{now_ms:>6}"),
            None => Ok(()),
        }
    }
}

/// Has everything that processes log printed.
pub(super) fn print_logs(level: Level) {
    let own = LevelFilter::from_level(level);
    let targets = Targets::new().with_default(LevelFilter::WARN).with_target("taffrail", own);
    let printed = tracing_subscriber::fmt::layer().with_timer(Moment).with_ansi(false).with_writer(std::io::stderr);
    // Somebody may print them already.
    let _ = tracing_subscriber::registry().with(printed.with_filter(targets)).try_init();
}

/// The trace of a run.
pub(super) struct Trace {
    hasher: RefCell<foldhash::quality::FoldHasher<'static>>,
    events: Cell<u64>,
    /// Whether each event is printed.
    told: bool,
    pub(super) now_ms: Cell<u64>,
}

impl Trace {
    pub(super) fn new(told: bool) -> Self {
        let hasher = RefCell::new(foldhash::quality::FixedState::default().build_hasher());
        Self { hasher, events: Cell::new(0), told, now_ms: Cell::new(0) }
    }

    /// Notes what `who` does or sees.
    #[allow(clippy::print_stderr, reason = "whoever asked for the events wants to see them")]
    pub(super) fn note(&self, who: impl Display, what: impl Display) {
        let text = format!("{:>6} {who}: {what}", self.now_ms.get());
        if self.told {
            eprintln!("{text}");
        }
        self.events.set(self.events.get() + 1);
        self.hasher.borrow_mut().write(text.as_bytes());
    }

    /// The trace so far as one number.
    pub(super) fn digest(&self) -> u64 {
        self.hasher.borrow().finish()
    }

    /// How many events were noted.
    pub(super) fn events(&self) -> u64 {
        self.events.get()
    }
}
