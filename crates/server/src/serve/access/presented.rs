//! The token that a request presents: `Bearer`, or the password of `Basic`, for tools that know
//! nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;

/// What the header of a request says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Presented {
    /// There is no header.
    Nothing,
    /// A token.
    Token(Vec<u8>),
    /// A header that cannot be read, or more than one.
    Unreadable,
}

impl Presented {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            let is_absent = !headers.contains_key(AUTHORIZATION);
            return if is_absent { Self::Nothing } else { Self::Unreadable };
        };
        token(value.as_bytes()).map_or(Self::Unreadable, Self::Token)
    }
}

fn token(value: &[u8]) -> Option<Vec<u8>> {
    let space = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = (&value[..space], value[space..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(rest.to_vec());
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    // The user's name is free: RFC 7617 puts the first colon between it and the password.
    let pair = STANDARD.decode(rest).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_bearer_and_basic() {
        let token = |text: &str| Presented::Token(text.into());
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        for (value, expected) in [
            ("Bearer abc", token("abc")),
            ("bearer  abc ", token("abc")),
            (&basic("user:abc"), token("abc")),
            (&basic(":abc:d"), token("abc:d")),
            (&basic("abc"), Presented::Unreadable),
            ("Basic !", Presented::Unreadable),
            ("Bearer", Presented::Unreadable),
            ("Digest abc", Presented::Unreadable),
            ("", Presented::Unreadable),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            assert_eq!(Presented::of(&headers), expected, "{value}");
        }
        let mut headers = HeaderMap::new();
        assert_eq!(Presented::of(&headers), Presented::Nothing);
        headers.append(AUTHORIZATION, "Bearer a".parse().unwrap());
        headers.append(AUTHORIZATION, "Bearer b".parse().unwrap());
        assert_eq!(Presented::of(&headers), Presented::Unreadable);
    }
}
