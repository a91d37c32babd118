//! Sends a [`Reply`] with its delays.

use std::time::Duration;

use super::super::{
    answer::Gone,
    call::{Call, Command},
    plan::Verdict,
};
use super::lie::Part;
use super::reply::{End, Reply};

/// The sent part of an unfinished message: a flag, a length of 100, and fewer bytes.
const DANGLING: [u8; 100] = {
    let mut bytes = [0; 100];
    bytes[4] = 100;
    bytes
};

impl Reply {
    /// Sends it. A call whose end never comes ends when its client gives up.
    pub(crate) async fn deliver(mut self, call: &mut Call) -> Result<(), Gone> {
        if self.goes_away {
            call.command(Command::GoAway);
        }
        self.wait(call, Part::Head).await?;
        let is_short = self.messages.is_empty() && self.dangling == 0;
        if let (true, End::Trailers(trailers)) = (is_short, &self.end) {
            // A response without messages is its head alone; see "Trailers-Only" in gRPC over
            // HTTP/2.
            let trailers = trailers.clone();
            self.wait(call, Part::End).await?;
            for (name, value) in &trailers {
                self.head.append(name, value.clone());
            }
            return call.answer.open(self.http, std::mem::take(&mut self.head), true);
        }
        call.answer.open(self.http, std::mem::take(&mut self.head), false)?;
        for index in 0..self.messages.len() {
            self.wait(call, Part::Message(u8::try_from(index).unwrap_or(u8::MAX))).await?;
            let framed = Self::framed(&self.messages[index]);
            self.data(call, framed).await?;
        }
        let dangling = &DANGLING[..usize::from(self.dangling).min(DANGLING.len())];
        self.data(call, bytes::Bytes::from_static(dangling)).await?;
        self.wait(call, Part::End).await?;
        self.finish(call).await
    }

    async fn data(&self, call: &mut Call, mut data: bytes::Bytes) -> Result<(), Gone> {
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(self.data_bytes_max));
            call.answer.raw(piece).await?;
        }
        Ok(())
    }

    async fn finish(self, call: &mut Call) -> Result<(), Gone> {
        match self.end {
            End::Trailers(trailers) => call.answer.close(Some(trailers)),
            End::Silent => call.answer.close(None),
            End::Reset(code) => Err(call.condemned(Verdict::Reset(code)).await),
            End::Close => Err(call.condemned(Verdict::Close).await),
            End::Silence => Err(call.condemned(Verdict::Silence).await),
            End::Never => Err(call.condemned(Verdict::Lost).await),
        }
    }

    async fn wait(&self, call: &mut Call, part: Part) -> Result<(), Gone> {
        let due = self.late.iter().filter(|(late, _)| *late == part);
        let ms: u64 = due.map(|(_, ms)| *ms).fold(0, u64::saturating_add);
        if ms == 0 {
            return Ok(());
        }
        call.answer.or_gone(tokio::time::sleep(Duration::from_millis(ms))).await
    }
}
