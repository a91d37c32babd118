//! Writers whose steps follow from a seed: blobs, action results, values.

use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;
use prost::Message as _;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;

use crate::client::{Client, Outcome};
use crate::ledger::{Content, Ledger, Name};
use crate::life::Life;

/// Writes until the server is gone.
pub(crate) async fn write_until_killed(life: Arc<Life>, ledger: Ledger, random: Rng) -> Ledger {
    let mut writer = Writer { life, ledger, random };
    if let Err(failure) = writer.run().await {
        writer.life.check_failure(&failure);
    }
    writer.ledger
}

struct Writer {
    life: Arc<Life>,
    ledger: Ledger,
    random: Rng,
}

impl Writer {
    /// Ends with the first failure.
    async fn run(&mut self) -> Outcome<()> {
        let client = Client::connect(&self.life).await?;
        loop {
            match self.random.u8(..10) {
                0..3 => self.stream(&client).await?,
                3..5 => self.batch(&client).await?,
                5..7 => self.action(&client).await?,
                7 => self.put_blob(&client).await?,
                _ => self.put_value(&client).await?,
            }
        }
    }

    /// Mostly short; some are files in the store, some of several messages.
    fn noise(&mut self) -> Content {
        let len = match self.random.u8(..) {
            0..8 => self.random.usize(0..3),
            8..200 => self.random.usize(1..6000),
            200..248 => self.random.usize(60_000..200_000),
            _ => self.random.usize(500_000..1_200_000),
        };
        Content::Noise { seed: self.random.u64(..), len }
    }

    /// A name before its request.
    fn sends(&mut self, name: &Name, content: Content) {
        self.ledger.sends(name, content);
        self.life.event();
    }

    fn acknowledges(&mut self, name: &Name) {
        self.ledger.acknowledges(name);
        self.life.event();
    }

    async fn stream(&mut self, client: &Client) -> Outcome<()> {
        let content = self.noise();
        let (digest, bytes) = content.blob();
        let name = Name::Blob(digest);
        self.sends(&name, content);
        client.write(&self.life, &digest, bytes).await?;
        self.acknowledges(&name);
        Ok(())
    }

    async fn batch(&mut self, client: &Client) -> Outcome<()> {
        let count = self.random.usize(1..20);
        let mut blobs = Vec::with_capacity(count);
        for _ in 0..count {
            let len = self.random.usize(1..6000);
            let content = Content::Noise { seed: self.random.u64(..), len };
            let (digest, bytes) = content.blob();
            self.ledger.sends(&Name::Blob(digest), content);
            blobs.push((digest, bytes));
        }
        self.life.event();
        client.batch(&blobs).await?;
        for (digest, _) in &blobs {
            self.ledger.acknowledges(&Name::Blob(*digest));
        }
        self.life.event();
        Ok(())
    }

    /// A result of a new action, or another result of an action.
    async fn action(&mut self, client: &Client) -> Outcome<()> {
        let result = self.result();
        let earlier = self.ledger.a_replaceable(&mut self.random);
        let name = match earlier {
            Some(name @ Name::Action(_)) if self.random.bool() => name,
            _ => {
                let action = self.random.u64(..).to_le_bytes();
                Name::Action(Digest::of(DigestFunction::Sha256, &action))
            }
        };
        let Name::Action(action) = name else { return Ok(()) };
        self.sends(&name, Content::Exactly(result.clone()));
        client.update_action(&action, &result).await?;
        self.acknowledges(&name);
        Ok(())
    }

    /// Its outputs are blobs that were acknowledged.
    fn result(&mut self) -> Bytes {
        let outputs = (0..self.random.usize(0..4)).filter_map(|number| {
            let digest = self.ledger.a_blob(&mut self.random)?;
            Some(v2::OutputFile {
                path: format!("out/{number}"),
                digest: Some(to_proto(&digest)),
                ..v2::OutputFile::default()
            })
        });
        let output_files = outputs.collect();
        let stdout_raw = self.random.u64(..).to_string().into_bytes().into();
        let result = v2::ActionResult { output_files, stdout_raw, ..v2::ActionResult::default() };
        result.encode_to_vec().into()
    }

    async fn put_blob(&mut self, client: &Client) -> Outcome<()> {
        let content = self.noise();
        let (digest, bytes) = content.blob();
        let name = Name::Blob(digest);
        self.sends(&name, content);
        client.http("PUT", &format!("/cas/{}", digest.checksum().hex()), bytes).await?;
        self.acknowledges(&name);
        Ok(())
    }

    /// A value of ccache's kind under `/ac`, or one of Gradle; new, or in the place of another.
    async fn put_value(&mut self, client: &Client) -> Outcome<()> {
        let content = self.noise();
        let earlier = self.ledger.a_replaceable(&mut self.random);
        let path = match earlier {
            Some(Name::Value(path)) if self.random.bool() => path,
            _ if self.random.bool() => format!("/ac/{:064x}", self.random.u128(..)),
            _ => format!("/cache/{:032x}", self.random.u128(..)),
        };
        let name = Name::Value(path.clone());
        let bytes = content.bytes();
        self.sends(&name, content);
        client.http("PUT", &path, bytes).await?;
        self.acknowledges(&name);
        Ok(())
    }
}
