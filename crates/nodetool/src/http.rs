//! HTTP/1.1 as far as a tool needs it: one request, one answer, one connection for both.

use crate::error::Error;
use crate::limits;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

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
    let (status, body) = exchange(endpoint, method, path, parameters, limits::ANSWER)?;
    if status == 200 { Ok(body) } else { Err(Error::Answer { status, message: message(status, &body) }) }
}

/// Asks for what every node tells at once, and nothing else does. Errors: `Connect`, whatever is there instead.
pub fn greet(endpoint: &Endpoint, path: &str) -> Result<(), Error> {
    let Endpoint { host, port } = endpoint;
    let stranger = |why: &str| Error::Connect(format!("Failed to connect to '{host}:{port}' - {why}."));
    match exchange(endpoint, "GET", path, &[], limits::GREETING) {
        Ok((200, body)) if serde_json::from_slice::<String>(&body).is_ok() => Ok(()),
        Err(error @ Error::Connect(_)) => Err(error),
        Err(Error::Silent) => Err(stranger("SocketTimeoutException: 'Read timed out'")),
        Ok(_) | Err(_) => Err(stranger("ConnectIOException: 'no REST interface at remote endpoint'")),
    }
}

fn exchange(
    endpoint: &Endpoint,
    method: &str,
    path: &str,
    parameters: &[(&str, &str)],
    timeout: Duration,
) -> Result<(u16, Vec<u8>), Error> {
    let mut stream = connect(endpoint, timeout)?;
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Silent,
        _ => Error::Failed(format!("{}: {error}", endpoint.host)),
    };
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
    let most = (base::http::HEAD_BYTES_MAX + limits::ANSWER_BYTES_MAX) as u64;
    stream.take(most).read_to_end(&mut received).map_err(failed)?;
    let (status, body) =
        base::http::answer(&received).map_err(|text| Error::Failed(format!("{}: {text}", endpoint.host)))?;
    Ok((status, body.to_vec()))
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

fn connect(endpoint: &Endpoint, timeout: Duration) -> Result<TcpStream, Error> {
    let Endpoint { host, port } = endpoint;
    let told = |kind: &str, text: String| {
        Error::Connect(format!("Failed to connect to '{host}:{port}' - {kind}: '{text}'."))
    };
    // No name is this machine.
    let name = if host.is_empty() { "localhost" } else { host };
    let addresses = (name, *port).to_socket_addrs();
    let addresses = addresses.map_err(|_| told("UnknownHostException", host.clone()))?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, limits::CONNECT) {
            Ok(stream) => {
                let wait = stream.set_read_timeout(Some(timeout));
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

/// What an error answer says: its `message`, or the whole body; never nothing.
fn message(status: u16, body: &[u8]) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let text = parsed.as_ref().and_then(|value| value["message"].as_str()).map(str::to_owned);
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned());
    if text.is_empty() { format!("the node answered with HTTP status {status} and no words") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

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

    /// What greeting a server that answers like this ends in.
    fn greeted(answer: &'static [u8]) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 512]).unwrap() > 0);
            stream.write_all(answer).unwrap();
        });
        let result = greet(&Endpoint { host: "127.0.0.1".into(), port }, "/storage_service/release_version");
        server.join().unwrap();
        result.map_err(|error| {
            assert!(matches!(error, Error::Connect(_)), "{error:?}");
            error.to_string().replace(&port.to_string(), "P")
        })
    }

    #[test]
    fn whoever_is_no_node_is_said_not_to_be_there() {
        assert_eq!(greeted(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n\"5.0.6\""), Ok(()));
        let stranger = "Failed to connect to '127.0.0.1:P' - ConnectIOException: 'no REST interface at remote endpoint'.";
        for answer in [
            &b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            b"\x83\0\0\0\0\0\0\0\0",
            b"",
        ] {
            assert_eq!(greeted(answer), Err(stranger.into()));
        }
    }

    #[test]
    fn an_error_is_never_without_words() {
        assert_eq!(message(404, b""), "the node answered with HTTP status 404 and no words");
        assert_eq!(
            message(500, b"{\"message\":\"\"}"),
            "the node answered with HTTP status 500 and no words"
        );
        assert_eq!(message(502, b" bad gateway\n"), "bad gateway");
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
