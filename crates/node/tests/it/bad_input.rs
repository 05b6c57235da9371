//! Bytes that no client sends: each gets the right error, or the connection ends; the node goes on.

use crate::harness::*;
use protocol::assembler::Assembler;
use protocol::envelope::{Direction, Version};
use protocol::response::Response;
use runtime::net::TcpStream;
use std::time::Duration;

/// What came back: error codes with their texts, then whether the node closed the connection.
struct Answers {
    errors: Vec<(i32, String)>,
    others: usize,
    first_byte: Option<u8>,
    closed: bool,
}

/// Sends bytes and collects what comes back within a while.
async fn send(parts: &[&[u8]]) -> Answers {
    let stream = TcpStream::connect(native(), None).await.unwrap();
    for part in parts {
        stream.send_all(part.to_vec()).await.unwrap();
    }
    let mut assembler = Assembler::new(Direction::Responses, 1 << 28);
    let mut answers = Answers { errors: Vec::new(), others: 0, first_byte: None, closed: false };
    while let Ok(received) = runtime::timeout(Duration::from_secs(2), stream.recv()).await {
        match received {
            Ok(bytes) if !bytes.is_empty() => {
                answers.first_byte.get_or_insert(bytes[0]);
                assembler.push(&bytes);
            }
            Ok(_) | Err(_) => {
                answers.closed = true;
                break;
            }
        }
        while let Ok(Some(envelope)) = assembler.next() {
            let (header, body) = (envelope.header, envelope.body);
            match Response::decode(&header, body).unwrap() {
                Response::Error(failure) => answers.errors.push((failure.kind.code(), failure.message)),
                Response::Ready if header.version == Version::V5 => {
                    answers.others += 1;
                    assembler.use_segments();
                }
                _ => answers.others += 1,
            }
        }
    }
    answers
}

fn startup(version: u8) -> Vec<u8> {
    let mut bytes = vec![version, 0, 0, 1, 1, 0, 0, 0, 0x16, 0, 1];
    for text in ["CQL_VERSION", "3.0.0"] {
        bytes.extend_from_slice(&(text.len() as u16).to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];

#[test]
fn versions_nobody_speaks_are_refused_in_ours() {
    let mut stage = stage(31, 2);
    stage.play(async {
        for version in [0x07, 0x06, 0x41, 0x42, 0x7f] {
            let answers = send(&[&[version, 0, 0, 0, 5, 0, 0, 0, 0]]).await;
            assert_eq!(answers.first_byte, Some(0x85), "{version}");
            assert_eq!(answers.errors[0].0, 0x000A);
            assert!(
                answers.errors[0].1.contains("Invalid or unsupported protocol version"),
                "{:?}",
                answers.errors
            );
            assert!(answers.closed);
        }
    });
}

#[test]
fn the_order_of_messages_is_kept() {
    let mut stage = stage(32, 2);
    stage.play(async {
        let query = [
            4, 0, 0, 2, 7, 0, 0, 0, 0x0f, 0, 0, 0, 8, b'S', b'E', b'L', b'E', b'C', b'T', b' ', b'1', 0, 1, 0,
        ];
        let early = send(&[&query, &OPTIONS]).await;
        assert_eq!(early.errors[0].0, 0x000A);
        assert!(early.errors[0].1.contains("expecting STARTUP or OPTIONS"), "{:?}", early.errors);
        assert_eq!(early.others, 1, "OPTIONS is still answered");
        let twice = send(&[&startup(4), &startup(4), &OPTIONS]).await;
        assert_eq!((twice.errors.len(), twice.others), (1, 2));
        let unknown =
            send(&[&startup(4), &[4, 0, 0, 3, 0x77, 0, 0, 0, 0], &[4, 0, 0, 3, 8, 0, 0, 0, 0], &OPTIONS])
                .await;
        assert_eq!((unknown.errors.len(), unknown.others), (2, 2));
        assert!(unknown.errors.iter().all(|(code, _)| *code == 0x000A));
    });
}

#[test]
fn startup_is_checked() {
    let mut stage = stage(33, 1);
    stage.play(async {
        let without_version = send(&[&[4, 0, 0, 1, 1, 0, 0, 0, 2, 0, 0]]).await;
        assert!(without_version.errors[0].1.contains("CQL_VERSION"), "{:?}", without_version.errors);
        let mut snappy = vec![5, 0, 0, 1, 1, 0, 0, 0, 0, 0, 2];
        for text in ["CQL_VERSION", "3.0.0", "COMPRESSION", "snappy"] {
            snappy.extend_from_slice(&(text.len() as u16).to_be_bytes());
            snappy.extend_from_slice(text.as_bytes());
        }
        snappy[8] = (snappy.len() - 9) as u8;
        let refused = send(&[&snappy]).await;
        assert_eq!(refused.errors[0].1, "Snappy compression is not supported in protocol V5");
        snappy[0] = 3;
        let taken = send(&[&snappy]).await;
        assert_eq!((taken.errors.len(), taken.others), (0, 1));
    });
}

#[test]
fn broken_frames_end_the_connection_with_a_reason() {
    let mut stage = stage(34, 2);
    stage.play(async {
        // A first frame that announces too much, and a later one above the limit of the node.
        let first = send(&[&[4, 0, 0, 0, 5, 0x7f, 0, 0, 0]]).await;
        assert!(first.closed && first.errors[0].0 == 0x000A);
        let later = send(&[&startup(4), &[4, 0, 0, 1, 7, 0x10, 0, 0, 0]]).await;
        assert!(later.closed && later.errors[0].1.contains("exceeds maximum"), "{:?}", later.errors);
        // A segment whose checksum is wrong.
        let mut segment = vec![9, 0, 2, 0xa4, 0xc8, 0xc1, 5, 0, 0, 0, 5, 0, 0, 0, 0, 0x10, 0x86, 0x28, 0x4d];
        let intact = send(&[&startup(5), &segment]).await;
        assert_eq!((intact.errors.len(), intact.others), (0, 2));
        segment[10] ^= 1;
        let broken = send(&[&startup(5), &segment]).await;
        assert!(broken.closed);
        // Half a frame, then silence: nothing is answered, and the node serves others.
        let half = send(&[&startup(4), &[4, 0, 0, 1, 7, 0, 0]]).await;
        assert_eq!((half.errors.len(), half.others), (0, 1));
        make_kv(&connect().await).await;
    });
}

#[test]
fn malformed_bodies_are_answered_and_the_connection_goes_on() {
    let mut stage = stage(35, 2);
    stage.play(async {
        let cases: [&[u8]; 6] = [
            // QUERY: cut in its text, not UTF-8, unknown consistency, a value of length -3.
            &[4, 0, 0, 2, 7, 0, 0, 0, 5, 0, 0, 0, 9, b'S'],
            &[4, 0, 0, 2, 7, 0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0, 1, 0],
            &[4, 0, 0, 2, 7, 0, 0, 0, 8, 0, 0, 0, 1, b'x', 0, 99, 0],
            &[4, 0, 0, 2, 7, 0, 0, 0, 14, 0, 0, 0, 1, b'x', 0, 1, 1, 0, 1, 0xff, 0xff, 0xff, 0xfd],
            // EXECUTE without anything, REGISTER of an unknown event.
            &[4, 0, 0, 2, 10, 0, 0, 0, 0],
            &[4, 0, 0, 2, 11, 0, 0, 0, 5, 0, 1, 0, 1, b'X'],
        ];
        for case in cases {
            let mut case = case.to_vec();
            let length = (case.len() - 9) as u8;
            case[8] = length;
            let answers = send(&[&startup(4), &case, &OPTIONS]).await;
            assert_eq!(answers.errors.len(), 1, "{case:?}");
            assert_eq!(answers.errors[0].0, 0x000A, "{case:?}: {:?}", answers.errors);
            assert_eq!(answers.others, 2, "{case:?}");
        }
        let unknown_id = send(&[&startup(4), &[4, 0, 0, 2, 10, 0, 0, 0, 7, 0, 2, 1, 2, 0, 1, 0]]).await;
        assert_eq!(unknown_id.errors[0].0, 0x2500);
    });
}

#[test]
fn a_client_that_never_reads_is_cut_and_others_are_served() {
    let mut stage = stage(36, 1);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let large = "x".repeat(1 << 20);
        run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES (1, '{large}')")).await;
        let deaf = TcpStream::connect(native(), None).await.unwrap();
        deaf.send_all(startup(4)).await.unwrap();
        let text = b"SELECT v FROM ks.kv WHERE k = 1";
        let mut request = vec![4, 0, 0, 2, 7, 0, 0, 0, (4 + text.len() + 3) as u8, 0, 0, 0, text.len() as u8];
        request.extend_from_slice(text);
        request.extend_from_slice(&[0, 1, 0]);
        for _ in 0..200 {
            if runtime::timeout(Duration::from_secs(1), deaf.send_all(request.clone())).await.is_err() {
                break;
            }
        }
        runtime::sleep(Duration::from_secs(80)).await;
        let listed = rows(&connection, "SELECT address FROM system_views.clients").await;
        assert_eq!(listed.rows.len(), 1, "the deaf client is gone");
        drop(deaf);
    });
}
