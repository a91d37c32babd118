//! Settings of the caller that decide whether the same call succeeds, and a hint for each.
//!
//! The library names its own options in its hints. A program around the library has its own names
//! for them, such as flags. It reads [`Setting`] and the kind from the error, and shows its own
//! hint instead. So no text of the library names a flag.

use super::{ErrorKind, printable};

/// A setting that the caller can change so that the same call succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Setting {
    /// The bytes that a budget holds: [`BudgetOptions::bytes`](crate::BudgetOptions::bytes). Only
    /// transfers that require chunks fail with this setting.
    Memory,
    /// Whether a blob is moved as chunks: [`ChunkPolicy`](crate::ChunkPolicy).
    Chunks,
    /// Shards in flight: [`DownloadBuilder::window`](crate::DownloadBuilder::window).
    Window,
    /// The speed below which a transfer fails: `RetryPolicy::bytes_per_s_min`.
    SpeedMin,
    /// Whether credentials are looked up and sent: `RemoteOptions::anonymous`.
    Anonymous,
    /// Credentials for S3 in the environment.
    AwsCredentials,
    /// The account and the credentials for Azure in the environment.
    AzureCredentials,
    /// The service's base URL: `RemoteOptions::endpoint`.
    Endpoint,
    /// Header fields of every request, such as credentials: `RemoteOptions::headers`.
    Headers,
    /// The key that a blob is encrypted with: `RemoteOptions::customer_key`.
    CustomerKey,
    /// The project that pays for requests: `RemoteOptions::user_project`.
    UserProject,
    /// Whether the requester agrees to pay: `RemoteOptions::request_payer`.
    RequestPayer,
    /// Certificate authorities to trust in addition to the system's: `RemoteOptions::ca_certs`.
    CaCerts,
    /// The version that a blob is pinned to: [`Location::at`](crate::Location::at).
    Version,
    /// The proxies between this process and the servers: `TransportOptions::proxies`.
    Proxy,
    /// Whether a service of S3 is trusted to keep conditions: `RemoteOptions::trust_conditions`.
    Conditions,
}

impl Setting {
    /// Every setting, so that a program can test that it has a hint for each.
    pub const ALL: &[Self] = &[
        Self::Memory,
        Self::Chunks,
        Self::Window,
        Self::SpeedMin,
        Self::Anonymous,
        Self::AwsCredentials,
        Self::AzureCredentials,
        Self::Endpoint,
        Self::Headers,
        Self::CustomerKey,
        Self::UserProject,
        Self::RequestPayer,
        Self::CaCerts,
        Self::Version,
        Self::Proxy,
        Self::Conditions,
    ];

    /// The hint in an error of this kind.
    pub(super) fn hint(self, kind: ErrorKind) -> &'static str {
        match (self, kind) {
            (Self::Memory, _) => "raise `BudgetOptions::bytes`, or do not require chunks",
            (Self::Chunks, _) => "do not require chunks: use `ChunkPolicy::Auto`",
            (Self::Window, _) => {
                "the server, or a proxy before it, mishandles ranges; try `.window(1)`"
            }
            (Self::SpeedMin, _) => {
                "the server or the network is too slow: try again later, or lower \
                 `RetryPolicy::bytes_per_s_min`; 0 sets no limit"
            }
            (Self::Anonymous, ErrorKind::Invalid) => {
                "set `RemoteOptions::anonymous` to send this one in their place"
            }
            (Self::Anonymous, _) => {
                "check the credentials, or set `RemoteOptions::anonymous` for a public blob"
            }
            (Self::AwsCredentials, _) => {
                "export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or set \
                 `RemoteOptions::anonymous` for a public blob"
            }
            (Self::AzureCredentials, _) => {
                "set AZURE_STORAGE_ACCOUNT_NAME, and a key, a SAS token or \
                 `RemoteOptions::anonymous`"
            }
            (Self::Endpoint, _) => {
                "check the AWS_* variables, the profile and `RemoteOptions::endpoint`"
            }
            (Self::Headers, ErrorKind::NoAccess) => {
                "check the credentials: an `authorization` header in `RemoteOptions::headers`, or \
                 a client certificate in `TransportOptions::client_identity`"
            }
            (Self::Headers, _) => {
                "give them as an `authorization` header in `RemoteOptions::headers`"
            }
            (Self::CustomerKey, ErrorKind::Invalid) => "leave out `RemoteOptions::customer_key`",
            (Self::CustomerKey, ErrorKind::NoAccess) => {
                "set `RemoteOptions::customer_key` to the key that the blob was stored with"
            }
            (Self::CustomerKey, _) => {
                "where the blob is encrypted with a customer's key, set \
                 `RemoteOptions::customer_key`"
            }
            (Self::UserProject, _) => "set `RemoteOptions::user_project` to the project that pays",
            (Self::RequestPayer, _) => {
                "check the credentials; set `RemoteOptions::anonymous` for a public blob, \
                 `RemoteOptions::request_payer` where the requester pays"
            }
            (Self::CaCerts, _) => {
                "set `RemoteOptions::ca_certs` to the certificate of a private authority"
            }
            (Self::Version, _) => "ask `Client::stat` for the present version",
            (Self::Proxy, _) => {
                "check the URL in `Proxies`, or in http_proxy, https_proxy and all_proxy; list hosts \
                 without a proxy in no_proxy"
            }
            (Self::Conditions, _) => {
                "write without a condition; where only one process writes the blob and the service \
                 does compare, set `RemoteOptions::trust_conditions`"
            }
        }
    }
}

/// What the user can do about an error: a text, or a [`Setting`] that has a text for each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint(Advice);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Advice {
    /// Without control characters.
    Text(String),
    Setting(Setting),
}

impl Hint {
    /// The text in an error of this kind.
    pub(super) fn text(&self, kind: ErrorKind) -> &str {
        match &self.0 {
            Advice::Text(text) => text,
            Advice::Setting(setting) => setting.hint(kind),
        }
    }

    /// The setting, if the hint names one.
    pub(super) fn setting(&self) -> Option<Setting> {
        match self.0 {
            Advice::Text(_) => None,
            Advice::Setting(setting) => Some(setting),
        }
    }
}

impl From<Setting> for Hint {
    fn from(setting: Setting) -> Self {
        Self(Advice::Setting(setting))
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self(Advice::Text(printable(text)))
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Error, Operation};
    use super::*;

    fn error(kind: ErrorKind) -> Error {
        Error::new(kind, Operation::Read, "t", "m")
    }

    #[test]
    fn all_are_listed_once() {
        for (index, setting) in Setting::ALL.iter().enumerate() {
            assert_eq!(*setting as usize, index, "{setting:?}");
        }
        assert_eq!(Setting::ALL.last(), Some(&Setting::Conditions), "the enum's last");
    }

    #[test]
    fn the_last_hint_wins() {
        let set = error(ErrorKind::Invalid).with_hint(Setting::CustomerKey);
        assert_eq!(set.setting(), Some(Setting::CustomerKey));
        assert_eq!(set.hint(), Some("leave out `RemoteOptions::customer_key`"));
        let worded = set.with_hint("begin again");
        assert_eq!((worded.setting(), worded.hint()), (None, Some("begin again")));
        let set = worded.with_hint(Setting::Window);
        assert_eq!(set.setting(), Some(Setting::Window));
    }

    #[test]
    fn an_error_takes_the_hint_of_its_cause() {
        let cause = error(ErrorKind::Exhausted).with_hint(Setting::SpeedMin);
        let whole = error(ErrorKind::Exhausted).with_hint_of(&cause);
        assert_eq!((whole.setting(), whole.hint()), (cause.setting(), cause.hint()));
        let whole = whole.with_hint_of(&error(ErrorKind::Exhausted));
        assert_eq!(whole.setting(), Some(Setting::SpeedMin), "that has none of its own");
    }

    #[test]
    fn kinds_have_settings() {
        assert_eq!(error(ErrorKind::NoAccess).setting(), Some(Setting::Anonymous));
        assert_eq!(error(ErrorKind::NoAccess).with_hint("check the path").setting(), None);
        assert_eq!(error(ErrorKind::Changed).setting(), None);
    }
}
