//! The program: all of it is in the library.

#![no_main]

use std::ffi::{c_char, c_int};

/// Starts the program for the C library. Rust's own start would ignore SIGPIPE, which the job must not notice, and spends, on
/// guarding a stack that this program hardly uses, a tenth of the time that a skip takes.
#[expect(unsafe_code, reason = "a symbol that the C library looks for")]
// SAFETY: the program has no other function of this name, and the C library calls it once, as it is declared.
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    shedlock::main(count, words)
}
