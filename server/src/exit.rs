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
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        // 10 is kept for "unhealthy", which the commands that look at a cluster will need.
        match exit {
            Exit::Done => Self::from(0),
            Exit::Failed => Self::from(1),
            Exit::Usage => Self::from(2),
        }
    }
}
