//! An answer of HTTP/1.1 as its bytes: for clients that ask once and read to the end.

/// Bytes of a head: no server of ours sends a tenth of it.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Status and body of a whole answer. Errors: what is wrong with it, in a few words; what is encoded in chunks is refused.
pub fn answer(received: &[u8]) -> Result<(u16, &[u8]), String> {
    let end = received.windows(4).take(HEAD_BYTES_MAX).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or("the answer is no HTTP")?;
    let head = core::str::from_utf8(&received[..end]).map_err(|_| "the answer is no HTTP")?;
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
        Some(length) if body.len() < length => {
            Err(format!("the answer ends after {} of {length} bytes", body.len()))
        }
        Some(length) => Ok((status, &body[..length])),
        None => Ok((status, body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_whole_or_refused() {
        let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue";
        assert_eq!(answer(ok), Ok((200, &b"true"[..])));
        assert_eq!(answer(b"HTTP/1.1 200 OK\r\n\r\n"), Ok((200, &b""[..])));
        assert!(answer(&ok[..ok.len() - 1]).is_err());
        assert!(answer(b"\x15\x03\x01 200\r\n\r\n").is_err());
        assert!(answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        assert!(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n").is_err());
        assert!(answer(b"").is_err());
    }
}
