//! Sizes as people write them: `2GiB`, `256MiB`, `65536`.

/// Parses a size in bytes. Only powers of 1024, as the unit names say.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        unit => return Err(format!("unit {unit:?}, expected KiB, MiB or GiB")),
    };
    let number: u64 =
        digits.trim().parse().map_err(|error| format!("{digits:?} is no size: {error}"))?;
    match number.checked_mul(1 << shift) {
        Some(0) => Err("nothing to fetch in 0 bytes".into()),
        Some(bytes) => Ok(bytes),
        None => Err(format!("{text} is more than 64 bits can count")),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        assert_eq!(parse("256 MiB"), Ok(256 << 20));
        assert_eq!(parse("1KiB"), Ok(1024));
        assert_eq!(parse("65536"), Ok(65536));
        assert_eq!(parse("7B"), Ok(7));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GiB", "2GB", "-1", "1.5GiB", "0", "99999999999GiB", "2 TiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
