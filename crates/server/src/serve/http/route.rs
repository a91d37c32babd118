//! Which dialect a path belongs to: one table, the first row that fits decides.
//!
//! Empty segments count as absent, so `//ac/KEY` is `/ac/KEY` of the empty instance. A path that
//! ends with a slash and fits no other row is a folder of `WebDAV`.

use http::Method;
use tidegate_core::checksum::Checksum;
use tidegate_core::digest::DigestFunction;

use crate::serve::access::Role;
use crate::store::BlobHash;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// A blob by its hash.
    Blob { name: BlobHash, instance: String },
    /// A path of a blob whose last segment is no hash.
    BadHash,
    /// A value of the action cache.
    Action { function: DigestFunction, instance: String, key: &'a str },
    /// A tool with a protocol of its own.
    Dialect(Dialect<'a>),
}

/// A tool with a protocol of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dialect<'a> {
    /// Is the server there? As moon asks it.
    MoonStatus,
    /// Is caching enabled?
    TurborepoStatus,
    /// Statistics of hits, which nothing needs.
    TurborepoEvents,
    /// Which of many artifacts exist?
    TurborepoQuery,
    /// An artifact of Turborepo.
    Turborepo(&'a str),
    /// A record of Nx.
    Nx(&'a str),
    /// An entry of Gradle.
    Gradle(&'a str),
    /// An entry of ccache in the layout `flat` or `subdirs`.
    Ccache(String),
    /// A file of `WebDAV`.
    WebDavFile(String),
    /// A folder of `WebDAV`.
    WebDavFolder,
}

impl Route<'_> {
    /// The instance; empty for a path without one.
    pub(super) fn instance(&self) -> &str {
        match self {
            Self::Blob { instance, .. } | Self::Action { instance, .. } => instance,
            Self::BadHash | Self::Dialect(_) => "",
        }
    }

    /// The role that a request needs.
    pub(super) fn role(&self, method: &Method) -> Role {
        match (self, method.as_str()) {
            (_, "GET" | "HEAD" | "PROPFIND")
            | (Self::Dialect(Dialect::TurborepoEvents | Dialect::TurborepoQuery), _) => Role::Read,
            _ => Role::Write,
        }
    }

    /// The methods of the path.
    pub(super) const fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::Blob { .. } | Self::BadHash => &["GET", "HEAD", "PUT"],
            Self::Action { .. } => &["GET", "HEAD", "PUT", "DELETE"],
            Self::Dialect(dialect) => dialect.methods(),
        }
    }
}

impl Dialect<'_> {
    const fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::MoonStatus | Self::TurborepoStatus => &["GET", "HEAD"],
            Self::TurborepoEvents | Self::TurborepoQuery => &["POST"],
            Self::Turborepo(_) | Self::Nx(_) | Self::Gradle(_) => &["GET", "HEAD", "PUT"],
            Self::Ccache(_) => &["GET", "HEAD", "PUT", "DELETE"],
            Self::WebDavFile(_) => &["GET", "HEAD", "PUT", "DELETE", "PROPFIND"],
            Self::WebDavFolder => &["PROPFIND", "MKCOL"],
        }
    }
}

/// The table.
pub(super) fn route(path: &str) -> Option<Route<'_>> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let is_folder = path.ends_with('/');
    let dialect = match segments[..] {
        _ if is_folder => Dialect::WebDavFolder,
        ["status"] => Dialect::MoonStatus,
        ["v8", "artifacts"] => Dialect::TurborepoQuery,
        ["v8", "artifacts", "status"] => Dialect::TurborepoStatus,
        ["v8", "artifacts", "events"] => Dialect::TurborepoEvents,
        ["v8", "artifacts", hash] => Dialect::Turborepo(hash),
        ["v1", "cache", hash] => Dialect::Nx(hash),
        ["webdav", _, ..] => Dialect::WebDavFile(segments.join("/")),
        [ref instance @ .., "cas", "blake3", hash] => {
            return Some(blob(instance, Some(DigestFunction::Blake3), hash));
        }
        [ref instance @ .., "cas", hash] => return Some(blob(instance, None, hash)),
        [ref instance @ .., "ac", "blake3", key] => {
            return Some(action(instance, Some(DigestFunction::Blake3), key));
        }
        [ref instance @ .., "ac", key] => return Some(action(instance, None, key)),
        [.., ".sccache_check"] => Dialect::WebDavFile(segments.join("/")),
        [.., a, b, c, key] if is_sccache_key([a, b, c], key) => {
            Dialect::WebDavFile(segments.join("/"))
        }
        [.., key] if is_ccache_key(key) => Dialect::Ccache(segments.join("/")),
        [.., folder, rest] if is_ccache_subdir(folder, rest) => Dialect::Ccache(segments.join("/")),
        ["cache", key] => Dialect::Gradle(key),
        _ => return None,
    };
    Some(Route::Dialect(dialect))
}

/// The digest function that the last segment of an instance names, and the rest of the instance.
fn function<'a>(
    instance: &'a [&'a str],
    given: Option<DigestFunction>,
) -> (DigestFunction, &'a [&'a str]) {
    match (given, instance) {
        (Some(function), _) => (function, instance),
        (None, [rest @ .., "blake3"]) => (DigestFunction::Blake3, rest),
        (None, _) => (DigestFunction::Sha256, instance),
    }
}

/// Blobs of all instances are the same. The instance says who may ask for them.
fn blob(instance: &[&str], given: Option<DigestFunction>, hash: &str) -> Route<'static> {
    let (function, instance) = function(instance, given);
    let is_hex = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hash = is_hex.then(|| Checksum::from_hex(function.algorithm(), &hash.to_ascii_lowercase()));
    let hash = hash.and_then(Result::ok).and_then(|hash| hash.as_bytes().try_into().ok());
    hash.map_or(Route::BadHash, |hash| Route::Blob {
        name: BlobHash { function, hash },
        instance: instance.join("/"),
    })
}

fn action<'a>(instance: &[&str], given: Option<DigestFunction>, key: &'a str) -> Route<'a> {
    let (function, instance) = function(instance, given);
    Route::Action { function, instance: instance.join("/"), key }
}

/// sccache: three folders of one digit, which begin the key.
fn is_sccache_key(folders: [&str; 3], key: &str) -> bool {
    key.len() >= 32
        && key.bytes().all(|byte| byte.is_ascii_hexdigit())
        && folders.iter().all(|folder| folder.len() == 1)
        && key.starts_with(&folders.concat())
}

/// ccache: 160 bits or more in base 32, whose digits are `0` to `9` and `a` to `v`. Keys of Gradle
/// are shorter.
fn is_ccache_key(key: &str) -> bool {
    (33..=64).contains(&key.len()) && is_base32(key)
}

fn is_ccache_subdir(folder: &str, rest: &str) -> bool {
    folder.len() == 2 && is_base32(folder) && (31..=62).contains(&rest.len()) && is_base32(rest)
}

fn is_base32(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'v'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const CCACHE: &str = "06fa0e48kou9hr7m1c2d3e4f5g6h7i8jk";

    /// A short text for each route.
    fn shown(path: &str) -> String {
        let Some(route) = route(path) else { return "none".into() };
        match route {
            Route::Blob { name, .. } => {
                assert_eq!(name.with_len(0).checksum().hex(), HASH);
                format!("blob {}", name.function)
            }
            Route::BadHash => "bad hash".into(),
            Route::Action { function, instance, key } => {
                format!("action {function} [{instance}] {}", key.replace(HASH, "H"))
            }
            Route::Dialect(dialect) => match dialect {
                Dialect::MoonStatus => "moon status".into(),
                Dialect::TurborepoStatus => "turborepo status".into(),
                Dialect::TurborepoEvents => "turborepo events".into(),
                Dialect::TurborepoQuery => "turborepo query".into(),
                Dialect::Turborepo(hash) => format!("turborepo {hash}"),
                Dialect::Nx(hash) => format!("nx {hash}"),
                Dialect::Gradle(key) => format!("gradle {key}"),
                Dialect::Ccache(key) => format!("ccache {}", key.replace(CCACHE, "K")),
                Dialect::WebDavFile(path) => format!("file {}", path.replace(HASH, "H")),
                Dialect::WebDavFolder => "folder".into(),
            },
        }
    }

    #[test]
    fn every_row() {
        let upper = HASH.to_ascii_uppercase();
        let sub = format!("/{}/{}", &CCACHE[..2], &CCACHE[2..]);
        let rows = [
            ("/cas/HASH", "blob sha256"),
            ("/a/b/cas/HASH", "blob sha256"),
            ("//cas/HASH", "blob sha256"),
            ("/a//cas//HASH", "blob sha256"),
            ("/cas/blake3/HASH", "blob blake3"),
            ("/a/blake3/cas/HASH", "blob blake3"),
            ("/cas/short", "bad hash"),
            ("/cas/HASH00", "bad hash"),
            ("/ac/HASH", "action sha256 [] H"),
            ("//ac/HASH", "action sha256 [] H"),
            ("/moon-outputs/ac/HASH", "action sha256 [moon-outputs] H"),
            ("/a/b/ac/any-key", "action sha256 [a/b] any-key"),
            ("/a/ac/blake3/HASH", "action blake3 [a] H"),
            ("/a/blake3/ac/HASH", "action blake3 [a] H"),
            ("/cache/ac/HASH", "action sha256 [cache] H"),
            ("/status", "moon status"),
            ("/v8/artifacts", "turborepo query"),
            ("/v8/artifacts/status", "turborepo status"),
            ("/v8/artifacts/events", "turborepo events"),
            ("/v8/artifacts/0123456789abcdef", "turborepo 0123456789abcdef"),
            ("/v1/cache/12345678901234567890", "nx 12345678901234567890"),
            ("/cache/0123456789abcdef0123456789abcdef", "gradle 0123456789abcdef0123456789abcdef"),
            ("/CCACHE", "ccache K"),
            ("/team/CCACHE", "ccache team/K"),
            ("/cache/CCACHE", "ccache cache/K"),
            ("/e/3/b/HASH", "file e/3/b/H"),
            ("/prefix/e/3/b/HASH", "file prefix/e/3/b/H"),
            (
                "/f/3/b/HASH",
                "ccache f/3/b/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            ("/.sccache_check", "file .sccache_check"),
            ("/prefix/.sccache_check", "file prefix/.sccache_check"),
            ("/webdav/any/name.zip", "file webdav/any/name.zip"),
            ("/webdav/cas/HASH", "file webdav/cas/H"),
            ("/", "folder"),
            ("/prefix/", "folder"),
            ("/webdav/e/3/", "folder"),
            ("/webdav", "none"),
            ("", "none"),
            ("/unknown", "none"),
            ("/cas", "none"),
            ("/v8", "none"),
            ("/v1/cache", "none"),
            ("/v8/artifacts/a/b", "none"),
            ("/cache/a/b", "none"),
        ];
        for (path, expected) in rows {
            let path = path.replace("HASH", HASH).replace("CCACHE", CCACHE);
            assert_eq!(shown(&path), expected, "{path}");
        }
        assert_eq!(shown(&format!("/cas/{upper}")), "blob sha256");
        assert_eq!(shown(&sub), format!("ccache {}", &sub[1..]));
    }
}
