//! Sizes in bytes as people write and read them: `8M`, `512KiB`, `1GB`, `4096`.
//!
//! `M` and `MiB` are 1024 * 1024 bytes, and `MB` is 1,000,000 bytes, as in GNU tools. Output has
//! binary units only.

/// Units of the output, and the letter that stands for each in input.
const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Decimal units, only for input.
const DECIMAL: [(&str, u64); 4] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000)];

/// Reads `8M`, `8MiB` or `8MB`, in upper or lower case and with or without a space, or a plain
/// number of bytes. Every flag for a size uses it.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let digits_end = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(digits_end);
    let unit = unit.trim_start();
    if digits.is_empty() {
        return Err("expected a size such as 4096, 512K, 8MiB or 1GB".to_owned());
    }
    let number: u64 = digits.parse().ok().ok_or("the size does not fit into 64 bits")?;
    let factor = factor(unit).ok_or_else(|| {
        format!(
            "the unit {unit:?} is unknown: use K, M, G, T or KiB, MiB, GiB, TiB (powers of 1024), \
             or KB, MB, GB, TB (powers of 1000)"
        )
    })?;
    number.checked_mul(factor).ok_or_else(|| "the size does not fit into 64 bits".to_owned())
}

/// The bytes of one unit; `None` if there is no such unit.
fn factor(unit: &str) -> Option<u64> {
    let is_named = |name: &str| {
        let letter = name.strip_suffix("iB");
        name.eq_ignore_ascii_case(unit) || letter.is_some_and(|l| l.eq_ignore_ascii_case(unit))
    };
    if unit.is_empty() {
        return Some(1);
    }
    let mut units = UNITS.into_iter().chain(DECIMAL);
    units.find(|(name, _)| is_named(name)).map(|(_, factor)| factor)
}

/// Reads a size and checks that it lies within `min..=max`.
pub(crate) fn parse_within(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let bytes = parse(text)?;
    if bytes < min || bytes > max {
        return Err(format!("expected {} to {}", human(min), human(max)));
    }
    Ok(bytes)
}

/// Three significant digits and a binary unit: `1.50 GiB`, `824 MiB`, `17 B`.
pub(crate) fn human(bytes: u64) -> String {
    let (name, factor) = unit(bytes);
    format!("{} {name}", in_unit(bytes, factor))
}

/// The largest unit that `bytes` has at least one of, and its bytes.
fn unit(bytes: u64) -> (&'static str, u64) {
    UNITS.into_iter().find(|(_, factor)| bytes >= *factor).unwrap_or(("B", 1))
}

/// Three significant digits.
fn in_unit(bytes: u64, factor: u64) -> String {
    if factor == 1 {
        return bytes.to_string();
    }
    #[expect(clippy::cast_precision_loss, reason = "only three digits are shown")]
    let value = bytes as f64 / factor as f64;
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A part of a size, in the unit of the whole: `99.2 of 256 MiB`.
pub(crate) fn human_part(part: u64, whole: u64) -> String {
    let (_, factor) = unit(whole);
    format!("{} of {}", in_unit(part, factor), human(whole))
}

/// A rate in bytes a second; empty for a rate that is not known yet.
pub(crate) fn human_rate(bytes_per_second: f64) -> String {
    if !bytes_per_second.is_finite() || bytes_per_second < 0.0 {
        return "- B/s".to_owned();
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not negative, and the cast saturates"
    )]
    let whole = bytes_per_second as u64;
    format!("{}/s", human(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("17B", 17),
            ("512KiB", 512 << 10),
            ("8mib", 8 << 20),
            (" 1 GiB ", 1 << 30),
            ("2TiB", 2 << 40),
            ("8K", 8 << 10),
            ("8m", 8 << 20),
            ("3G", 3 << 30),
            ("1 T", 1 << 40),
            ("8KB", 8000),
            ("8mb", 8_000_000),
            ("3GB", 3_000_000_000),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "MiB",
            "-1",
            "1.5GiB",
            "8Mi",
            "8MiBs",
            "1e3",
            "99999999999999999999",
            "17000000TiB",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("8X").unwrap_err().contains("MiB"));
        assert!(parse_within("3", 4, 5).unwrap_err().contains("4 B to 5 B"));
    }

    #[test]
    fn people_read_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.50 KiB"),
            (10 << 20, "10.0 MiB"),
            (824 << 20, "824 MiB"),
            (1023 << 20, "1023 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
        assert_eq!(human_part(104_019_763, 256 << 20), "99.2 of 256 MiB");
        assert_eq!(human_part(0, 17), "0 of 17 B");
        assert_eq!(human_rate(f64::NAN), "- B/s");
        assert_eq!(human_rate(1024.0), "1.00 KiB/s");
    }
}
