//! What object stores answer to the requests of an upload: lists of parts, of uploads, of objects and of
//! blocks, the response to a completion, the state and the address of a session. No text causes a
//! panic, and no address leads to another host.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::fuzzed;

fuzz_target!(|text: &[u8]| {
    fuzzed::xml_documents(text);
    fuzzed::block_list(text);
    if let Ok(text) = std::str::from_utf8(text) {
        fuzzed::kept_by_session(text);
        fuzzed::session_address(text);
    }
});
