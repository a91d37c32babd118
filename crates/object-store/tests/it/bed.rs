//! A server or a folder, and a store over it.

use tempfile::TempDir;
use tidegate::remote::RemoteOptions;
use tidegate::{Budget, BudgetOptions, Client, ClientOptions, RetryPolicy, StateFolder};
use tidegate_object_store::TidegateStore;
use tidegate_testkit::{Flavour, Server, ServerOptions};

/// See the module docs.
pub(crate) struct Bed {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) store: TidegateStore,
    flavour: Flavour,
    _state: TempDir,
}

impl Bed {
    pub(crate) async fn new(options: ServerOptions) -> Self {
        let flavour = options.flavour;
        let server = Server::start(options).await.unwrap();
        let state = tempfile::tempdir().unwrap();
        let client = client(&server, flavour, &state);
        let store = TidegateStore::new(&client, url(flavour)).unwrap();
        Self { server, client, store, flavour, _state: state }
    }

    /// How another client reaches the server.
    pub(crate) fn remote(&self) -> RemoteOptions {
        remote(&self.server, self.flavour)
    }
}

/// A prefix, so that the suite also shows that no path leaves it.
fn url(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::S3 => "s3://bucket/some/prefix",
        Flavour::Gcs => "gs://bucket/some/prefix",
        Flavour::Azure => "az://bucket/some/prefix",
        Flavour::Http => unreachable!("the address of a web server is not fixed"),
    }
}

fn remote(server: &Server, flavour: Flavour) -> RemoteOptions {
    let endpoint = match flavour {
        Flavour::Azure => format!("{}/account", server.endpoint()),
        _ => server.endpoint(),
    };
    RemoteOptions { endpoint: Some(endpoint), anonymous: true, ..RemoteOptions::default() }
}

fn client(server: &Server, flavour: Flavour, state: &TempDir) -> Client {
    let remote = remote(server, flavour);
    let retry = RetryPolicy {
        delay_ms_min: 1,
        delay_ms_max: 5,
        attempts_max: 4,
        seed: Some(1),
        ..RetryPolicy::default()
    };
    let options = ClientOptions::default()
        .remote(remote)
        .budget(Budget::new(BudgetOptions { requests: 8, bytes: 32 << 20 }))
        .retry(retry)
        .state(StateFolder::at(state.path()));
    Client::new(options)
}
