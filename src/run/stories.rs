//! Stories of runs.
