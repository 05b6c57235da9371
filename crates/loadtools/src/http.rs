//! As much of HTTP/1.1 as it takes to ask a server for its numbers: one request, one answer, one connection for both.

use runtime::net::TcpStream;
use std::net::SocketAddr;

/// Bytes of an answer: the numbers of a node with a thousand tables take a tenth of it.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The body that a server gives for a path. Errors: nobody answers, another status than 200, an answer that is none.
pub async fn get(server: SocketAddr, host: &str, path: &str) -> Result<String, String> {
    let told = |error: std::io::Error| error.to_string();
    let stream = TcpStream::connect(server, None).await.map_err(told)?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.send_all(head.into_bytes()).await.map_err(told)?;
    let mut received = Vec::new();
    loop {
        let bytes = stream.recv().await.map_err(told)?;
        if bytes.is_empty() {
            break;
        }
        received.extend_from_slice(&bytes);
        if received.len() > ANSWER_BYTES_MAX {
            return Err(format!("an answer of more than {ANSWER_BYTES_MAX} bytes"));
        }
    }
    let (status, body) = base::http::answer(&received)?;
    if status != 200 {
        return Err(format!("status {status}"));
    }
    String::from_utf8(body.to_vec()).map_err(|_| "an answer that is no text".into())
}
