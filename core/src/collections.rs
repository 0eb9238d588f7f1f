//! Hash maps with a fixed seed.
//!
//! The standard library's maps draw a random seed, which would make two runs of the simulator differ. Iterating a hash
//! map must still never decide anything: where order matters, use `BTreeMap`.

/// Builds the hasher of [`HashMap`] and [`HashSet`]; the seed is a constant of the build.
pub type Hasher = foldhash::fast::FixedState;

/// A hash map whose behaviour is the same in every run.
pub type HashMap<K, V> = hashbrown::HashMap<K, V, Hasher>;

/// A hash set whose behaviour is the same in every run.
pub type HashSet<K> = hashbrown::HashSet<K, Hasher>;
