//! What other nodes send: hellos, verdicts, frames and their messages, pings.
//!
//! The first byte chooses what the rest is: bytes as they came, or the payload of something sound, so that magics and checksums do not hide
//! the decoders behind them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpc::fields::FieldReader;
use rpc::{
    Cut, FRAME_HEADER_BYTES, Facts, Greeting, Hello, decode_verdict, encode_message, encode_verdict, next_message,
    seal_frame, split_frame, split_greeting,
};

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    match mode % 8 {
        0 => greeting(Greeting::Hello, rest),
        1 => greeting(Greeting::Verdict, rest),
        2 => hello(rest),
        3 => verdict(rest),
        4 => frames(rest, true),
        5 => frames(rest, false),
        6 => messages(rest),
        _ => facts(rest),
    }
    fields(rest);
});

fn greeting(kind: Greeting, bytes: &[u8]) {
    match split_greeting(kind, bytes) {
        Ok(Cut::Whole(payload, size)) => {
            assert!(payload.len() < size && size <= bytes.len());
            match kind {
                Greeting::Hello => hello(payload),
                Greeting::Verdict => verdict(payload),
            }
        }
        // Never asks for bytes that are not the message's: they may be another shard's.
        Ok(Cut::Short(more)) => assert!(0 < more && more <= rpc::limits::HELLO_BYTES_MAX + 12),
        Err(_) => {}
    }
}

/// What was understood can be said again, and means the same.
fn hello(payload: &[u8]) {
    let Ok(read) = Hello::decode(payload) else { return };
    let mut again = Vec::new();
    read.encode(&mut again);
    let Ok(Cut::Whole(payload, size)) = split_greeting(Greeting::Hello, &again) else { panic!("our own") };
    assert_eq!((Hello::decode(payload).as_ref(), size), (Ok(&read), again.len()));
    let _ = read.judge(&read.node, None, read.unix_micros.wrapping_add(1));
    let _ = read.judge(&Default::default(), Some(&Default::default()), 0);
}

fn verdict(payload: &[u8]) {
    let Ok(read) = decode_verdict(payload) else { return };
    let mut again = Vec::new();
    encode_verdict(&read, &mut again);
    let Ok(Cut::Whole(payload, _)) = split_greeting(Greeting::Verdict, &again) else { panic!("our own") };
    assert_eq!(decode_verdict(payload), Ok(read));
}

fn frames(mut bytes: &[u8], checksum: bool) {
    while let Ok(Some((payload, size))) = split_frame(bytes, checksum) {
        assert_eq!(size, payload.len() + FRAME_HEADER_BYTES);
        messages(payload);
        bytes = &bytes[size..];
    }
}

fn messages(payload: &[u8]) {
    let (mut rest, mut again) = (payload, vec![0; FRAME_HEADER_BYTES]);
    let mut read = Vec::new();
    while let Ok(Some(message)) = next_message(&mut rest) {
        encode_message(&message, &mut again);
        facts(message.body);
        read.push(message);
    }
    seal_frame(0, true, &mut again);
    let Ok(Some((mut payload, size))) = split_frame(&again, true) else { panic!("our own") };
    assert_eq!(size, again.len());
    for message in read {
        assert_eq!(next_message(&mut payload), Ok(Some(message)));
    }
    assert_eq!(next_message(&mut payload), Ok(None));
}

fn facts(body: &[u8]) {
    let Ok(read) = Facts::decode(body) else { return };
    let mut again = Vec::new();
    read.encode(&mut again);
    assert_eq!(Facts::decode(&again), Ok(read));
}

/// Structs of the crates above: any order of types.
fn fields(bytes: &[u8]) {
    let mut reader = FieldReader::new("fuzz", bytes);
    for turn in 0..bytes.len().min(64) {
        let read = match bytes[turn] % 4 {
            0 => reader.u64().map(drop),
            1 => reader.u128().map(drop),
            2 => reader.text(16).map(drop),
            _ => reader.bytes().map(drop),
        };
        if read.is_err() {
            return;
        }
    }
}
