//! The levels of what `run` reports on stderr.

/// How much is reported; each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    Errors,
    Warnings,
    Info,
    Debug,
}

impl Verbosity {
    /// Returns the name of the level in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Errors => "error",
            Self::Warnings => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}
