//! The machine on which the figures were measured.

use std::{fmt, fs};

use serde::Serialize;

/// The properties of a machine that affect a figure, as far as they can be read.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) kernel: String,
}

impl Machine {
    /// The current machine.
    pub(crate) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpus = text("/proc/cpuinfo");
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: model.map_or("unknown", |(_, name)| name).into(),
            kernel: text("/proc/sys/kernel/osrelease").trim().into(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cores ({}), Linux {}", self.cores, self.processor, self.kernel)
    }
}
