//! The alternatives.

/// Who runs connections, and who appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Variant {
    /// Current-thread runtimes that own connections; any of them appends to any log, behind the log's lock.
    Shards,
    /// One multi-thread runtime that moves tasks between its threads; the same lock.
    Stealing,
    /// Current-thread runtimes that own connections and logs; a request for another's log goes there and back.
    Owners,
}

impl Variant {
    pub(super) const ALL: [Self; 3] = [Self::Shards, Self::Stealing, Self::Owners];

    /// Its name in arguments and tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Shards => "shards",
            Self::Stealing => "stealing",
            Self::Owners => "owners",
        }
    }

    /// The variant of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }
}
