//! The defaults that the code computes with. `cli` has their text in the help.

use std::time::Duration;

/// The default of `--backend-timeout`.
pub(super) const BACKEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The default of `--kill-after`.
pub(super) const KILL_AFTER: Duration = Duration::from_secs(10);

/// The default of `--notify-timeout`.
pub(super) const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// The default of `--history-keep`.
pub(super) const HISTORY_KEEP: u32 = 1000;
