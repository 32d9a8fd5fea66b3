//! As much of HTTP/2 as it takes to answer one question about health: the frames of the
//! question are only looked at for its end, and the answer is always the same.

/// What a client begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length, kind, flags, and the number of the stream.
const HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status: 200` and `content-type: application/grpc`, as HPACK writes them without a
/// table of its own.
const BEGINNING: &[u8] = b"\x88\x0f\x10\x10application/grpc";
/// `grpc-status: 0`.
const END: &[u8] = b"\x00\x0bgrpc-status\x010";

/// Whether somebody speaks HTTP/2, as far as that can be told.
pub(super) fn is_spoken(heard: &[u8]) -> bool {
    let known = heard.len().min(PREFACE.len());
    known > 0 && heard[..known] == PREFACE[..known]
}

/// The number of the stream on which a question has come to its end.
pub(super) fn question(heard: &[u8]) -> Option<u32> {
    let mut rest = heard.get(PREFACE.len()..)?;
    loop {
        let frame = rest.first_chunk::<HEAD>()?;
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
        rest = rest.get(HEAD + usize::try_from(length).ok()?..)?;
        let (kind, flags) = (frame[3], frame[4]);
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            return frame.last_chunk().map(|number| u32::from_be_bytes(*number));
        }
    }
}

/// The answer to it.
pub(super) fn answer(stream: u32, serving: bool) -> Vec<u8> {
    let status = if serving { 1 } else { 2 };
    // Not packed, two bytes long, and in it the only field.
    let health = [0, 0, 0, 0, 2, 8, status];
    [
        frame(SETTINGS, 0, 0, &[]),
        frame(SETTINGS, ACK, 0, &[]),
        frame(HEADERS, END_HEADERS, stream, BEGINNING),
        frame(DATA, 0, stream, &health),
        frame(HEADERS, END_HEADERS | END_STREAM, stream, END),
    ]
    .concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default();
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_whole_with_the_frame_that_ends_its_stream() {
        let mut heard = PREFACE.to_vec();
        assert_eq!(question(&heard), None);
        heard.extend(frame(SETTINGS, 0, 0, &[0; 6]));
        heard.extend(frame(HEADERS, END_HEADERS, 1, b"\x83"));
        assert_eq!(question(&heard), None);
        let data = frame(DATA, END_STREAM, 1, &[0; 5]);
        heard.extend(&data[..data.len() - 1]);
        assert_eq!(question(&heard), None);
        heard.extend(&data[data.len() - 1..]);
        assert_eq!(question(&heard), Some(1));
    }

    #[test]
    fn another_protocol_is_told_by_its_first_bytes() {
        for (heard, spoken) in [
            (&b""[..], false),
            (b"P", true),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", true),
            (b"PUT / HTTP/1.1", false),
            (b"GET / HTTP/1.1", false),
        ] {
            assert_eq!(is_spoken(heard), spoken, "{heard:?}");
        }
    }
}
