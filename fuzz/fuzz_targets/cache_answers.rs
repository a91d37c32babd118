//! What a cache answers: any status, any messages, cut anywhere. Whatever it is, calls end, what
//! they give keeps to what was asked for, and what they say of it can be shown on a terminal.

#![no_main]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arbitrary::Arbitrary;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use h2::Reason;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use tidegate::Error;
use tidegate::chunked::{ChunkStore as _, Manifest, PutRequest, SendProgress};
use tidegate::core::digest::{Digest, DigestFunction};
use tidegate::remote::reapi::{Compression, ReapiCache, ReapiOptions};
use tidegate::remote::{RemoteOptions, Remotes};
use tidegate_reapi::{bytestream, rpc, semver, v2};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

#[derive(Arbitrary, Debug)]
struct Input {
    compression: u8,
    /// Else one that can do everything.
    capabilities: Option<Answer>,
    calls: Vec<(Call, Answer)>,
}

#[derive(Arbitrary, Debug)]
enum Call {
    Missing,
    Get { blob: u8, offset: u16 },
    GetBatch,
    Put { blob: u8, resume: bool },
    PutBatch,
    Manifest { blob: u8 },
    Register,
}

#[derive(Arbitrary, Clone, Debug)]
struct Answer {
    http_status: Option<u16>,
    content_type: Option<String>,
    messages: Vec<Framed>,
    /// Bytes of one DATA frame.
    frame_bytes: u8,
    end: End,
}

#[derive(Arbitrary, Clone, Debug)]
struct Framed {
    flag: Option<u8>,
    len: Option<u32>,
    message: Message,
}

#[derive(Arbitrary, Clone, Debug)]
enum Message {
    Raw(Vec<u8>),
    Missing(Vec<Name>),
    Split {
        chunks: Vec<Name>,
        times: u16,
        function: i32,
    },
    Splice(Option<Name>),
    Batch(Vec<Blob>),
    Updated(Vec<(Option<Name>, Option<GrpcStatus>)>),
    /// These bytes of a blob.
    Read {
        blob: u8,
        from: u16,
        to: u16,
    },
    ReadBytes(Vec<u8>),
    /// A blob as zstd, from here to there.
    Packed {
        blob: u8,
        from: u8,
        to: u8,
    },
    Written(i64),
    WriteStatus {
        committed: i64,
        complete: bool,
    },
    Capabilities(Box<Capabilities>),
}

#[derive(Arbitrary, Clone, Debug)]
enum Name {
    Known(u8),
    /// With another length.
    Sized(u8, i64),
    Any(String, i64),
}

#[derive(Arbitrary, Clone, Debug)]
struct Blob {
    name: Option<Name>,
    /// Its own bytes, or these.
    data: Option<Vec<u8>>,
    compressor: i32,
    status: Option<GrpcStatus>,
}

#[derive(Arbitrary, Clone, Debug)]
struct GrpcStatus {
    code: i32,
    message: String,
    delay: Option<(i64, i32)>,
}

#[derive(Arbitrary, Clone, Debug)]
struct Capabilities {
    digest_functions: Vec<i32>,
    batch_bytes: i64,
    blob_bytes: i64,
    compressors: Vec<i32>,
    batch_compressors: Vec<i32>,
    split: bool,
    splice: bool,
    fast_cdc: Option<(u64, u32)>,
    rep_max: Option<(u64, u64)>,
    versions: [Option<(i32, i32)>; 3],
    none: bool,
}

#[derive(Arbitrary, Clone, Debug)]
enum End {
    Ok,
    Status {
        code: String,
        message: String,
        details: Option<Vec<u8>>,
    },
    Detailed(GrpcStatus),
    /// Without a word.
    Silent,
    Reset(u32),
}

const HANG: Duration = Duration::from_secs(20);

fn blobs() -> Vec<Bytes> {
    let lens = [0_usize, 1, 300, 5_000];
    lens.iter().map(|len| (0..*len).map(|at| (at % 7 * at) as u8).collect()).collect()
}

fn name(bytes: &[u8]) -> Digest {
    Digest::of(DigestFunction::Sha256, bytes)
}

fn chosen(index: u8) -> Bytes {
    let blobs = blobs();
    blobs[usize::from(index) % blobs.len()].clone()
}

impl Name {
    fn proto(&self) -> v2::Digest {
        let of = |index: u8| name(&chosen(index));
        let (hash, size_bytes) = match self {
            Self::Known(index) => (of(*index).checksum().hex(), of(*index).len as i64),
            Self::Sized(index, len) => (of(*index).checksum().hex(), *len),
            Self::Any(hash, len) => (hash.clone(), *len),
        };
        v2::Digest { hash, size_bytes }
    }
}

impl GrpcStatus {
    fn proto(&self) -> rpc::Status {
        let details = self.delay.map(|(seconds, nanos)| prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
            value: rpc::RetryInfo { retry_delay: Some(prost_types::Duration { seconds, nanos }) }
                .encode_to_vec(),
        });
        let details = details.into_iter().collect();
        rpc::Status { code: self.code, message: self.message.clone(), details }
    }
}

impl Capabilities {
    fn proto(&self) -> v2::ServerCapabilities {
        use v2::{FastCdc2020Params, RepMaxCdcParams};
        let version = |index: usize| {
            self.versions[index].map(|(major, minor)| semver::SemVer {
                major,
                minor,
                ..semver::SemVer::default()
            })
        };
        let cache = v2::CacheCapabilities {
            digest_functions: self.digest_functions.clone(),
            max_batch_total_size_bytes: self.batch_bytes,
            max_cas_blob_size_bytes: self.blob_bytes,
            supported_compressors: self.compressors.clone(),
            supported_batch_update_compressors: self.batch_compressors.clone(),
            split_blob_support: self.split,
            splice_blob_support: self.splice,
            fast_cdc_2020_params: self.fast_cdc.map(|(avg_chunk_size_bytes, seed)| {
                FastCdc2020Params { avg_chunk_size_bytes, seed }
            }),
            rep_max_cdc_params: self.rep_max.map(|(min_chunk_size_bytes, horizon_size_bytes)| {
                RepMaxCdcParams { min_chunk_size_bytes, horizon_size_bytes }
            }),
            ..v2::CacheCapabilities::default()
        };
        v2::ServerCapabilities {
            cache_capabilities: (!self.none).then_some(cache),
            deprecated_api_version: version(0),
            low_api_version: version(1),
            high_api_version: version(2),
            ..v2::ServerCapabilities::default()
        }
    }

    /// Of a cache that can do everything.
    fn all() -> Self {
        Self {
            digest_functions: vec![1, 9],
            batch_bytes: 4 << 20,
            blob_bytes: 0,
            compressors: vec![1],
            batch_compressors: vec![1],
            split: true,
            splice: true,
            fast_cdc: Some((1 << 19, 0)),
            rep_max: Some((1 << 18, 1 << 21)),
            versions: [None, Some((2, 0)), Some((2, 12))],
            none: false,
        }
    }
}

impl Message {
    fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Raw(bytes) => bytes.clone(),
            Self::Missing(names) => {
                let missing_blob_digests = names.iter().map(Name::proto).collect();
                v2::FindMissingBlobsResponse { missing_blob_digests }.encode_to_vec()
            }
            Self::Split { chunks, times, function } => {
                let once: Vec<_> = chunks.iter().map(Name::proto).collect();
                let times = usize::from(*times % 1_000) + 1;
                let answer = v2::SplitBlobResponse {
                    chunk_digests: once.iter().cycle().take(once.len() * times).cloned().collect(),
                    chunking_function: *function,
                    ..v2::SplitBlobResponse::default()
                };
                answer.encode_to_vec()
            }
            Self::Splice(made) => {
                let blob_digest = made.as_ref().map(Name::proto);
                v2::SpliceBlobResponse { blob_digest, ..Default::default() }.encode_to_vec()
            }
            Self::Batch(blobs) => {
                let one = |blob: &Blob| v2::batch_read_blobs_response::Response {
                    digest: blob.name.as_ref().map(Name::proto),
                    data: blob.data.clone().map_or_else(
                        || match &blob.name {
                            Some(Name::Known(index) | Name::Sized(index, _)) => chosen(*index),
                            _ => Bytes::new(),
                        },
                        Bytes::from,
                    ),
                    compressor: blob.compressor,
                    status: blob.status.as_ref().map(GrpcStatus::proto),
                };
                let responses = blobs.iter().map(one).collect();
                v2::BatchReadBlobsResponse { responses }.encode_to_vec()
            }
            Self::Updated(blobs) => {
                let one = |(name, status): &(Option<Name>, Option<GrpcStatus>)| {
                    v2::batch_update_blobs_response::Response {
                        digest: name.as_ref().map(Name::proto),
                        status: status.as_ref().map(GrpcStatus::proto),
                    }
                };
                let responses = blobs.iter().map(one).collect();
                v2::BatchUpdateBlobsResponse { responses }.encode_to_vec()
            }
            Self::Read { blob, from, to } => {
                let bytes = chosen(*blob);
                let (from, to) = (usize::from(*from).min(bytes.len()), usize::from(*to));
                let data = bytes.slice(from..to.clamp(from, bytes.len()));
                bytestream::ReadResponse { data }.encode_to_vec()
            }
            Self::ReadBytes(bytes) => {
                bytestream::ReadResponse { data: bytes.clone().into() }.encode_to_vec()
            }
            Self::Packed { blob, from, to } => {
                let packed = zstd::bulk::compress(&chosen(*blob), 1).unwrap_or_default();
                let from = usize::from(*from).min(packed.len());
                let to = usize::from(*to).clamp(from, packed.len());
                let data = Bytes::copy_from_slice(&packed[from..to]);
                bytestream::ReadResponse { data }.encode_to_vec()
            }
            Self::Written(committed_size) => {
                bytestream::WriteResponse { committed_size: *committed_size }.encode_to_vec()
            }
            Self::WriteStatus { committed, complete } => bytestream::QueryWriteStatusResponse {
                committed_size: *committed,
                complete: *complete,
            }
            .encode_to_vec(),
            Self::Capabilities(capabilities) => capabilities.proto().encode_to_vec(),
        }
    }
}

impl Answer {
    fn of(message: Message) -> Self {
        Self {
            http_status: None,
            content_type: None,
            messages: vec![Framed { flag: None, len: None, message }],
            frame_bytes: 0,
            end: End::Ok,
        }
    }

    fn body(&self) -> Bytes {
        let mut body = BytesMut::new();
        for framed in &self.messages {
            let message = framed.message.encoded();
            body.put_u8(framed.flag.unwrap_or(0));
            body.put_u32(framed.len.unwrap_or(message.len() as u32));
            body.put_slice(&message);
        }
        body.freeze()
    }
}

fn header(headers: &mut HeaderMap, name: &'static str, value: &[u8]) {
    // What no server's library could send is left out.
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

impl End {
    fn trailers(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        match self {
            Self::Ok => header(&mut headers, "grpc-status", b"0"),
            Self::Status { code, message, details } => {
                header(&mut headers, "grpc-status", code.as_bytes());
                header(&mut headers, "grpc-message", message.as_bytes());
                if let Some(details) = details {
                    header(&mut headers, "grpc-status-details-bin", details);
                }
            }
            Self::Detailed(status) => {
                use base64::Engine as _;
                let encoded = status.proto().encode_to_vec();
                let details = base64::engine::general_purpose::STANDARD_NO_PAD.encode(encoded);
                header(&mut headers, "grpc-status", status.code.to_string().as_bytes());
                header(&mut headers, "grpc-message", status.message.as_bytes());
                header(&mut headers, "grpc-status-details-bin", details.as_bytes());
            }
            Self::Silent | Self::Reset(_) => return None,
        }
        Some(headers)
    }
}

/// What is answered, in this order.
type Script = Arc<Mutex<VecDeque<Answer>>>;

async fn serve(listener: TcpListener, script: Script) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        tokio::spawn(connection(stream, Arc::clone(&script)));
    }
}

async fn connection(stream: tokio::net::TcpStream, script: Script) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((mut request, respond))) = connection.accept().await {
        let answer = script.lock().unwrap().pop_front();
        let answer = answer.unwrap_or_else(|| Answer::of(Message::Raw(Vec::new())));
        tokio::spawn(async move {
            let flow = request.body_mut().flow_control().clone();
            let mut flow = flow;
            let reading = async {
                while let Some(Ok(bytes)) = request.body_mut().data().await {
                    let _ = flow.release_capacity(bytes.len());
                }
            };
            tokio::join!(reading, give(respond, &answer));
        });
    }
}

async fn give(mut respond: h2::server::SendResponse<Bytes>, answer: &Answer) {
    let mut response = Response::new(());
    if let Some(status) = answer.http_status.and_then(|it| http::StatusCode::from_u16(it).ok())
        && !status.is_informational()
    {
        *response.status_mut() = status;
    }
    let content_type = answer.content_type.as_deref().unwrap_or("application/grpc");
    header(response.headers_mut(), "content-type", content_type.as_bytes());
    let mut body = answer.body();
    let trailers = answer.end.trailers();
    if body.is_empty()
        && let Some(trailers) = &trailers
    {
        response.headers_mut().extend(trailers.clone());
        let _ = respond.send_response(response, true);
        return;
    }
    let Ok(mut stream) = respond.send_response(response, false) else { return };
    let frame_bytes = match answer.frame_bytes {
        0 => usize::MAX,
        bytes => usize::from(bytes),
    };
    // What a stream's window holds, and no answer here is longer than some of them.
    while !body.is_empty() {
        let frame = body.split_to(body.len().min(frame_bytes));
        if stream.send_data(frame, false).is_err() {
            return;
        }
    }
    match (&answer.end, trailers) {
        (End::Reset(code), _) => stream.send_reset(Reason::from(*code)),
        (_, Some(trailers)) => {
            let _ = stream.send_trailers(trailers);
        }
        (_, None) => {
            let _ = stream.send_data(Bytes::new(), true);
        }
    }
}

fn assert_shown(error: &Error) {
    let chain = error.chain();
    assert!(!chain.is_empty() && !chain.chars().any(char::is_control), "{chain:?}");
}

async fn call(cache: &ReapiCache, call: &Call) {
    let all = blobs();
    let names: Vec<Digest> = all.iter().map(|bytes| name(bytes)).collect();
    let outcome = match call {
        Call::Missing => cache.missing(&names).await.map(|missing| {
            assert!(missing.iter().all(|one| names.contains(one) && one.len > 0));
            assert!(missing.len() < names.len());
        }),
        Call::Get { blob, offset } => get(cache, &name(&chosen(*blob)), u64::from(*offset)).await,
        Call::GetBatch => cache.get_batch(&names).await.map(|answers| {
            assert_eq!(answers.len(), names.len());
            for (answer, name) in answers.into_iter().zip(&names) {
                match answer {
                    Ok(Some(bytes)) => assert_eq!(bytes.len() as u64, name.len),
                    Ok(None) => {}
                    Err(error) => assert_shown(&error),
                }
            }
        }),
        Call::Put { blob, resume } => {
            let bytes = chosen(*blob);
            let request = PutRequest {
                digest: name(&bytes),
                upload_id: "00112233445566778899aabbccddeeff".to_owned(),
                resume: *resume,
                source: Arc::new(bytes),
            };
            cache.put(&request).await
        }
        Call::PutBatch => {
            let chunks: Vec<_> = names.iter().copied().zip(all).collect();
            cache.put_batch(&chunks, &SendProgress::default()).await.map(|answers| {
                assert_eq!(answers.len(), chunks.len());
                answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(assert_shown);
            })
        }
        Call::Manifest { blob } => {
            let name = name(&chosen(*blob));
            cache.manifest(&name, None).await.map(|manifest| {
                let Some(manifest) = manifest else { return };
                assert_eq!(manifest.blob(), &name);
                let sum: u64 = manifest.chunks().iter().map(|chunk| chunk.len).sum();
                assert_eq!(sum, name.len);
                assert!(manifest.chunks().iter().all(|chunk| chunk.len > 0));
            })
        }
        Call::Register => {
            let manifest = Manifest::new(names[3], vec![names[3]], None).unwrap();
            cache.register(&manifest).await.map(|_| ())
        }
    };
    if let Err(error) = outcome {
        assert_shown(&error);
    }
}

async fn get(cache: &ReapiCache, name: &Digest, offset: u64) -> tidegate::Result<()> {
    let asked = name.len - offset.min(name.len);
    let mut body = cache.get(name, offset).await?;
    let mut came = 0;
    while let Some(piece) = body.next().await {
        let piece = piece?;
        came += piece.len() as u64;
        assert!(!piece.is_empty() && came <= asked, "{came} of {asked}");
    }
    assert_eq!(came, asked, "a body that ends without an error is whole");
    Ok(())
}

struct Bed {
    runtime: Runtime,
    script: Script,
    url: String,
}

impl Bed {
    fn new() -> Self {
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

    fn run(&self, input: &Input) {
        let compression = [Compression::Never, Compression::Auto, Compression::Always]
            [usize::from(input.compression % 3)];
        let reapi = ReapiOptions { compression, connections_max: 1, ..ReapiOptions::default() };
        let remotes = Remotes::new(RemoteOptions { reapi, ..RemoteOptions::default() });
        let (cache, _) = remotes.cache(&self.url).unwrap();
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
                    call(&cache, asked).await;
                }
            };
            tokio::time::timeout(HANG, all).await.expect("it waits for what never comes");
        });
    }

    /// What comes next, whatever was left.
    fn answer(&self, answer: Answer) {
        let mut script = self.script.lock().unwrap();
        script.clear();
        script.push_back(answer);
    }
}

thread_local! {
    static BED: RefCell<Bed> = RefCell::new(Bed::new());
}

fuzz_target!(|input: Input| BED.with_borrow(|bed| bed.run(&input)));
