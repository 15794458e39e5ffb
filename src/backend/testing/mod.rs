//! Tests that every backend gets: the contract as tests, answers that come altered, the fuzzer's targets, and the smallest
//! backend that passes. Nothing here is part of the program.

#[cfg(test)]
#[cfg(feature = "tls")]
mod altered;
#[cfg(test)]
pub(crate) mod conformance;
pub(crate) mod fuzz_operations;
pub(crate) mod fuzz_targets;
#[cfg(test)]
pub(crate) mod trial;
