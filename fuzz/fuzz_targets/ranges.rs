//! Ranges as users type them and as servers send them: no text causes a panic, and an accepted
//! range parses to the same range after it is displayed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_core::range::{ByteRange, ContentRange};

fuzz_target!(|input: (&str, u64, u64)| {
    let (text, len, n) = input;
    if let Ok(range) = ContentRange::parse(text) {
        assert_eq!(ContentRange::parse(&range.to_string()).as_ref(), Ok(&range));
    }
    let Ok(range) = text.parse::<ByteRange>() else { return };
    assert_eq!(range.to_string().parse::<ByteRange>().as_ref(), Ok(&range));
    let _ = (range.header(), range.shift(n), range.limit(n));
    if let Ok(resolved) = range.resolve(len) {
        assert!(resolved.start <= resolved.end && resolved.end <= len);
        let count = resolved.end - resolved.start;
        // `after(n)` then `resolve` has the same length as `resolve` less `n` bytes.
        if n <= count
            && !matches!(range, ByteRange::Last(last) if last > len)
            && let Ok(rest) = range.after(n)
            && let Ok(rest) = rest.resolve(len)
        {
            assert_eq!(rest.end - rest.start, count - n);
        }
    }
});
