//! URLs of caches and of blobs in them: an accepted URL is displayed as text that parses to the
//! same URL. A refused URL gives an error with a message.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::remote::reapi::CacheUrl;

fuzz_target!(|input: (u8, &str)| {
    let (kind, text) = input;
    let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    // Digests are long: random text alone would never contain one.
    let url = match kind % 5 {
        0 => text.to_owned(),
        1 => format!("grpc://{text}"),
        2 => format!("grpcs://host:1/{text}"),
        3 => format!("grpc://host/{text}/sha256/{hash}/0"),
        _ => format!("grpc://host/{text}/blobs/blake3/{hash}/17"),
    };
    match CacheUrl::parse(&url) {
        Ok(cache) => {
            let shown = cache.to_string();
            assert_eq!(CacheUrl::parse(&shown).ok().as_ref(), Some(&cache), "{shown}");
            let other = cache.with_digest(None);
            assert_eq!(CacheUrl::parse(&other.to_string()).ok(), Some(other));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
