//! `ByteStream.Read`.
//!
//! Data is sent without a copy: a message is a few bytes of head and a slice of a blob.

use bytes::Bytes;
use tidegate_reapi::bytestream::ReadRequest;

use super::{
    call::{Call, Stop},
    cas::joined,
    compression::compress,
    fault::Cut,
    hostile::{Content, pieces_bytes, tell_content},
    plan::{Plan, Verdict},
    resource::Resource,
    status::{Code, GrpcStatus},
};
use crate::gate::Gate;

/// The key of `ReadResponse.data`: field 10, delimited by its length.
const DATA_KEY: u8 = 0x52;
/// The length of one piece of zeros, for the fault that appends zeros.
static ZEROS: [u8; 4096] = [0; 4096];

pub(crate) async fn serve(call: &mut Call) -> Result<(), Stop> {
    let request: ReadRequest = call.request().await?;
    let resource = Resource::to_read(&request.resource_name)?;
    let hash = resource.blob.hash.clone();
    let mut plan = call.admit(vec![hash.clone()], request.read_offset).await?;
    call.check_instance(&resource.instance)?;
    if resource.zstd && !call.shared.options.zstd {
        return Err(GrpcStatus::invalid("zstd is not spoken here").into());
    }
    let pieces = call.cas.pieces(&resource.blob);
    let pieces = pieces.ok_or_else(|| {
        GrpcStatus::not_found(format!("{} is not here", resource.blob.resource()))
    })?;
    let limit = range(&request, &resource)?;
    if call.is_built() {
        return build(call, plan, &request, &resource, pieces).await;
    }
    let mut pieces = flipped(pieces, &plan.flipped);
    skip(&mut pieces, u64::try_from(request.read_offset).unwrap_or(0));
    limit_to(&mut pieces, limit);
    lengthen(&mut pieces, plan.longer);
    if resource.zstd {
        pieces = vec![compress(pieces)?];
    }
    call.shared.ledger.served(&hash);
    call.evict_after(&plan);
    if let Some(Verdict::Lost) = plan.after {
        return Err(call.condemn(Verdict::Lost).await);
    }
    stream(call, &mut plan, pieces).await?;
    match plan.after {
        Some(verdict) => Err(call.condemn(verdict).await),
        None => Ok(call.answer.begin()?),
    }
}

/// Builds the response as a whole.
async fn build(
    call: &mut Call,
    plan: Plan,
    request: &ReadRequest,
    resource: &Resource,
    pieces: Vec<Bytes>,
) -> Result<(), Stop> {
    let blob = joined(pieces);
    let place = |at: i64| usize::try_from(at).unwrap_or(usize::MAX).min(blob.len());
    let start = place(request.read_offset);
    let end = match request.read_limit {
        0 => blob.len(),
        limit => start.saturating_add(place(limit)).min(blob.len()),
    };
    let honest = blob.slice(start..end);
    let content = Content { blob, start, end, is_packed: resource.zstd };
    let mut data = match tell_content(&plan.lies, None, &content) {
        Some(data) => data,
        None if resource.zstd => compress(vec![honest])?,
        None => honest,
    };
    call.shared.ledger.served(&resource.blob.hash);
    call.evict_after(&plan);
    if let Some(verdict) = plan.after {
        return Err(call.condemn(verdict).await);
    }
    let message_bytes = pieces_bytes(&plan.lies, call.shared.options.read_message_bytes);
    call.shared.ledger.went(data.len());
    while !data.is_empty() {
        let payload = data.split_to(data.len().min(message_bytes));
        let mut message = before(payload.len());
        message.extend_from_slice(&payload);
        call.build(message.into());
    }
    Ok(())
}

/// Checks the request and returns its maximum number of bytes; `None` is all.
fn range(request: &ReadRequest, resource: &Resource) -> Result<Option<u64>, GrpcStatus> {
    let (offset, len_bytes) = (request.read_offset, resource.blob.len_bytes);
    if u64::try_from(offset).map_or(true, |offset| offset > len_bytes) {
        let message = format!("expected an offset from 0 to {len_bytes}, got {offset}");
        return Err(GrpcStatus::new(Code::OutOfRange, message));
    }
    if resource.zstd && request.read_limit != 0 {
        return Err(GrpcStatus::invalid("compressed data cannot be limited"));
    }
    match u64::try_from(request.read_limit) {
        Ok(0) => Ok(None),
        Ok(limit) => Ok(Some(limit)),
        Err(_) => Err(GrpcStatus::invalid(format!("{} is no limit", request.read_limit))),
    }
}

/// Drops the first bytes.
fn skip(pieces: &mut Vec<Bytes>, mut bytes: u64) {
    pieces.retain_mut(|piece| {
        let dropped = usize::try_from(bytes).unwrap_or(usize::MAX).min(piece.len());
        let _ = piece.split_to(dropped);
        bytes = bytes.saturating_sub(u64::try_from(dropped).unwrap_or(u64::MAX));
        !piece.is_empty()
    });
}

/// Keeps the first bytes.
fn limit_to(pieces: &mut Vec<Bytes>, limit: Option<u64>) {
    let Some(mut left) = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)) else {
        return;
    };
    pieces.retain_mut(|piece| {
        piece.truncate(left);
        left -= piece.len();
        !piece.is_empty()
    });
}

fn lengthen(pieces: &mut Vec<Bytes>, bytes: u64) {
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    while left > 0 {
        let length = left.min(ZEROS.len());
        pieces.push(Bytes::from_static(&ZEROS[..length]));
        left -= length;
    }
}

/// Flips the lowest bit of these bytes; copies only the affected pieces.
pub(crate) fn flipped(mut pieces: Vec<Bytes>, offsets: &[u64]) -> Vec<Bytes> {
    for offset in offsets {
        let mut index = usize::try_from(*offset).unwrap_or(usize::MAX);
        for piece in &mut pieces {
            if index < piece.len() {
                let mut copy = piece.to_vec();
                copy[index] ^= 1;
                *piece = copy.into();
                break;
            }
            index -= piece.len();
        }
    }
    pieces
}

/// The interruptions of a stream.
struct Interruptions<'a> {
    sent: u64,
    cut: &'a mut Option<(u64, Cut)>,
    hold: &'a mut Option<(u64, Gate)>,
}

impl Interruptions<'_> {
    /// Bytes that may go before the next one.
    fn room(&self) -> usize {
        let cut = self.cut.as_ref().map(|(bytes, _)| *bytes);
        let hold = self.hold.as_ref().map(|(bytes, _)| *bytes);
        let next = [cut, hold].into_iter().flatten().min().unwrap_or(u64::MAX);
        usize::try_from(next.saturating_sub(self.sent)).unwrap_or(usize::MAX)
    }

    fn due_hold(&mut self) -> Option<Gate> {
        let sent = self.sent;
        self.hold.take_if(|(bytes, _)| *bytes <= sent).map(|(_, gate)| gate)
    }

    fn due_cut(&mut self) -> Option<Cut> {
        let sent = self.sent;
        self.cut.take_if(|(bytes, _)| *bytes <= sent).map(|(_, cut)| cut)
    }
}

async fn stream(call: &mut Call, plan: &mut Plan, pieces: Vec<Bytes>) -> Result<(), Stop> {
    let message_bytes = call.shared.options.read_message_bytes.max(1);
    let mut marks = Interruptions { sent: 0, cut: &mut plan.cut, hold: &mut plan.hold_after };
    for mut piece in pieces {
        while !piece.is_empty() {
            if let Some(gate) = marks.due_hold() {
                call.answer.or_gone(gate.pass()).await?;
            }
            if let Some(cut) = marks.due_cut() {
                return end_early(call, cut).await;
            }
            let length = message_bytes.min(marks.room()).min(piece.len());
            let payload = piece.split_to(length);
            call.shared.ledger.went(length);
            marks.sent += u64::try_from(length).unwrap_or(u64::MAX);
            call.answer.framed(&before(length), payload).await?;
        }
    }
    if let Some(gate) = marks.due_hold() {
        call.answer.or_gone(gate.pass()).await?;
    }
    match marks.due_cut() {
        Some(cut) => end_early(call, cut).await,
        None => Ok(()),
    }
}

/// Ends a stream by a cut. Only [`Cut::End`] ends it successfully.
pub(crate) async fn end_early(call: &mut Call, cut: Cut) -> Result<(), Stop> {
    call.answer.begin()?;
    Err(match cut {
        Cut::End => return Ok(()),
        Cut::Status(status) => Stop::Status(status),
        Cut::Reset(code) => call.condemn(Verdict::Reset(code)).await,
        Cut::Close => call.condemn(Verdict::Close).await,
    })
}

/// The bytes before the data in a `ReadResponse`.
fn before(length: usize) -> Vec<u8> {
    let mut before = vec![DATA_KEY];
    prost::encoding::encode_varint(u64::try_from(length).unwrap_or(u64::MAX), &mut before);
    before
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use tidegate_reapi::bytestream::ReadResponse;

    use super::*;

    fn pieces(texts: &[&'static str]) -> Vec<Bytes> {
        texts.iter().map(|text| Bytes::from_static(text.as_bytes())).collect()
    }

    #[test]
    fn a_message_by_hand_is_a_message() {
        let payload = vec![7; 300];
        let mut message = before(payload.len());
        message.extend(&payload);
        assert_eq!(ReadResponse::decode(&message[..]).unwrap().data, payload);
    }

    #[test]
    fn a_range_of_pieces_is_a_range_of_the_whole() {
        for offset in 0..=9 {
            for limit in 1..=10 {
                let mut cut = pieces(&["abc", "defg", "hi"]);
                skip(&mut cut, offset);
                limit_to(&mut cut, Some(limit));
                let offset = usize::try_from(offset).unwrap();
                let end = (offset + usize::try_from(limit).unwrap()).min(9);
                assert_eq!(cut.concat(), b"abcdefghi"[offset..end]);
            }
        }
    }

    #[test]
    fn a_bit_is_flipped_at_its_offset() {
        assert_eq!(flipped(pieces(&["ab", "cd"]), &[2, 9]).concat(), b"abbd");
    }
}
