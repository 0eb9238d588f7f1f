//! The stable driver: the kept corpus first, then mutations of sound inputs, in the same order for the same seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::Target;
use crate::mutate::mutate;
use crate::random::Random;

/// A single input that takes longer than this is a finding, too.
const RUN_MAX: Duration = Duration::from_secs(1);

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Inputs replayed from the corpus.
    pub replayed: usize,
    /// Inputs made by mutation.
    pub mutated: u64,
}

/// A finding, or why there could be none.
#[derive(Debug)]
pub enum Failure {
    /// The corpus cannot be read, or a finding not be written.
    Io(io::Error),
    /// An input made the target panic, allocate or take too long.
    Found {
        /// Where the input was written.
        input: PathBuf,
        /// What happened.
        reason: String,
    },
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The folder of this package, with `corpus` and `failures` inside.
pub fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Replays the corpus of a target, then mutates for `length`. `seed` decides everything but how far it gets.
pub fn run(target: &Target, length: Duration, seed: u64) -> Result<Report, Failure> {
    let corpus = corpus(&home().join("corpus").join(target.name))?;
    for input in &corpus {
        run_one(target, input)?;
    }
    let mut random = Random::new(seed);
    let started = Instant::now();
    let mut mutated = 0;
    while started.elapsed() < length {
        let mut input = base(target, &corpus, &mut random);
        let other = base(target, &corpus, &mut random);
        mutate(&mut input, &other, &mut random);
        if random.below(2) == 0 {
            (target.mend)(&mut input);
        }
        run_one(target, &input)?;
        mutated += 1;
    }
    Ok(Report { replayed: corpus.len(), mutated })
}

/// A sound input: a new one, or one that was kept.
fn base(target: &Target, corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    if corpus.is_empty() || random.below(2) == 0 { (target.sound)(random) } else { random.one_of(corpus).clone() }
}

/// All files of a folder by name; none if there is no folder.
fn corpus(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.into_iter().map(fs::read).collect()
}

/// Runs one input and keeps it if it is a finding.
fn run_one(target: &Target, input: &[u8]) -> Result<(), Failure> {
    let started = Instant::now();
    let reason = match catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        Ok(()) if started.elapsed() <= RUN_MAX => return Ok(()),
        Ok(()) => format!("took {} ms", started.elapsed().as_millis()),
        Err(panic) => match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.clone(),
            (None, Some(text)) => (*text).to_owned(),
            (None, None) => "panic without a text".to_owned(),
        },
    };
    let folder = home().join("failures").join(target.name);
    fs::create_dir_all(&folder)?;
    let input_path = folder.join(format!("{:016x}", fingerprint(input)));
    fs::write(&input_path, input)?;
    Err(Failure::Found { input: input_path, reason })
}

/// A name for an input (FNV-1a).
fn fingerprint(input: &[u8]) -> u64 {
    input.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
