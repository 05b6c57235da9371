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
    let most = (base::http::HEAD_BYTES_MAX + limits::ANSWER_BYTES_MAX) as u64;
    stream.take(most).read_to_end(&mut received).map_err(failed)?;
    let (status, body) =
        base::http::answer(&received).map_err(|text| Error::Failed(format!("{}: {text}", endpoint.host)))?;
    if status == 200 { Ok(body.to_vec()) } else { Err(Error::Answer { status, message: message(body) }) }
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
