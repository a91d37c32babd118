//! [`OptionsByUrl`]: options of remotes that differ by URL.
//!
//! One client can copy from servers with different endpoints, credentials, authorities or headers.
//! The program groups URLs, for example by the prefixes of a configuration file. Each group has its
//! own options, and so its own connections and credentials: what is for one group is not sent to
//! another.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::RemoteOptions;
use super::network::Network;
use crate::error::Result;

/// Chooses the options of a remote by the URL of a blob.
pub trait OptionsByUrl: fmt::Debug + Send + Sync {
    /// The name of the group that `url` is in; `None` if the client's own options apply.
    fn group(&self, url: &str) -> Option<String>;

    /// The options of a group. Called once for each group, when the first of its URLs is located.
    /// It may read files.
    fn options(&self, group: &str) -> Result<RemoteOptions>;
}

/// The networks of the groups that were asked for.
#[derive(Debug)]
pub(super) struct Groups {
    choice: Arc<dyn OptionsByUrl>,
    made: Mutex<HashMap<String, Arc<Network>>>,
}

impl Groups {
    pub(super) fn new(choice: Arc<dyn OptionsByUrl>) -> Self {
        Self { choice, made: Mutex::default() }
    }

    /// The network of the group that `url` is in, if it is in one.
    pub(super) fn network(&self, url: &str) -> Result<Option<Arc<Network>>> {
        let Some(group) = self.choice.group(url) else { return Ok(None) };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(network) = made.get(&group) {
            return Ok(Some(Arc::clone(network)));
        }
        let network = Arc::new(Network::new(self.choice.options(&group)?));
        made.insert(group, Arc::clone(&network));
        Ok(Some(network))
    }
}
