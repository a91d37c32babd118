//! One run: a cache with scripted responses, and its client.

use std::sync::Arc;
use std::time::Duration;

use tidegate::remote::RemoteOptions;
use tidegate::remote::reapi::{Compression, ReapiOptions};
use tidegate::{Client, ClientOptions};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::Input;
use crate::answer::Answer;
use crate::call::{assert_shown, call};
use crate::capabilities::Capabilities;
use crate::message::Message;
use crate::server::{Script, serve};

/// A run that takes longer hangs.
const HANG: Duration = Duration::from_secs(20);

pub(crate) struct Bed {
    runtime: Runtime,
    script: Script,
    url: String,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let script = Script::default();
        let url = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("grpc://{}/main", listener.local_addr().unwrap());
            tokio::spawn(serve(listener, Arc::clone(&script)));
            url
        });
        Self { runtime, script, url }
    }

    pub(crate) fn run(&self, input: &Input) {
        let compression = [Compression::Never, Compression::Auto, Compression::Always]
            [usize::from(input.compression % 3)];
        let reapi = ReapiOptions { compression, connections_max: 1, ..ReapiOptions::default() };
        let remote = RemoteOptions { reapi, ..RemoteOptions::default() };
        let client = Client::new(ClientOptions::default().remote(remote));
        let target = client.locate_target(&self.url).unwrap();
        let cache = target.store().unwrap();
        let able = || Answer::of(Message::Capabilities(Box::new(Capabilities::all())));
        self.answer(input.capabilities.clone().unwrap_or_else(able));
        self.runtime.block_on(async {
            let all = async {
                match cache.profile().await {
                    Ok(profile) => assert!(!profile.digest_functions.is_empty()),
                    Err(error) => assert_shown(&error),
                }
                for (asked, answer) in input.calls.iter().take(8) {
                    self.answer(answer.clone());
                    call(cache.as_ref(), asked).await;
                }
            };
            tokio::time::timeout(HANG, all).await.expect("it waits for what never comes");
        });
    }

    /// Replaces the script: this is the only scripted response.
    fn answer(&self, answer: Answer) {
        let mut script = self.script.lock().unwrap();
        script.clear();
        script.push_back(answer);
    }
}
