//! A service that gives credentials, on a free port: it answers each request by a function, and keeps
//! what it was sent.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// It ends when it is dropped.
pub(crate) struct TokenService {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl TokenService {
    /// `answer` gets the number of the request, from 0, and its head and body; it returns a status
    /// and a body.
    pub(crate) async fn start(
        answer: impl Fn(usize, &str) -> (u16, String) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read(&mut stream).await;
                let number = kept.lock().unwrap().len();
                kept.lock().unwrap().push(request.clone());
                let (status, body) = answer(number, &request);
                let length = body.len();
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n");
                let text = format!("{head}Connection: close\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).await.unwrap();
            }
        });
        Self { url, requests, task }
    }

    /// Head and body of each request so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for TokenService {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(text).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    let mut body = vec![0; length.map_or(0, Result::unwrap)];
    stream.read_exact(&mut body).await.unwrap();
    head + &String::from_utf8(body).unwrap()
}
