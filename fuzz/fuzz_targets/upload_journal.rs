//! The journal of an upload, damaged or of another program: no text causes a panic, and the parts of a
//! journal that is used cover the blob.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| tidegate::fuzzed::upload_journal(text));
