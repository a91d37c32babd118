//! Applies deviations to a response without any. Each deviation changes one place of the response.

use super::content::{Content, NOW, http_date};
use super::deviation::{
    BodyLie, CloudLie, DateLie, Deviation, EncodingLie, EndLie, FramingLie, LengthLie, OpeningLie,
    RangeLie, RedirectLie, SumLie, TagLie, Unsatisfied,
};
use super::draft::{ChunkFlaw, Draft, Ending, LengthField, Opening};
use super::honest::{Stand, sums};
use super::manners::{Framing, ORIGIN, SECURE};
use super::sum::{Sum, base64};
use crate::Flavour;

/// Changes `draft`, a response of the content that `stand` has now. A deviation of the blob's bytes
/// does not change a response without them.
pub(crate) fn bend(draft: &mut Draft, deviation: Deviation, stand: &Stand<'_>) {
    let of_blob = draft.label.is_some();
    match deviation {
        Deviation::Status(status) => *draft = Draft::new(status),
        Deviation::Later(status) => {
            *draft = Draft::new(status);
            draft.add("Retry-After", "1");
        }
        Deviation::Redirect(lie) => redirect(draft, lie, stand),
        Deviation::Unsatisfied(lie) => unsatisfied(draft, lie, stand.content()),
        Deviation::Opening(lie) => opening(draft, lie),
        Deviation::End(lie) => end(draft, lie),
        Deviation::Framing(lie) => framing(draft, lie),
        Deviation::Length(lie) => length(draft, lie),
        _ if !of_blob => {}
        Deviation::ContentRange(lie) => content_range(draft, lie),
        Deviation::Encoding(lie) => encoding(draft, lie),
        Deviation::Tag(lie) => tag(draft, lie, stand),
        Deviation::Date(lie) => date(draft, lie, stand.other()),
        Deviation::Cloud(lie) => cloud(draft, lie, stand.other()),
        Deviation::Sums(lie) => checksums(draft, lie, stand),
        Deviation::Body(lie) => body(draft, lie, stand),
        _ => part(draft, deviation, stand.content()),
    }
}

/// Sends other parts of the blob than the requested ones, with a right label.
fn part(draft: &mut Draft, deviation: Deviation, content: &Content) {
    let (range, total) = (draft.range.clone(), draft.total);
    let (status, given) = match deviation {
        Deviation::WholeFor200 => (200, 0..total),
        Deviation::WholeFor206 if total > 0 => (206, 0..total),
        Deviation::PartFor200 => (200, range),
        _ if !draft.is_ranged() => return,
        Deviation::Moved(by) => {
            let start = range.start.saturating_add_signed(by).min(total.saturating_sub(1));
            (206, start..range.end.saturating_add_signed(by).clamp(start + 1, total))
        }
        Deviation::Shorter(most) => (206, range.start..range.end.min(range.start + most)),
        Deviation::Longer(more) => (206, range.start..(range.end + more).min(total)),
        Deviation::Multipart => {
            let value = "multipart/byteranges; boundary=THAT";
            draft.set("Content-Type", value);
            draft.remove("Content-Range");
            let mut body = b"--THAT\r\nContent-Range: bytes 0-0/9\r\n\r\n".to_vec();
            body.append(&mut draft.body);
            draft.body = body;
            return;
        }
        _ => return,
    };
    draft.status = status;
    draft.body = content.slice(given.start, given.end);
    draft.remove("Content-Range");
    if status == 206 {
        let last = given.end.saturating_sub(1);
        draft.add("Content-Range", format!("bytes {}-{last}/{total}", given.start));
    }
    draft.range = given;
}

fn content_range(draft: &mut Draft, lie: RangeLie) {
    if !draft.is_ranged() {
        return;
    }
    let (first, last, total) = (draft.range.start, draft.range.end - 1, draft.total);
    let text = match lie {
        RangeLie::Moved(by) => {
            let moved = |at: u64| at.saturating_add_signed(by);
            format!("bytes {}-{}/{total}", moved(first), moved(last))
        }
        RangeLie::LongerEnd(more) => format!("bytes {first}-{}/{total}", last + more),
        RangeLie::ShorterEnd(less) => {
            format!("bytes {first}-{}/{total}", last.saturating_sub(less).max(first))
        }
        RangeLie::Missing => return draft.remove("Content-Range"),
        RangeLie::Malformed => "bytes some-of/it".to_owned(),
        RangeLie::OtherUnit => format!("lines {first}-{last}/{total}"),
        RangeLie::Twice => {
            let other = format!("bytes {}-{}/{total}", first + 1, last + 1);
            return draft.add("Content-Range", other);
        }
        RangeLie::NoTotal => format!("bytes {first}-{last}/*"),
        RangeLie::OtherTotal(by) => {
            format!("bytes {first}-{last}/{}", total.saturating_add_signed(by))
        }
    };
    draft.set("Content-Range", text);
}

fn unsatisfied(draft: &mut Draft, lie: Unsatisfied, content: &Content) {
    let fields = draft.fields.clone();
    let is_head = draft.is_head;
    *draft = Draft { fields, is_head, ..Draft::new(416) };
    draft.remove("Content-Range");
    let len = match lie {
        Unsatisfied::Bare => return,
        Unsatisfied::Empty => 0,
        Unsatisfied::Right => content.len(),
        Unsatisfied::OtherLength => content.len() / 2 + 1,
    };
    draft.add("Content-Range", format!("bytes */{len}"));
}

fn redirect(draft: &mut Draft, lie: RedirectLie, stand: &Stand<'_>) {
    let asked = stand.asked;
    let plain = asked.port % SECURE;
    let location = match lie {
        RedirectLie::Mirror(port, status) => {
            *draft = Draft::new(status);
            asked.address(if asked.port >= SECURE { port + SECURE } else { port })
        }
        RedirectLie::Loop => asked.address(asked.port),
        RedirectLie::NoLocation => {
            *draft = Draft::new(302);
            return;
        }
        RedirectLie::BadLocation => "http://[nowhere".to_owned(),
        RedirectLie::Ftp => format!("ftp://localhost:{ORIGIN}/blob"),
        RedirectLie::Secure => asked.address(plain + SECURE),
        RedirectLie::Plain => asked.address(plain),
    };
    if !matches!(lie, RedirectLie::Mirror(..)) {
        *draft = Draft::new(302);
    }
    draft.add("Location", location);
}

fn length(draft: &mut Draft, lie: LengthLie) {
    let right = draft.body.len() as u64;
    draft.framing = Framing::Length;
    let says = |values: &[String]| LengthField::Says(values.to_vec());
    draft.length = match lie {
        LengthLie::Absent => {
            draft.framing = Framing::Close;
            return;
        }
        LengthLie::Less(by) => says(&[right.saturating_sub(by).to_string()]),
        LengthLie::More(by) => says(&[(right + by).to_string()]),
        LengthLie::TwiceTheSame => says(&[right.to_string(), right.to_string()]),
        LengthLie::TwiceContradictory => says(&[right.to_string(), (right + 1).to_string()]),
        LengthLie::List => says(&[format!("{right}, {right}")]),
        LengthLie::Malformed => says(&["all".to_owned()]),
        LengthLie::Negative => says(&["-1".to_owned()]),
        LengthLie::Huge => says(&["99999999999999999999999".to_owned()]),
    };
}

fn framing(draft: &mut Draft, lie: FramingLie) {
    let right = draft.body.len() as u64;
    draft.framing = match lie {
        FramingLie::UntilClose => Framing::Close,
        FramingLie::Coding(_) | FramingLie::OldHttp => Framing::Length,
        _ => Framing::Chunked,
    };
    match lie {
        FramingLie::Chunked | FramingLie::UntilClose => {}
        FramingLie::Both => draft.both = true,
        FramingLie::BothLess(by) => {
            draft.both = true;
            draft.length = LengthField::Says(vec![right.saturating_sub(by).to_string()]);
        }
        FramingLie::BothMore(by) => {
            draft.both = true;
            draft.length = LengthField::Says(vec![(right + by).to_string()]);
        }
        FramingLie::Coding(coding) | FramingLie::ChunkedAs(coding) => draft.coding = Some(coding),
        FramingLie::OldHttp | FramingLie::OldHttpChunked => draft.is_old_http = true,
        FramingLie::NotChunked => draft.flaw = Some(ChunkFlaw::Bare),
        FramingLie::BadChunkSize => draft.flaw = Some(ChunkFlaw::BadSize),
        FramingLie::NoLastChunk => draft.flaw = Some(ChunkFlaw::NoLastChunk),
        FramingLie::Trailer => draft.flaw = Some(ChunkFlaw::Trailer),
    }
}

fn encoding(draft: &mut Draft, lie: EncodingLie) {
    match lie {
        EncodingLie::Gzip => draft.set("Content-Encoding", "gzip"),
        EncodingLie::Identity => draft.set("Content-Encoding", "identity"),
        EncodingLie::Brotli => draft.set("Content-Encoding", "br"),
        EncodingLie::Decompressed => draft.set("x-goog-stored-content-encoding", "gzip"),
    }
}

fn tag(draft: &mut Draft, lie: TagLie, stand: &Stand<'_>) {
    let port = stand.asked.port;
    let own = format!("\"{}\"", stand.content().tag(port));
    let other = format!("\"{}\"", stand.other().tag(port));
    match lie {
        TagLie::Absent => draft.remove("ETag"),
        TagLie::Weak => draft.set("ETag", format!("W/{own}")),
        TagLie::Other => draft.set("ETag", other),
        TagLie::New => draft.set("ETag", format!("\"new-{}\"", stand.asked.number)),
        TagLie::Unquoted => draft.set("ETag", stand.content().tag(port)),
        TagLie::Empty => draft.set("ETag", "\"\""),
        TagLie::TwiceTheSame => {
            draft.set("ETag", own.clone());
            draft.add("ETag", own);
        }
        TagLie::TwiceContradictory => {
            draft.set("ETag", own);
            draft.add("ETag", other);
        }
    }
}

fn date(draft: &mut Draft, lie: DateLie, other: &Content) {
    match lie {
        DateLie::Absent => draft.remove("Last-Modified"),
        DateLie::Fresh => {
            draft.set("Date", http_date(NOW));
            draft.set("Last-Modified", http_date(NOW));
        }
        DateLie::AlmostFresh => {
            draft.set("Date", http_date(NOW));
            draft.set("Last-Modified", http_date(NOW - 1));
        }
        DateLie::Future => draft.set("Last-Modified", http_date(NOW + 60)),
        DateLie::Other => draft.set("Last-Modified", http_date(other.modified())),
        DateLie::Malformed => draft.set("Last-Modified", "yesterday"),
        DateLie::NoClock => draft.remove("Date"),
        DateLie::Alone => draft.remove("ETag"),
    }
}

fn cloud(draft: &mut Draft, lie: CloudLie, other: &Content) {
    match lie {
        CloudLie::NoGeneration => draft.remove("x-goog-generation"),
        CloudLie::OtherGeneration => draft.set("x-goog-generation", other.generation()),
        CloudLie::OddGeneration => draft.set("x-goog-generation", "the latest"),
        CloudLie::TwoGenerations => draft.add("x-goog-generation", other.generation()),
        CloudLie::NoVersionId => {
            draft.remove("x-amz-version-id");
            draft.remove("x-ms-version-id");
        }
        CloudLie::OtherVersionId => {
            draft.set("x-amz-version-id", other.version_id());
            draft.set("x-ms-version-id", other.version_id());
        }
        CloudLie::NullVersionId => draft.set("x-amz-version-id", "null"),
        CloudLie::StoredLength(by) => {
            let len = draft.total.saturating_add_signed(by);
            draft.set("x-goog-stored-content-length", len.to_string());
        }
    }
}

/// The fields that hold checksums of the whole.
const SUM_FIELDS: [&str; 6] = [
    "Repr-Digest",
    "Content-MD5",
    "x-goog-hash",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-sha256",
    "x-ms-blob-content-md5",
];

fn checksums(draft: &mut Draft, lie: SumLie, stand: &Stand<'_>) {
    let manners = stand.manners;
    let kinds: &[Sum] = match manners.flavour {
        Flavour::Http => &[Sum::Sha256, Sum::Crc32c],
        Flavour::Gcs => &[Sum::Crc32c],
        Flavour::S3 => &[Sum::Crc64Nvme],
        Flavour::Azure => &[Sum::Md5],
    };
    let kinds = if manners.sums.is_empty() { kinds } else { &manners.sums };
    for field in SUM_FIELDS.iter().chain(&["x-amz-checksum-type"]) {
        draft.remove(field);
    }
    let mode = Some("ENABLED");
    let wrong = |draft: &mut Draft| {
        let wrong = Content::new('W', 7, 7);
        sums(draft, manners, &wrong, kinds, mode);
    };
    let right = |draft: &mut Draft| sums(draft, manners, stand.content(), kinds, mode);
    match lie {
        SumLie::Absent => {}
        SumLie::Right => right(draft),
        SumLie::Wrong => wrong(draft),
        SumLie::Other => sums(draft, manners, stand.other(), kinds, mode),
        SumLie::RightThenWrong => {
            right(draft);
            wrong(draft);
        }
        SumLie::WrongThenRight => {
            wrong(draft);
            right(draft);
        }
        SumLie::Malformed => {
            right(draft);
            for (name, value) in &mut draft.fields {
                if SUM_FIELDS.contains(name) {
                    *value = value.replace(['=', ':'], "!");
                }
            }
        }
        SumLie::BadMember => {
            let crc = base64(&Sum::Crc32c.of(stand.content().bytes()));
            draft.add("x-goog-hash", format!("md5=short,crc32c={crc}"));
        }
        SumLie::Composite => {
            let crc = base64(&Sum::Crc32c.of(b"checksums of parts"));
            draft.add("x-amz-checksum-crc32c", format!("{crc}-2"));
            draft.add("x-amz-checksum-type", "COMPOSITE");
        }
    }
}

fn body(draft: &mut Draft, lie: BodyLie, stand: &Stand<'_>) {
    let (content, other) = (stand.content(), stand.other());
    let range = draft.range.clone();
    let fill = |draft: &mut Draft, mut bytes: Vec<u8>| {
        // The other content may be shorter: zeros fill the rest.
        bytes.resize(draft.body.len(), 0);
        draft.body = bytes;
    };
    match lie {
        BodyLie::Flip(at) => {
            let at = if range.contains(&at) { at - range.start } else { 0 };
            let at = usize::try_from(at).unwrap_or(0);
            if let Some(byte) = draft.body.get_mut(at) {
                *byte ^= 1;
            }
        }
        BodyLie::Other => fill(draft, other.slice(range.start, range.end)),
        BodyLie::Mixed => {
            let half = usize::midpoint(0, draft.body.len());
            let mut bytes = other.slice(range.start, range.end);
            bytes.resize(draft.body.len(), 0);
            bytes[..half].copy_from_slice(&draft.body[..half]);
            draft.body = bytes;
        }
        BodyLie::Zeros => fill(draft, Vec::new()),
        BodyLie::ShortBy(by) => {
            let left = (draft.body.len() as u64).saturating_sub(by);
            draft.body.truncate(usize::try_from(left).unwrap_or(0));
        }
        BodyLie::LongBy(by) => {
            let by = usize::try_from(by).unwrap_or(1);
            draft.body.extend(crate::data::pseudo_random(by, 99));
        }
        BodyLie::Empty => draft.body.clear(),
        BodyLie::Whole => draft.body = content.bytes().to_vec(),
        BodyLie::MovedBy(by) => {
            let (start, end) = (range.start + by, range.end + by);
            fill(draft, content.slice(start, end));
        }
    }
}

fn end(draft: &mut Draft, lie: EndLie) {
    let (stop, ending) = match lie {
        EndLie::CutAfter(bytes) => (bytes, Ending::Close),
        EndLie::ResetAfter(bytes) => (bytes, Ending::Reset),
        EndLie::SilentAfter(bytes) => (bytes, Ending::Silence),
        EndLie::ResetAtEnd => (u64::MAX, Ending::Reset),
    };
    draft.stop = Some(stop);
    draft.ending = ending;
}

fn opening(draft: &mut Draft, lie: OpeningLie) {
    draft.opening = match lie {
        OpeningLie::Nothing => Opening::Nothing,
        OpeningLie::Reset => {
            draft.ending = Ending::Reset;
            Opening::Nothing
        }
        OpeningLie::Garbage => Opening::Garbage,
        OpeningLie::HalfAHead => Opening::HalfAHead,
        OpeningLie::Interim(status) => Opening::Interim(status),
    };
}
