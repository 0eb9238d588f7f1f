//! What is wrong with a file, in words for the person who wrote it.

use std::fmt;

/// A place in a file, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// File, as it was named.
    pub file: String,
    /// Where in it.
    pub place: Place,
    /// Field, such as `spec.config.retention.ms`; empty when the mistake is not in a field.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.place.line > 0 {
            write!(f, ":{}:{}", self.place.line, self.place.column)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// All mistakes that were found, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

/// Mistakes that are printed; a file of the wrong kind would fill the screen.
const PRINTED_MAX: usize = 20;

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().take(PRINTED_MAX).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        if self.0.len() > PRINTED_MAX {
            write!(f, "\n... and {} more", self.0.len() - PRINTED_MAX)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
