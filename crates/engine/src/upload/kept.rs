//! The description of a copy: that of its source, unless the caller gives another one. Pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::remote::{BlobInfo, MetadataNames, WriteOptions, WriteProfile};

/// The names under which a source's modification time is kept: rclone's and gsutil's.
const MODIFIED: [&str; 2] = ["mtime", "goog-reserved-file-mtime"];

/// The options of a copy, and what it loses.
pub(crate) struct KeptDescription {
    pub(crate) options: WriteOptions,
    /// Sentences about metadata that the target cannot keep.
    pub(crate) notes: Vec<String>,
}

/// The description of a copy of a blob with these facts. A value that the caller gives takes the
/// place of the source's; metadata that the caller gives replace all of the source's.
pub(crate) fn description(
    info: &BlobInfo,
    options: &WriteOptions,
    profile: &WriteProfile,
) -> KeptDescription {
    let (mut options, mut notes) = (options.clone(), Vec::new());
    let or = |given: Option<String>, found: &Option<String>| given.or_else(|| found.clone());
    options.content_type = or(options.content_type, &info.content_type);
    options.content_encoding = or(options.content_encoding, &info.content_encoding);
    let Some(found) = info.description.as_deref() else {
        return KeptDescription { options, notes };
    };
    options.cache_control = or(options.cache_control, &found.cache_control);
    if profile.metadata == MetadataNames::None {
        return KeptDescription { options, notes };
    }
    for (name, value) in [
        ("content-disposition", &found.content_disposition),
        ("content-language", &found.content_language),
    ] {
        let is_given = options.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        if let (false, Some(value)) = (is_given, value) {
            options.headers.push((name.to_owned(), value.clone()));
        }
    }
    if !options.metadata.is_empty() {
        return KeptDescription { options, notes };
    }
    for (name, value) in &found.metadata {
        let time = MODIFIED.contains(&name.as_str()).then(|| time(value)).flatten();
        if time.is_some() {
            options.modified = options.modified.or(time);
        } else if !profile.metadata.accept(name) {
            notes.push(format!("the target cannot keep the metadata {name:?} of the source"));
        } else {
            options.metadata.push((name.clone(), value.clone()));
        }
    }
    KeptDescription { options, notes }
}

/// A time as rclone and gsutil write it: seconds since 1970 with a fraction, or RFC 3339.
fn time(text: &str) -> Option<SystemTime> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number(seconds) && is_number(fraction) && fraction.len() <= 9 {
        let nanos = format!("{fraction:0<9}").parse().ok()?;
        return UNIX_EPOCH.checked_add(Duration::new(seconds.parse().ok()?, nanos));
    }
    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    return chrono::DateTime::parse_from_rfc3339(text).ok().map(SystemTime::from);
    #[cfg(not(any(feature = "gcs", feature = "s3", feature = "azure")))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::BlobDescription;

    fn source(metadata: &[(&str, &str)]) -> BlobInfo {
        let metadata = metadata.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let description = BlobDescription {
            cache_control: Some("no-cache".to_owned()),
            content_language: Some("de".to_owned()),
            metadata: metadata.collect(),
            ..BlobDescription::default()
        };
        BlobInfo {
            content_type: Some("text/csv".to_owned()),
            description: Some(Box::new(description)),
            ..BlobInfo::default()
        }
    }

    fn profile() -> WriteProfile {
        WriteProfile { metadata: MetadataNames::Any, ..WriteProfile::put_only() }
    }

    #[test]
    fn a_copy_is_described_as_its_source() {
        let source = source(&[("owner", "me"), ("mtime", "1700000000.25")]);
        let kept = description(&source, &WriteOptions::default(), &profile());
        let options = kept.options;
        assert_eq!(options.content_type.as_deref(), Some("text/csv"));
        assert_eq!(options.cache_control.as_deref(), Some("no-cache"));
        assert_eq!(options.metadata, [("owner".to_owned(), "me".to_owned())]);
        assert_eq!(options.headers, [("content-language".to_owned(), "de".to_owned())]);
        let modified = UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        assert_eq!(options.modified, Some(modified));
        assert!(kept.notes.is_empty());
    }

    #[test]
    fn what_the_caller_gives_counts() {
        let given = WriteOptions {
            content_type: Some("text/plain".to_owned()),
            metadata: vec![("a".to_owned(), "b".to_owned())],
            headers: vec![("Content-Language".to_owned(), "fr".to_owned())],
            ..WriteOptions::default()
        };
        let options = description(&source(&[("owner", "me")]), &given, &profile()).options;
        assert_eq!(options.content_type.as_deref(), Some("text/plain"));
        assert_eq!(options.metadata, given.metadata);
        assert_eq!(options.headers, given.headers);
    }

    #[test]
    fn what_the_target_cannot_keep_is_said() {
        let source = source(&[("build-id", "7"), ("owner", "me")]);
        let azure = WriteProfile { metadata: MetadataNames::Identifiers, ..profile() };
        let kept = description(&source, &WriteOptions::default(), &azure);
        assert_eq!(kept.options.metadata, [("owner".to_owned(), "me".to_owned())]);
        assert_eq!(kept.notes.len(), 1);
        let none = description(&source, &WriteOptions::default(), &WriteProfile::put_only());
        assert!(none.options.metadata.is_empty() && none.options.headers.is_empty());
    }

    #[test]
    fn times_of_other_tools_are_understood() {
        let at = |millis| Some(UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!(time("1700000000"), at(1_700_000_000_000));
        assert_eq!(time("1700000000.5"), at(1_700_000_000_500));
        #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
        assert_eq!(time("2023-11-14T22:13:20.500000000Z"), at(1_700_000_000_500));
        for text in ["", ".", "x", "-1", "1.0000000001", "99999999999999999999", "yesterday"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
