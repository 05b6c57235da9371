//! HTTP/1.1 as far as a tool needs it: one request, one answer, one connection for both.

use crate::error::Error;
use crate::limits;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

/// Where the node is asked.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Name or address.
    pub host: String,
    /// Port of the REST interface.
    pub port: u16,
}

/// Sends one request and waits for its answer; `parameters` go into the query string.
/// Errors: nobody answers (`Connect`), an error status (`Answer`), an answer that is none (`Failed`).
pub fn ask(
    endpoint: &Endpoint,
    method: &str,
    path: &str,
    parameters: &[(&str, &str)],
) -> Result<Vec<u8>, Error> {
    let mut stream = connect(endpoint)?;
    let failed = |error: std::io::Error| Error::Failed(format!("{}: {error}", endpoint.host));
    let query: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
    let mark = if query.is_empty() { "" } else { "?" };
    let head = format!(
        "{method} {path}{mark}{} HTTP/1.1\r\nHost: {}:{}\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
        query.join("&"),
        endpoint.host,
        endpoint.port
    );
    stream.write_all(head.as_bytes()).map_err(failed)?;
    let mut received = Vec::new();
    let most = (limits::HEAD_BYTES_MAX + limits::ANSWER_BYTES_MAX) as u64;
    stream.take(most).read_to_end(&mut received).map_err(failed)?;
    let (status, body) =
        answer(&received).map_err(|text| Error::Failed(format!("{}: {text}", endpoint.host)))?;
    if status == 200 { Ok(body) } else { Err(Error::Answer { status, message: message(&body) }) }
}

/// A value as it stands in a path or a query.
pub fn escape(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn connect(endpoint: &Endpoint) -> Result<TcpStream, Error> {
    let Endpoint { host, port } = endpoint;
    let told = |kind: &str, text: String| {
        Error::Connect(format!("Failed to connect to '{host}:{port}' - {kind}: '{text}'."))
    };
    let addresses = (host.as_str(), *port).to_socket_addrs();
    let addresses = addresses.map_err(|_| told("UnknownHostException", host.clone()))?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, limits::CONNECT) {
            Ok(stream) => {
                let wait = stream.set_read_timeout(Some(limits::ANSWER));
                wait.map_err(|error| told("SocketException", error.to_string()))?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            told("ConnectException", "Connection refused".into())
        }
        Some(error) => told("SocketException", error.to_string()),
        None => told("UnknownHostException", host.clone()),
    })
}

/// Status and body of a whole answer.
fn answer(received: &[u8]) -> Result<(u16, Vec<u8>), String> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.filter(|end| *end <= limits::HEAD_BYTES_MAX).ok_or("the answer is no HTTP")?;
    let head = std::str::from_utf8(&received[..end]).map_err(|_| "the answer is no HTTP")?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().splitn(3, ' ');
    let version = first.next().unwrap_or_default();
    let status = first.next().and_then(|status| status.parse().ok());
    let status = status.filter(|_| version.starts_with("HTTP/1.")).ok_or("the answer is no HTTP")?;
    let mut length = None;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or("a header without a colon")?;
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<usize>().map_err(|_| "an unreadable Content-Length")?);
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(format!("the answer is encoded as {}", value.trim()));
        }
    }
    let body = &received[end + 4..];
    match length {
        Some(length) if length > limits::ANSWER_BYTES_MAX => {
            Err(format!("an answer of {length} bytes, more than {}", limits::ANSWER_BYTES_MAX))
        }
        Some(length) if body.len() < length => {
            Err(format!("the answer ends after {} of {length} bytes", body.len()))
        }
        Some(length) => Ok((status, body[..length].to_vec())),
        None => Ok((status, body.to_vec())),
    }
}

/// What an error answer says: its `message`, or the whole body.
fn message(body: &[u8]) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let text = parsed.as_ref().and_then(|value| value["message"].as_str()).map(str::to_owned);
    text.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn answers_are_whole_or_refused() {
        let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue";
        assert_eq!(answer(ok), Ok((200, b"true".to_vec())));
        assert_eq!(answer(b"HTTP/1.1 200 OK\r\n\r\n"), Ok((200, Vec::new())));
        assert!(answer(&ok[..ok.len() - 1]).is_err());
        assert!(answer(b"\x15\x03\x01 200\r\n\r\n").is_err());
        assert!(answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        assert!(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n").is_err());
        assert!(answer(b"").is_err());
    }

    #[test]
    fn values_are_escaped() {
        assert_eq!(escape("ks:\"A b\"/ü"), "ks%3A%22A%20b%22%2F%C3%BC");
    }

    #[test]
    fn an_error_status_carries_the_nodes_words() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 512];
            let read = stream.read(&mut head).unwrap();
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 33\r\n\r\n{\"message\":\"no such\",\"code\":404}\n")
                .unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        let endpoint = Endpoint { host: "127.0.0.1".into(), port };
        let error = ask(&endpoint, "POST", "/x", &[("cf", "a,b")]).unwrap_err();
        assert!(error.is_not_found() && error.to_string() == "no such", "{error:?}");
        assert!(server.join().unwrap().starts_with("POST /x?cf=a%2Cb HTTP/1.1\r\n"));
    }

    #[test]
    fn nobody_there_is_said_as_cassandra_says_it() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error = ask(&Endpoint { host: "127.0.0.1".into(), port }, "GET", "/", &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("Failed to connect to '127.0.0.1:{port}' - ConnectException: 'Connection refused'.")
        );
    }
}
