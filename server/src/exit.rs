//! What the process ends with. Scripts rely on the numbers.

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done,
    /// It could not.
    Failed,
    /// The command line or a setting makes no sense.
    Usage,
    /// The cluster is not well, or what was asked about may not be.
    Unhealthy,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::from(0),
            Exit::Failed => Self::from(1),
            Exit::Usage => Self::from(2),
            Exit::Unhealthy => Self::from(10),
        }
    }
}

/// An error with its causes, each once: some texts end with their cause, for readers who get nothing but the text.
pub(crate) fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        text if text.ends_with(&cause) => told,
        text => format!("{text}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn causes_are_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("/d/f: {source}")]
        struct Repeats {
            source: std::io::Error,
        }
        let error = Repeats { source: std::io::Error::other("no such thing") };
        let error = Err::<(), _>(error).context("cannot start").unwrap_err();
        assert_eq!(told(&error), "cannot start: /d/f: no such thing");
    }
}
