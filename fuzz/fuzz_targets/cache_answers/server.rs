//! A cache that sends the script's responses, regardless of the requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::Reason;
use http::Response;
use tokio::net::TcpListener;

use crate::answer::{Answer, End, header};
use crate::message::Message;

/// The responses, in the order of sending.
pub(crate) type Script = Arc<Mutex<VecDeque<Answer>>>;

pub(crate) async fn serve(listener: TcpListener, script: Script) {
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
    // No check of the stream's window: `h2` buffers the rest, and no response is longer than a few
    // windows.
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
