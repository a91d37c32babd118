//! The head of a response, from the bytes on the wire: the version that it names and its checksums.

use crate::Flavour;
use crate::hostile::sum::{Sum, value};

/// A version, by the header that names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// A strong `ETag`, quotes included.
    Tag(String),
    /// `x-goog-generation`.
    Generation(String),
    /// `x-amz-version-id` or `x-ms-version-id`.
    VersionId(String),
    /// `Last-Modified`.
    Date(String),
}

impl Name {
    /// As the header writes it.
    pub fn text(&self) -> &str {
        match self {
            Self::Tag(text) | Self::Generation(text) | Self::VersionId(text) | Self::Date(text) => {
                text
            }
        }
    }
}

/// A final response's head.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    /// HTTP/1.0.
    pub(super) is_old: bool,
    fields: Vec<(String, String)>,
}

/// Fields that one head may have, with room for deviations.
const FIELDS_MAX: usize = 64;

impl Head {
    /// The last head of `wire`: earlier heads are interim responses. `None` if no head is whole.
    pub(super) fn parse(mut wire: &[u8]) -> Option<Self> {
        loop {
            let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
            let mut raw = httparse::Response::new(&mut fields);
            let httparse::Status::Complete(used) = raw.parse(wire).ok()? else { return None };
            let status = raw.code?;
            if (100..200).contains(&status) {
                wire = &wire[used..];
                continue;
            }
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let field = |f: &httparse::Header<'_>| (f.name.to_ascii_lowercase(), text(f.value));
            let fields = raw.headers.iter().map(field).collect();
            return Some(Self { status, is_old: raw.version == Some(0), fields });
        }
    }

    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.fields.iter().filter(|(field, _)| field == name);
        fields.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of a field, if all its occurrences are equal.
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        let first = all.first()?;
        all.iter().all(|value| value == first).then_some(first)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }

    /// Any of the fields that name versions has this text.
    pub(super) fn says(&self, name: &Name) -> bool {
        let fields: &[&str] = match name {
            Name::Tag(_) => &["etag"],
            Name::Generation(_) => &["x-goog-generation"],
            Name::VersionId(_) => &["x-amz-version-id", "x-ms-version-id"],
            Name::Date(_) => &["last-modified"],
        };
        fields.iter().any(|field| self.all(field).contains(&name.text()))
    }

    /// The versions that it names; the strongest is first.
    pub(super) fn names(&self, flavour: Flavour) -> Vec<Name> {
        let tag = self.one("etag").filter(|tag| is_strong(tag));
        let generation = self.one("x-goog-generation").filter(|_| flavour == Flavour::Gcs);
        let id = match flavour {
            Flavour::S3 => self.one("x-amz-version-id").filter(|id| *id != "null"),
            Flavour::Azure => self.one("x-ms-version-id"),
            Flavour::Http | Flavour::Gcs => None,
        };
        // With a weak tag, equal dates do not imply equal bytes.
        let is_vouched = tag.is_some() || !self.has("etag");
        let date = self.one("last-modified").filter(|_| is_vouched && self.is_dated());
        let generation = generation.map(|text| Name::Generation(text.to_owned()));
        let tag = tag.map(|text| Name::Tag(text.to_owned()));
        let id = id.map(|text| Name::VersionId(text.to_owned()));
        let date = date.map(|text| Name::Date(text.to_owned()));
        [generation, tag, id, date].into_iter().flatten().collect()
    }

    /// Whether it names this version. A date counts in spite of a weak tag if the caller asked for
    /// a date or the first response named one.
    pub(super) fn is_of(&self, name: &Name) -> bool {
        let says = |field| self.one(field) == Some(name.text());
        match name {
            Name::Tag(text) => is_strong(text) && says("etag"),
            Name::Generation(_) => says("x-goog-generation"),
            Name::VersionId(_) => says("x-amz-version-id") || says("x-ms-version-id"),
            Name::Date(_) => says("last-modified") && self.is_dated(),
        }
    }

    /// Whether its modification date is a strong validator, RFC 9110 section 8.8.2.2: a second
    /// before `Date` or more.
    fn is_dated(&self) -> bool {
        let time = |name| httpdate::parse_http_date(self.one(name)?).ok();
        let (Some(modified), Some(date)) = (time("last-modified"), time("date")) else {
            return false;
        };
        date.duration_since(modified).is_ok_and(|age| age.as_secs() >= 1)
    }

    /// The value of `Content-Encoding`, except `identity`.
    pub(super) fn encoding(&self) -> String {
        let all = self.all("content-encoding").join(",").to_ascii_lowercase();
        if all == "identity" { String::new() } else { all }
    }

    /// Whether the store decompresses a blob that is stored compressed.
    pub(super) fn is_decompressed(&self) -> bool {
        let stored = self.all("x-goog-stored-content-encoding");
        stored.iter().any(|coding| *coding != "identity") && self.encoding().is_empty()
    }

    /// The checksums of the whole blob's bytes that are well-formed.
    pub(super) fn sums(&self) -> Vec<(Sum, Vec<u8>)> {
        let mut found = Vec::new();
        let is_part = self.status == 206;
        let mut note = |sum: Sum, text: &str| {
            found.extend(value(sum, text).map(|value| (sum, value)));
        };
        for member in self.all("x-goog-hash").iter().flat_map(|value| value.split(',')) {
            match member.trim().split_once('=') {
                Some(("crc32c", text)) => note(Sum::Crc32c, text),
                Some(("md5", text)) => note(Sum::Md5, text),
                _ => {}
            }
        }
        for member in self.all("repr-digest").iter().flat_map(|value| value.split(',')) {
            let member = member.trim().strip_suffix(':').unwrap_or_default();
            if let Some(("sha-256", text)) = member.split_once("=:") {
                note(Sum::Sha256, text);
            }
        }
        for (name, sum) in [
            ("x-amz-checksum-crc64nvme", Sum::Crc64Nvme),
            ("x-amz-checksum-sha256", Sum::Sha256),
            ("content-md5", Sum::Md5),
        ] {
            let of_whole = !is_part && self.one("x-amz-checksum-type") != Some("COMPOSITE");
            for text in self.all(name).iter().filter(|_| of_whole) {
                note(sum, text);
            }
        }
        for text in self.all("x-ms-blob-content-md5") {
            note(Sum::Md5, text);
        }
        found
    }
}

/// `"abc"`: RFC 9110 section 8.8.3.
fn is_strong(tag: &str) -> bool {
    let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    inner.is_some_and(|inner| {
        inner.bytes().all(|byte| byte == 0x21 || (0x23..=0x7e).contains(&byte))
    })
}
