//! Resource names as clients send them: no text causes a panic, and an accepted name parses to the
//! same name after it is displayed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_reapi::resource::{ReadName, WriteName, check_instance};

const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const UUID: &str = "01234567-89ab-4def-8123-456789abcdef";

fuzz_target!(|text: &str| {
    // Hashes and UUIDs are long: random text alone would never contain one.
    let name = text.replace('#', HASH).replace('$', UUID);
    if let Ok(read) = ReadName::parse(&name) {
        assert_eq!(ReadName::parse(&read.to_string()), Ok(read));
        assert_eq!(check_instance(read.instance), Ok(()));
        assert!(WriteName::parse(&name).is_err());
    }
    if let Ok(write) = WriteName::parse(&name) {
        assert_eq!(WriteName::parse(&write.to_string()), Ok(write));
        assert_eq!(check_instance(write.instance), Ok(()));
    }
});
