#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| e2e::fuzzing::authentication::run(data));
