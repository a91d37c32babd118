//! The standard output of a credential process: one JSON object with keys and their expiry.
//!
//! Messages name a field and never its value: most values are secret. So the parser's own message
//! is not used.
//!
//! Source: the AWS SDKs and Tools Reference Guide, "Process credential provider".

use std::sync::Arc;

use object_store::aws::AwsCredential;
use serde_json::{Map, Value};

use crate::remote::credential_cache::{Expiring, moment};

/// The credentials in `output`.
pub(super) fn parse(output: &[u8]) -> Result<Expiring<AwsCredential>, String> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(output) else {
        return Err("its output is not a JSON object".to_owned());
    };
    match fields.get("Version").map(Value::as_u64) {
        Some(Some(1)) => {}
        Some(Some(other)) => return Err(format!("its output has Version {other}, expected 1")),
        _ => return Err("its output has no Version, expected 1".to_owned()),
    }
    let missing = |name| format!("its output has no {name}");
    let key_id = text(&fields, "AccessKeyId")?.ok_or_else(|| missing("AccessKeyId"))?;
    let secret_key = text(&fields, "SecretAccessKey")?.ok_or_else(|| missing("SecretAccessKey"))?;
    let token = text(&fields, "SessionToken")?;
    let expires = text(&fields, "Expiration")?.map(|date| {
        moment(&date).ok_or("its output has an Expiration that is not a date of RFC 3339")
    });
    let credential = AwsCredential { key_id, secret_key, token };
    Ok(Expiring { credential: Arc::new(credential), expires: expires.transpose()? })
}

/// A field's text; `None` if the field is missing, null or empty.
fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    let text = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        Some(_) => return Err(format!("its output has a {name} that is not a string")),
    };
    // The values become part of headers.
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("its output has a {name} with spaces or other invalid characters"));
    }
    Ok((!text.is_empty()).then(|| text.clone()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn keys_and_expiry_are_read() {
        let parsed = parse(
            br#"{"Version": 1, "AccessKeyId": "AK", "SecretAccessKey": "s/e+c=r",
                "SessionToken": "t", "Expiration": "2001-09-09T03:46:40+02:00", "More": []}"#,
        );
        let Expiring { credential, expires } = parsed.ok().unwrap();
        let token = Some("t".to_owned());
        let (key_id, secret_key) = ("AK".to_owned(), "s/e+c=r".to_owned());
        assert!(*credential == AwsCredential { key_id, secret_key, token });
        let billion = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        assert_eq!(expires, Some(billion));
    }

    #[test]
    fn token_and_expiry_may_be_missing() {
        let text = br#"{"Version":1,"AccessKeyId":"AK","SecretAccessKey":"s","SessionToken":null}"#;
        let Expiring { credential, expires } = parse(text).ok().unwrap();
        assert!(credential.token.is_none() && expires.is_none());
    }

    #[test]
    fn messages_name_the_field_and_no_value() {
        let of = |fields: &str| format!(r#"{{"Version":1,"SecretAccessKey":"hidden"{fields}}}"#);
        let keys = r#","AccessKeyId":"hidden""#;
        let cases = [
            ("hidden".to_owned(), "not a JSON object"),
            (r#"["hidden"]"#.to_owned(), "not a JSON object"),
            (of("").replace("\"Version\":1,", ""), "no Version"),
            (of("").replace(":1", ":2"), "Version 2, expected 1"),
            (of(""), "no AccessKeyId"),
            (of(r#","AccessKeyId":"""#), "no AccessKeyId"),
            (of(r#","AccessKeyId":["hidden"]"#), "AccessKeyId that is not a string"),
            (of(r#","AccessKeyId":"hidden\r\nHost: x""#), "invalid characters"),
            (of(&format!(r#"{keys},"Expiration":"hidden""#)), "not a date of RFC 3339"),
        ];
        for (output, part) in cases {
            let message = parse(output.as_bytes()).err().unwrap();
            assert!(message.contains(part), "{output}: {message}");
            assert!(!message.contains("hidden"), "{message}");
        }
    }
}
