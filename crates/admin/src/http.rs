//! As much of HTTP/1.1 as scrapers and operators' tools need: one request in, one answer out, connections kept open.

/// One request, its body left out: everything asked for stands in the first line.
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
    /// Whether a browser sent it for some page: nothing here is for pages.
    pub from_page: bool,
}

impl Request {
    /// The parts of the path between its slashes, unescaped; `None` when they are not UTF-8.
    pub fn segments(&self) -> Option<Vec<String>> {
        self.path.split('/').skip(1).map(|part| unescape(part, false)).collect()
    }

    /// The value of a parameter of the query, unescaped; empty when it has none.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if unescape(key, true)? == name { unescape(value, true) } else { None }
        })
    }

    /// Whether a parameter is `true`.
    pub fn is_on(&self, name: &str) -> bool {
        self.parameter(name).as_deref() == Some("true")
    }
}

/// Replaces `%41` by what it stands for, and in queries `+` by a blank; `None` when the result is not UTF-8.
fn unescape(text: &str, plus_is_blank: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', ..) if plus_is_blank => out.push(b' '),
            _ => out.push(*byte),
        }
        at += 1;
    }
    String::from_utf8(out).ok()
}

use crate::limits::BODY_BYTES_MAX;

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

/// Finds one request at the start of `bytes`, and passes over its body.
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
    let (mut body, mut from_page) = (0, false);
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return Parsed::Malformed;
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("connection") {
            keep_alive = !value.eq_ignore_ascii_case("close");
        }
        // Pages that are not of this port: a link or a picture of theirs has no origin, but says where it comes from.
        from_page |= name.eq_ignore_ascii_case("origin")
            || (name.eq_ignore_ascii_case("sec-fetch-site") && !value.eq_ignore_ascii_case("none"));
        if name.eq_ignore_ascii_case("content-length") {
            match value.parse::<usize>() {
                Ok(length) if length <= BODY_BYTES_MAX => body = length,
                Ok(_) | Err(_) => return Parsed::Malformed,
            }
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Parsed::Malformed;
        }
    }
    let end = end + 4 + body;
    if bytes.len() < end {
        return Parsed::Incomplete;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (method, path, query) = (method.into(), path.into(), query.into());
    Parsed::Request(Request { method, path, query, keep_alive, from_page }, end)
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
        for head in ["Content-Length: 9999999999", "Content-Length: -1", "Transfer-Encoding: chunked"] {
            let text = format!("POST / HTTP/1.1\r\n{head}\r\n\r\n");
            assert_eq!(parse(text.as_bytes()), Parsed::Malformed, "{head}");
        }
    }

    #[test]
    fn bodies_are_passed_over() {
        let bytes = b"POST /a HTTP/1.1\r\nContent-Length: 5\r\nOrigin: http://x\r\n\r\nhelloGET";
        for cut in 0..bytes.len() - 3 {
            assert_eq!(parse(&bytes[..cut]), Parsed::Incomplete, "{cut}");
        }
        let Parsed::Request(request, end) = parse(bytes) else { panic!("no request") };
        assert_eq!(&bytes[end..], b"GET");
        assert!(request.from_page);
    }

    #[test]
    fn what_a_browser_sends_for_a_page_is_known() {
        for (header, expected) in [
            ("Origin: null", true),
            ("Sec-Fetch-Site: cross-site", true),
            ("sec-fetch-site: same-site", true),
            ("Sec-Fetch-Site: none", false),
            ("Accept: */*", false),
        ] {
            let text = format!("GET /a HTTP/1.1\r\n{header}\r\n\r\n");
            let Parsed::Request(request, _) = parse(text.as_bytes()) else { panic!("no request") };
            assert_eq!(request.from_page, expected, "{header}");
        }
    }

    #[test]
    fn paths_and_queries_are_unescaped() {
        let bytes = b"GET /x/a%2Fb+c/%zz%4?tag=a+b%26c&sf&=&kn=%ff HTTP/1.1\r\n\r\n";
        let Parsed::Request(request, _) = parse(bytes) else { panic!("no request") };
        assert_eq!(request.segments().expect("UTF-8"), ["x", "a/b+c", "%zz%4"]);
        assert_eq!(request.parameter("tag").as_deref(), Some("a b&c"));
        assert_eq!(request.parameter("sf").as_deref(), Some(""));
        assert_eq!((request.parameter("kn"), request.parameter("none")), (None, None));
    }
}
