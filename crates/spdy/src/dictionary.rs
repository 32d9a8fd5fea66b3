//! The words that compressed headers refer to before any was sent. The protocol
//! prescribes them, byte for byte.

/// Each is preceded by its length.
const WORDS: &[&str] = &[
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

/// The rest has no lengths.
const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415\
     416417502504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad \
     Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not \
     Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec \
     00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,\
     image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivate\
     max-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// Its checksum, by which those who compress name it.
pub(crate) const NAME: [u8; 4] = [0xe3, 0xc6, 0xa7, 0xc2];

pub(crate) fn dictionary() -> Vec<u8> {
    let mut all = Vec::new();
    for word in WORDS {
        // None is longer than a byte can say.
        all.extend(u32::try_from(word.len()).unwrap_or_default().to_be_bytes());
        all.extend(word.as_bytes());
    }
    all.extend(TEXT.as_bytes());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_one_that_the_protocol_prescribes() {
        // Adler-32, as zlib names dictionaries.
        let (mut low, mut high) = (1_u32, 0);
        for byte in dictionary() {
            low = (low + u32::from(byte)) % 65521;
            high = (high + low) % 65521;
        }
        assert_eq!((high << 16 | low).to_be_bytes(), NAME);
    }
}
