//! The login that shedlock sends to a backend.

/// Identifies a user to the backend's server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// The user, if the URL names one.
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}
