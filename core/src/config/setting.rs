//! What one setting is: the row type of the table.

/// What a setting belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// A topic, under Kafka's topic names (`retention.ms`).
    Topic,
    /// A broker or the whole cluster, under Kafka's broker names (`log.retention.ms`).
    Broker,
    /// This process alone, under our names (`data_dir`): where it listens, where it writes.
    Process,
}

/// Type of a setting's value. The numbers are those of DescribeConfigs (`ConfigResource` types of KIP-569).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Kind {
    /// `true` or `false`, in any case.
    Boolean = 1,
    /// Text.
    Text = 2,
    /// 32-bit number.
    Int = 3,
    /// 16-bit number.
    Short = 4,
    /// 64-bit number.
    Long = 5,
    /// Decimal number.
    Double = 6,
    /// Comma-separated texts.
    List = 7,
    /// Name of a Java class; known, because clients ask for it, but never acted on.
    Class = 8,
    /// Text that is never shown.
    Password = 9,
}

impl Kind {
    /// The type's name as Kafka's error messages write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::Text => "STRING",
            Self::Int => "INT",
            Self::Short => "SHORT",
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::List => "LIST",
            Self::Class => "CLASS",
            Self::Password => "PASSWORD",
        }
    }
}

/// How a setting of a running broker can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Only by a restart.
    ReadOnly,
    /// For one broker at a time.
    PerBroker,
    /// For one broker or for all.
    ClusterWide,
}

/// Which values of its type a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Valid {
    /// All.
    Any,
    /// Numbers from the first to the second, both included.
    Range(i64, i64),
    /// As [`Valid::Range`], and the third number besides.
    RangeOr(i64, i64, i64),
    /// Decimals from the first to the second, both included.
    Decimal(f64, f64),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// One of these texts in any case.
    OneOfIgnoringCase(&'static [&'static str]),
    /// Any text but the empty one.
    NonEmpty,
    /// A list of different, non-empty items; of these only, unless none are given.
    Items {
        /// The items to choose from; empty = free.
        of: &'static [&'static str],
        /// Whether no item at all is a value.
        or_none: bool,
    },
    /// `*`, nothing, or `partition:broker` pairs.
    Replicas,
    /// Nothing, or `id@host:port` entries.
    Voters,
    /// Nothing, or `host:count` entries.
    HostLimits,
}

/// One setting. Rows are written in `table`, and read by everything that names a setting: controller,
/// DescribeConfigs, the schema of the resources, `taffrail validate`, the documentation page.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Kafka's name, or ours in [`Scope::Process`].
    pub name: &'static str,
    /// What it belongs to.
    pub scope: Scope,
    /// Type of its value.
    pub kind: Kind,
    /// Value when nobody gives one; `None` = no value.
    pub default: Option<&'static str>,
    /// Values it takes.
    pub valid: Valid,
    /// How it can be changed while the broker runs.
    pub update: Update,
    /// Whether we act on it. The others are known: accepted, checked, stored and described, without effect.
    pub acted_on: bool,
    /// Whether Kafka lists it in DescribeConfigs; a few are internal to it.
    pub listed: bool,
    /// What it does, in one or two sentences.
    pub doc: &'static str,
}

/// Largest number of a 32-bit setting.
const INT_MAX: i64 = i32::MAX as i64;

impl Setting {
    const fn new(name: &'static str, kind: Kind, default: Option<&'static str>) -> Self {
        Self {
            name,
            scope: Scope::Broker,
            kind,
            default,
            valid: Valid::Any,
            update: Update::ReadOnly,
            acted_on: true,
            listed: true,
            doc: "",
        }
    }

    /// Whether the value is never shown.
    pub const fn sensitive(&self) -> bool {
        matches!(self.kind, Kind::Password)
    }

    /// Whether DescribeConfigs calls the setting read-only.
    pub const fn read_only(&self) -> bool {
        matches!(self.update, Update::ReadOnly)
    }

    /// The valid values in words, as the documentation prints them.
    pub fn valid_text(&self) -> String {
        match self.valid {
            Valid::Any | Valid::Items { of: [], or_none: true } => String::new(),
            Valid::Range(low, high) if high >= INT_MAX => format!("{low} or more"),
            Valid::Range(low, high) => format!("{low} to {high}"),
            Valid::RangeOr(low, high, other) => format!("{low} to {high}, or {other}"),
            Valid::Decimal(low, high) if high == f64::MAX => format!("{low} or more"),
            Valid::Decimal(low, high) => format!("{low} to {high}"),
            Valid::OneOf(texts) | Valid::OneOfIgnoringCase(texts) => texts.join(", "),
            Valid::NonEmpty => "not empty".to_owned(),
            Valid::Items { of: [], or_none: false } => "at least one item".to_owned(),
            Valid::Items { of, .. } => format!("list of {}", of.join(", ")),
            Valid::Replicas => "*, or partition:broker pairs".to_owned(),
            Valid::Voters => "id@host:port entries".to_owned(),
            Valid::HostLimits => "host:count entries".to_owned(),
        }
    }
}

/// Constructors of table rows: one for each kind, then what differs from the usual.
macro_rules! rows {
    ($($name:ident $kind:ident,)*) => { impl Setting { $(
        pub(super) const fn $name(name: &'static str, default: &'static str) -> Self {
            Self::new(name, Kind::$kind, Some(default))
        }
    )* } };
}

rows! { boolean Boolean, text Text, int Int, short Short, long Long, double Double, list List, class Class, }

impl Setting {
    /// A setting without a default value.
    pub(super) const fn unset(name: &'static str, kind: Kind) -> Self {
        Self::new(name, kind, None)
    }

    /// Belongs to topics, which can always be changed.
    pub(super) const fn topic(mut self) -> Self {
        self.scope = Scope::Topic;
        self.update = Update::ClusterWide;
        self
    }

    /// Belongs to the process.
    pub(super) const fn process(mut self) -> Self {
        self.scope = Scope::Process;
        self.listed = false;
        self
    }

    /// Can be changed while brokers run, for one or for all.
    pub(super) const fn cluster_wide(mut self) -> Self {
        self.update = Update::ClusterWide;
        self
    }

    /// Can be changed while a broker runs, for that broker.
    pub(super) const fn per_broker(mut self) -> Self {
        self.update = Update::PerBroker;
        self
    }

    pub(super) const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// Known, without effect, and why.
    pub(super) const fn inert(mut self, why: &'static str) -> Self {
        self.acted_on = false;
        self.doc = why;
        self
    }

    /// Not shown by DescribeConfigs.
    pub(super) const fn unlisted(mut self) -> Self {
        self.listed = false;
        self
    }

    pub(super) const fn valid(mut self, valid: Valid) -> Self {
        self.valid = valid;
        self
    }

    /// Takes numbers of `low` or more, up to what the type holds.
    pub(super) const fn at_least(self, low: i64) -> Self {
        let high = match self.kind {
            Kind::Int => INT_MAX,
            Kind::Short => i16::MAX as i64,
            _ => i64::MAX,
        };
        self.valid(Valid::Range(low, high))
    }

    /// Takes numbers from `low` to `high`.
    pub(super) const fn between(self, low: i64, high: i64) -> Self {
        self.valid(Valid::Range(low, high))
    }

    /// Takes these texts.
    pub(super) const fn one_of(self, texts: &'static [&'static str]) -> Self {
        self.valid(Valid::OneOf(texts))
    }

    /// Takes lists of these items, or of any if none are given.
    pub(super) const fn items(self, of: &'static [&'static str], or_none: bool) -> Self {
        self.valid(Valid::Items { of, or_none })
    }
}
