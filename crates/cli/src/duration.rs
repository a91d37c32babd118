//! Durations as people write them: `30s`, `5m`, `500ms`, `2h`, or a plain number of seconds.

use std::time::Duration;

/// The longest duration that a flag accepts: a year, so that no arithmetic on it overflows.
const MS_MAX: u128 = 366 * 24 * 3600 * 1000;

/// Reads a duration in milliseconds, at least one. A number without a unit is in seconds, and may
/// have decimals. Every flag for a duration uses it.
pub(crate) fn parse_ms(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let duration = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        // Units are lower case: to the library, a capital M would be a month.
        Err(_) => humantime::parse_duration(&text.to_ascii_lowercase()).ok(),
    };
    let Some(duration) = duration else {
        return Err("expected a duration such as 30, 0.5, 500ms, 30s, 5m or 2h".to_owned());
    };
    // Half a millisecond rounds up.
    let ms = (duration.as_micros() + 500) / 1000;
    u64::try_from(ms)
        .ok()
        .filter(|_| (1..=MS_MAX).contains(&ms))
        .ok_or_else(|| "expected 1ms to 366 days".to_owned())
}

/// The same, or 0.
pub(crate) fn parse_ms_or_none(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { parse_ms(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_plain_numbers_are_seconds() {
        for (text, ms) in [
            ("30", 30_000),
            ("0.5", 500),
            ("0.001", 1),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("5M", 300_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            (" 1 d ", 86_400_000),
        ] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["0", "0s", "-1", "nan", "inf", "1e300", "", "soon", "5x", "367d", "s"] {
            assert!(parse_ms(text).is_err(), "{text}");
        }
        assert_eq!(parse_ms_or_none("0"), Ok(0));
        assert!(parse_ms_or_none("-0.5").is_err());
    }
}
