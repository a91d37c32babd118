//! The `credential_process` of an AWS profile: a program that prints temporary keys. The aws CLI
//! can be this program, for single sign-on and assumed roles.
//!
//! The program runs as [`Program`] describes.
//! Keys are kept in a [`CredentialCache`].
//!
//! Invariants: one run at a time serves all requests. No message quotes the standard output, which
//! holds secrets. Only the first line of standard error is shown.

mod output;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;

use super::credential_cache::{CredentialCache, Expiring};
use super::credential_program::Program;
use super::credentials::NoCredentials;

const HINT: &str = "check the credential_process by running it; it may ask for a new login \
     (such as by `aws sso login`)";

/// See the module docs.
pub(super) struct CredentialProcess {
    /// What names the program, such as `AWS profile work`.
    owner: String,
    program: Program,
    cache: CredentialCache<AwsCredential>,
}

impl fmt::Debug for CredentialProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The command may hold secrets.
        f.debug_struct("CredentialProcess").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl CredentialProcess {
    /// The process that `command` starts; an error says why it cannot be one. `owner` names the
    /// command's origin in errors.
    pub(super) fn new(owner: &str, command: &str) -> Result<Self, &'static str> {
        let program = Program::new(command)?;
        Ok(Self { owner: owner.to_owned(), program, cache: CredentialCache::default() })
    }

    fn failure(&self, reason: &str) -> NoCredentials {
        let message = format!("credential_process of {} failed: {reason}", self.owner);
        NoCredentials::new(&message, HINT)
    }

    /// CANCEL: the program is killed.
    async fn run(&self) -> Result<Expiring<AwsCredential>, String> {
        let output = self.program.run().await?;
        let expiring = output::parse(&output)?;
        if expiring.expires.is_some_and(|expires| expires <= SystemTime::now()) {
            return Err("it gave credentials that have already expired".to_owned());
        }
        Ok(expiring)
    }
}

#[async_trait]
impl CredentialProvider for CredentialProcess {
    type Credential = AwsCredential;

    // CANCEL: the program is killed; the next caller in line runs it again.
    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let run = || async {
            self.run().await.map_err(|reason| {
                let failure = self.failure(&reason);
                tracing::debug!(owner = self.owner, "{failure}");
                failure
            })
        };
        self.cache.get(run).await.map_err(NoCredentials::into)
    }
}

#[cfg(test)]
mod tests;
