#![no_main]

libfuzzer_sys::fuzz_target!(
    init: {
        // The pointers in a valid image depend on the struct layouts, so fuzz/run has this program write the seed.
        if let Some(path) = std::env::var_os("STOPWORLD_FUZZ_SEED") {
            std::fs::write(path, stopworld_ptrace::fuzzing::hostile_seed()).expect("the seed can be written");
        }
    },
    |input: &[u8]| stopworld_fuzz::hostile_target(input)
);
