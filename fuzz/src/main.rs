//! The fuzzer of the library's parsers: libFuzzer with the target that the variable `FUZZ_TARGET` names.

#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET is set");
    shedlock::fuzz_target(&name).expect("FUZZ_TARGET is a target of src/fuzzing.rs")
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET(input));
