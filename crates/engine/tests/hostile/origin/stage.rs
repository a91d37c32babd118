//! One scenario's server, and its clients.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tidegate::Location;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate::remote::RemoteOptions;
use tidegate::transport::{Dial, DialedStream, TransportOptions};
use tidegate_testkit::Flavour;
use tidegate_testkit::hostile::{HostileServer, HostileTls, Scenario};

use super::choice::Choice;
use crate::call::client_of;

/// What all seeds share.
pub(crate) struct House {
    tls: HostileTls,
    ca: PathBuf,
    _folder: TempDir,
}

impl House {
    pub(crate) fn new() -> Self {
        let tls = HostileTls::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, tls.ca_pem()).unwrap();
        Self { tls, ca, _folder: folder }
    }
}

/// Connects to the server in place of TCP.
#[derive(Debug)]
struct Lead(HostileServer);

impl Dial for Lead {
    fn dial(&self, _host: &str, port: u16) -> io::Result<Box<dyn DialedStream>> {
        Ok(Box::new(self.0.connect(port)?))
    }
}

/// See the module docs.
pub(crate) struct Stage<'a> {
    house: &'a House,
    pub(crate) choice: Choice,
    pub(crate) server: HostileServer,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(house: &'a House, seed: u64) -> Self {
        let scenario = Scenario::new(seed);
        let choice = Choice::new(seed, &scenario);
        let server = HostileServer::new(scenario, Some(house.tls.clone()));
        Self { house, choice, server }
    }

    /// The blob's location, from a client without any state.
    pub(crate) fn locate(&self) -> tidegate::Result<Location> {
        let scenario = self.server.scenario();
        let endpoint = scenario.endpoint();
        let (endpoint, url) = match scenario.flavour() {
            Flavour::Http => (endpoint.clone(), format!("{endpoint}/bucket/blob")),
            Flavour::Gcs => (endpoint, "gs://bucket/blob".to_owned()),
            Flavour::S3 => (endpoint, "s3://bucket/blob".to_owned()),
            Flavour::Azure => (format!("{endpoint}/account"), "az://bucket/blob".to_owned()),
        };
        let transport = TransportOptions {
            ca_certs: vec![self.house.ca.clone()],
            dial: Some(Arc::new(Lead(self.server.clone()))),
            ..TransportOptions::default()
        };
        let options = RemoteOptions {
            endpoint: Some(endpoint),
            anonymous: true,
            transport,
            ..RemoteOptions::default()
        };
        let location = client_of(options).locate(&url)?;
        match self.choice.version() {
            Some(version) => location.at(version),
            None => Ok(location),
        }
    }

    pub(crate) fn budget() -> Budget {
        Budget::new(BudgetOptions { requests: 8, bytes: 32 << 20 })
    }
}
