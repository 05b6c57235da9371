//! As much of HTTP/1.1 as a scraper needs: one request head in, one answer out, connections kept open.

/// One request, its body (which GET has none of) left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Such as `GET`.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The query without its `?`, still escaped.
    pub query: String,
    /// Whether the connection stays open after the answer.
    pub keep_alive: bool,
}

/// What the bytes received so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// The head is not complete yet.
    Incomplete,
    /// One request that ends at this many bytes.
    Request(Request, usize),
    /// Not HTTP/1; the connection is to be closed.
    Malformed,
}

/// Finds one request head at the start of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
        return Parsed::Incomplete;
    };
    let Ok(head) = str::from_utf8(&bytes[..end]) else {
        return Parsed::Malformed;
    };
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or("").split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (first.next(), first.next(), first.next(), first.next())
    else {
        return Parsed::Malformed;
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Parsed::Malformed;
    }
    let mut keep_alive = version == "HTTP/1.1";
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return Parsed::Malformed;
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("connection") {
            keep_alive = !value.eq_ignore_ascii_case("close");
        }
        // A body would have to be read over; nothing here takes one.
        if name.eq_ignore_ascii_case("transfer-encoding")
            || (name.eq_ignore_ascii_case("content-length") && value != "0")
        {
            return Parsed::Malformed;
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = Request { method: method.into(), path: path.into(), query: query.into(), keep_alive };
    Parsed::Request(request, end + 4)
}

/// Builds an answer.
pub fn answer(status: &str, content_type: &str, body: &str, keep_alive: bool) -> Vec<u8> {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_found_wherever_it_is_cut() {
        let bytes = b"GET /metrics?__name__=a* HTTP/1.1\r\nHost: x\r\n\r\nGET";
        for cut in 0..bytes.len() - 3 {
            assert_eq!(parse(&bytes[..cut]), Parsed::Incomplete, "{cut}");
        }
        let Parsed::Request(request, end) = parse(bytes) else { panic!("no request") };
        assert_eq!((request.path.as_str(), request.query.as_str()), ("/metrics", "__name__=a*"));
        assert!(request.keep_alive);
        assert_eq!(&bytes[end..], b"GET");
    }

    #[test]
    fn close_and_old_versions_end_the_connection() {
        let closing = |text: &str| match parse(text.as_bytes()) {
            Parsed::Request(request, _) => !request.keep_alive,
            other => panic!("{other:?}"),
        };
        assert!(closing("GET / HTTP/1.0\r\n\r\n"));
        assert!(closing("GET / HTTP/1.1\r\nconnection: Close\r\n\r\n"));
    }

    #[test]
    fn other_bytes_are_malformed() {
        for text in
            ["\x16\x03\x01\r\n\r\n", "GET /\r\n\r\n", "GET x HTTP/1.1\r\n\r\n", "GET / HTTP/2\r\n\r\n"]
        {
            assert_eq!(parse(text.as_bytes()), Parsed::Malformed, "{text:?}");
        }
        assert_eq!(parse(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"), Parsed::Malformed);
    }
}
