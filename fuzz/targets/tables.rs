#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| stopworld_fuzz::tables(input));
