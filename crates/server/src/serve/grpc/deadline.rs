//! `grpc-timeout`: when the client stops waiting (gRPC over HTTP/2, "Requests").

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;
use tonic::Status;

/// The deadline of a call; `None` if it has none.
pub(super) fn of(headers: &HeaderMap) -> Result<Option<Instant>, Status> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let timeout = value.to_str().ok().and_then(parse);
    let refused = || Status::invalid_argument("expected 1 to 8 digits and a unit in grpc-timeout");
    // An instant that cannot be expressed is never reached.
    Ok(Instant::now().checked_add(timeout.ok_or_else(refused)?))
}

/// The status of a call whose time is over.
pub(super) fn exceeded() -> Status {
    Status::deadline_exceeded("the call took longer than its timeout")
}

fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_digits_and_a_unit() {
        assert_eq!(parse("1S"), Some(Duration::from_secs(1)));
        assert_eq!(parse("99999999H"), Some(Duration::from_hours(99_999_999)));
        assert_eq!(parse("20m"), Some(Duration::from_millis(20)));
        assert_eq!(parse("7u"), Some(Duration::from_micros(7)));
        assert_eq!(parse("0n"), Some(Duration::ZERO));
        for text in ["", "S", "1", "1s", "-1S", "+1S", "123456789S", "1é", "1 S"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
