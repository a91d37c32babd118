//! The links and the tools.

use clap::ValueEnum;
use serde::Serialize;

/// The link between the tool and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Link {
    /// Loopback.
    Plain,
    /// 20 ms before each response.
    Delay,
    /// 20 ms before each response, 100 MiB/s a connection.
    Capped,
}

impl Link {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Delay => "delay",
            Self::Capped => "capped",
        }
    }

    /// Heading in the report.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Plain => "loopback",
            Self::Delay => "+20 ms",
            Self::Capped => "+20 ms and 100 MiB/s a connection",
        }
    }
}

/// One row of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Tool {
    /// `tidegate cp`: every part and the whole are verified.
    Tidegate,
    S5cmd,
    Rclone,
    /// 32 curls at once. Each one puts a 32nd of the file as an object of its own.
    CurlX32,
}

impl Tool {
    pub(super) const ALL: [Self; 4] = [Self::Tidegate, Self::S5cmd, Self::Rclone, Self::CurlX32];

    /// Its name in tables.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate, verified",
            Self::S5cmd => "s5cmd",
            Self::Rclone => "rclone",
            Self::CurlX32 => "32 curls",
        }
    }

    /// Whether people upload so.
    pub(super) fn is_peer(self) -> bool {
        matches!(self, Self::S5cmd | Self::Rclone)
    }
}
