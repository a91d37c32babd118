//! One HTTP/2 connection and the calls on it.
//!
//! It uses `h2` directly. A gRPC library would not allow the faults, and would share its errors
//! with the client under test. The calls are tasks of the connection, so they end with it.

use std::sync::Arc;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinSet,
};

use super::{
    answer::Data,
    call::{self, Command},
    shared::Shared,
};

/// The window of one stream.
const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// The window of one connection: large enough that the connection is never the limit.
const CONNECTION_WINDOW_BYTES: u32 = 64 * 1024 * 1024;
/// Larger frames than the minimum of HTTP/2, for bulk data.
const FRAME_BYTES_MAX: u32 = 256 * 1024;
/// Streams that were reset and may still receive frames: tests cancel hundreds at once.
const RESET_STREAMS_MAX: usize = 16 * 1024;

pub(crate) async fn serve(
    shared: Arc<Shared>,
    number: u64,
    io: impl AsyncRead + AsyncWrite + Unpin,
) {
    let handshake = h2::server::Builder::new()
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_concurrent_streams(shared.options.streams_max)
        .max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_send_buffer_size(1024 * 1024)
        .handshake::<_, Data>(io);
    let Ok(mut connection) = handshake.await else { return };
    let (commands, mut commanded) = mpsc::unbounded_channel();
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { break };
                let shared = Arc::clone(&shared);
                calls.spawn(call::serve(shared, number, commands.clone(), request, respond));
            }
            Some(_) = calls.join_next(), if !calls.is_empty() => {}
            Some(command) = commanded.recv() => match command {
                Command::Close => break,
                Command::GoAway => connection.graceful_shutdown(),
                Command::Silence => {
                    calls.shutdown().await;
                    // The server's end ends this task.
                    std::future::pending::<()>().await;
                }
            },
        }
    }
    calls.shutdown().await;
}
