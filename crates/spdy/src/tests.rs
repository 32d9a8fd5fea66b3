use bytes::{Bytes, BytesMut};
use flate2::{Decompress, FlushDecompress};
use proptest::prelude::*;

use super::*;

/// What a server writes, in one of the ways in which it can.
#[derive(Clone, Debug)]
enum Sent {
    Event(Event),
    /// What a client does not read: kind and length.
    Noise(u16, usize),
}

fn control(kind: u16, flags: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let kind = kind.to_be_bytes();
    let mut frame = vec![
        0x80, 3, kind[0], kind[1], flags, length[1], length[2], length[3],
    ];
    frame.extend(body);
    frame
}

fn written(sent: &Sent) -> Vec<u8> {
    let number = |number: &u32| number.to_be_bytes();
    match sent {
        Sent::Event(Event::Accepted { stream, last }) => {
            let body = [&number(stream)[..], b"compressed"].concat();
            control(2, (*last).into(), &body)
        }
        Sent::Event(Event::Data {
            stream,
            piece,
            last,
        }) => {
            let head = data_head(*stream, piece.len(), *last);
            [&head[..], piece].concat()
        }
        Sent::Event(Event::Reset { stream }) => {
            let frame = control(3, 0, &[&number(stream)[..], &number(&5)].concat());
            assert_eq!(frame, reset(*stream));
            frame
        }
        Sent::Event(Event::Opened { .. }) => Vec::new(),
        Sent::Event(Event::Ping { number }) => ping(*number).to_vec(),
        Sent::Event(Event::GoAway) => {
            let frame = control(7, 0, &[0; 8]);
            assert_eq!(frame, go_away());
            frame
        }
        Sent::Noise(kind, length) => control(*kind, 0, &vec![0; *length]),
    }
}

fn any_sent() -> impl Strategy<Value = Sent> {
    let stream = 1..0x7fff_ffff_u32;
    prop_oneof![
        (stream.clone(), any::<bool>())
            .prop_map(|(stream, last)| Sent::Event(Event::Accepted { stream, last })),
        (
            stream.clone(),
            prop::collection::vec(any::<u8>(), 0..300),
            any::<bool>()
        )
            .prop_map(|(stream, piece, last)| {
                let piece = Bytes::from(piece);
                Sent::Event(Event::Data {
                    stream,
                    piece,
                    last,
                })
            }),
        stream.prop_map(|stream| Sent::Event(Event::Reset { stream })),
        (1..u32::MAX).prop_map(|number| Sent::Event(Event::Ping { number })),
        Just(Sent::Event(Event::GoAway)),
        (
            prop_oneof![Just(4_u16), Just(8), Just(9), 10..u16::MAX],
            0..200_usize
        )
            .prop_map(|(kind, length)| Sent::Noise(kind, length)),
    ]
}

/// Pieces of one frame put together again.
fn joined(events: Vec<Event>) -> Vec<Event> {
    let mut joined: Vec<Event> = Vec::new();
    let mut open = false;
    for event in events {
        match (event, joined.last_mut()) {
            (
                Event::Data {
                    stream,
                    piece,
                    last,
                },
                Some(Event::Data {
                    stream: before,
                    piece: whole,
                    last: whole_last,
                }),
            ) if open && stream == *before => {
                *whole = [&whole[..], &piece].concat().into();
                *whole_last = last;
            }
            (event, _) => joined.push(event),
        }
        open = true;
    }
    joined
}

proptest! {
    #[test]
    fn what_a_server_sends_is_heard_however_it_comes(
        sent in prop::collection::vec(any_sent(), 0..20),
        cut in 1..400_usize,
    ) {
        // Two frames of one stream in a row would be told from pieces of one by nobody.
        let mut sent = sent;
        sent.dedup_by(|a, b| matches!(
            (a, b),
            (Sent::Event(Event::Data { .. }), Sent::Event(Event::Data { .. }))
        ));
        let mut noise_between = Vec::new();
        for one in sent {
            noise_between.push(one);
            noise_between.push(Sent::Event(Event::GoAway));
        }
        let bytes: Vec<u8> = noise_between.iter().flat_map(written).collect();
        let mut decoder = Decoder::of_server();
        let mut read = BytesMut::new();
        let mut heard = Vec::new();
        for piece in bytes.chunks(cut) {
            read.extend_from_slice(piece);
            while let Some(event) = decoder.next(&mut read).unwrap() {
                heard.push(event);
            }
            prop_assert!(read.len() < 16, "{} bytes are kept", read.len());
        }
        let events = noise_between.into_iter().filter_map(|one| match one {
            Sent::Event(event) => Some(event),
            Sent::Noise(..) => None,
        });
        prop_assert_eq!(joined(heard), events.collect::<Vec<_>>());
    }

    #[test]
    fn bytes_that_mean_nothing_do_no_harm(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..50),
        begin in prop::collection::vec(any_sent(), 0..3),
    ) {
        let mut decoder = Decoder::of_server();
        let mut read: BytesMut = begin.iter().flat_map(written).collect();
        'all: for piece in pieces {
            read.extend_from_slice(&piece);
            loop {
                match decoder.next(&mut read) {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
            prop_assert!(read.len() < 16);
        }
    }
}

#[test]
fn frames_that_no_server_sends_are_refused() {
    let refused = |bytes: &[u8]| {
        Decoder::of_server()
            .next(&mut BytesMut::from(bytes))
            .unwrap_err()
    };
    assert_eq!(
        refused(&[0x80, 2, 0, 6, 0, 0, 0, 4]),
        FrameError::Version(2)
    );
    assert_eq!(refused(&data_head(0, 5, false)), FrameError::NoStream);
    assert_eq!(refused(&control(1, 0, &[0; 10])), FrameError::Opened);
    for (kind, length) in [(2, 3), (3, 7), (3, 9), (6, 3), (6, 5), (7, 4)] {
        let error = refused(&control(kind, 0, &vec![1; length]));
        let length = u32::try_from(length).unwrap();
        assert_eq!(error, FrameError::Length { kind, length });
    }
    assert_eq!(refused(&control(3, 0, &[0; 8])), FrameError::NoStream);
}

#[test]
fn headers_are_readable_for_every_decompressor() {
    let mut encoder = Encoder::default();
    let mut decompressor = Decompress::new(false);
    let long = "x".repeat(70_000);
    for (stream, kind) in [(1, "error"), (3, "stdin"), (5, long.as_str())] {
        let mut frame = Vec::new();
        encoder.open(stream, &[("streamtype", kind)], &mut frame);
        assert_eq!(frame[..5], [0x80, 3, 0, 1, 0]);
        let length = u32::from_be_bytes([0, frame[5], frame[6], frame[7]]) as usize;
        assert_eq!(frame.len(), 8 + length);
        assert_eq!(frame[8..12], u32::to_be_bytes(stream));
        assert_eq!(frame[12..18], [0; 6]);
        let mut block = &frame[18..];
        if stream == 1 {
            // Deflate, a dictionary, a checksum of these two bytes; and which dictionary.
            assert_eq!(block[0], 0x78);
            assert_eq!(block[1] & 0x20, 0x20);
            assert_eq!(u16::from_be_bytes([block[0], block[1]]) % 31, 0);
            assert_eq!(block[2..6], 0xe3c6_a7c2_u32.to_be_bytes());
            block = &block[6..];
        }
        let mut plain = Vec::with_capacity(100_000);
        let flush = FlushDecompress::Sync;
        decompressor
            .decompress_vec(block, &mut plain, flush)
            .unwrap();
        let count = |length: usize| u32::try_from(length).unwrap().to_be_bytes();
        let expected = [
            &count(1)[..],
            &count(10),
            b"streamtype",
            &count(kind.len()),
            kind.as_bytes(),
        ];
        assert!(plain == expected.concat(), "{stream}");
    }
}

/// What Go's library writes for the streams of `kubectl exec -it`: packed in earnest.
const PACKED: &[(u32, &[u8], &str)] = &[
    (
        1,
        b"\x78\xf9\xe3\xc6\xa7\xc2\x62\x60\x60\x60\x04\xa7\xb3\x92\xa2\xd4\xc4\x5c\x68\x51\xc2\x9a\x0a\x0a\x68\x00\x00\x00\x00\xff\xff",
        "error",
    ),
    (
        3,
        b"\xc2\x2e\x55\x5c\x92\x92\x99\x07\x00\x00\x00\xff\xff",
        "stdin",
    ),
    (
        5,
        b"\xc2\x2a\xc5\x56\x5c\x92\x92\x5f\x5a\x02\x00\x00\x00\xff\xff",
        "stdout",
    ),
    (
        7,
        b"\xc2\x2e\x57\x94\x5a\x9c\x59\x95\x0a\x00\x00\x00\xff\xff",
        "resize",
    ),
];

#[test]
fn what_a_client_opens_is_heard_by_a_server() {
    let mut encoder = Encoder::default();
    let mut written = Vec::new();
    encoder.open(1, &[("streamtype", "error")], &mut written);
    let pair = [("streamType", "data"), ("Port", "80"), ("requestID", "0")];
    encoder.open(3, &pair, &mut written);
    encoder.open(5, &[], &mut written);
    let heard = |cut: usize| {
        let (mut decoder, mut read) = (Decoder::of_client().unwrap(), BytesMut::new());
        let mut heard = Vec::new();
        for piece in written.chunks(cut) {
            read.extend_from_slice(piece);
            while let Some(event) = decoder.next(&mut read).unwrap() {
                heard.push(event);
            }
        }
        heard
    };
    let opened = |stream, headers| Event::Opened {
        stream,
        headers,
        last: false,
    };
    let pair = [("streamtype", "data"), ("port", "80"), ("requestid", "0")];
    let expected = [
        opened(1, Headers::from([("streamtype", "error")])),
        opened(3, Headers::from(pair)),
        opened(5, Headers::default()),
    ];
    for cut in [1, 7, 1000] {
        assert_eq!(heard(cut), expected, "{cut}");
    }
}

#[test]
fn headers_that_go_has_packed_are_read() {
    let mut decoder = Decoder::of_client().unwrap();
    assert!(!PACKED.is_empty());
    for (stream, block, kind) in PACKED {
        let body = [&stream.to_be_bytes()[..], &[0; 6], *block].concat();
        let mut read = BytesMut::from(&*control(1, 0, &body));
        let event = decoder.next(&mut read).unwrap();
        let Some(Event::Opened { headers, .. }) = event else {
            panic!("{event:?}");
        };
        assert_eq!(headers.get("streamtype"), Some(*kind));
    }
}

#[test]
fn an_accepted_stream_is_heard_by_a_client() {
    let (mut encoder, mut written) = (Encoder::default(), Vec::new());
    encoder.accept(1, &mut written);
    encoder.accept(3, &mut written);
    let (mut decoder, mut read) = (Decoder::of_server(), BytesMut::from(&*written));
    for stream in [1, 3] {
        let last = false;
        let event = decoder.next(&mut read).unwrap();
        assert_eq!(event, Some(Event::Accepted { stream, last }));
    }
}

#[test]
fn headers_that_nobody_means_are_refused() {
    let refused = |block: &[u8]| {
        let body = [&1_u32.to_be_bytes()[..], &[0; 6], block].concat();
        let mut read = BytesMut::from(&*control(1, 0, &body));
        Decoder::of_client().unwrap().next(&mut read).unwrap_err()
    };
    let named = |rest: &[u8]| [&[0x78, 0x20, 0xe3, 0xc6, 0xa7, 0xc2], rest].concat();
    let stored = |plain: &[u8]| {
        let length = u16::try_from(plain.len()).unwrap();
        let head = [&[0][..], &length.to_le_bytes(), &(!length).to_le_bytes()].concat();
        named(&[&head, plain].concat())
    };
    for block in [
        vec![],
        // Another dictionary.
        vec![0x78, 0x20, 1, 2, 3, 4, 0, 0, 0, 0xff, 0xff],
        // No block of this kind.
        named(&[0x07]),
        // A name that is longer than all there is.
        stored(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, b'x']),
        // More than was announced.
        stored(&[0, 0, 0, 0, 1]),
    ] {
        assert_eq!(refused(&block), FrameError::Headers, "{block:?}");
    }
    // A bomb: 40 times 258 bytes and more of nothing, in a few of packed ones.
    let mut packer = flate2::Compress::new(flate2::Compression::best(), false);
    let mut bomb = Vec::with_capacity(10_000);
    let flush = flate2::FlushCompress::Sync;
    packer
        .compress_vec(&vec![0; 1_000_000], &mut bomb, flush)
        .unwrap();
    assert_eq!(refused(&named(&bomb)), FrameError::Headers);
}
