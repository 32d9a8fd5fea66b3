use http::HeaderName;

use super::*;

fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

#[test]
fn a_bearer_token_is_the_second_word_of_its_header() {
    for (header, token) in [
        ("Bearer abc", Some("abc")),
        ("bearer abc", Some("abc")),
        ("  BEARER abc  ", Some("abc")),
        ("Bearer abc def", Some("abc")),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearer  abc", None),
        ("Basic abc", None),
        ("", None),
    ] {
        let found = bearer(&headers(&[(AUTHORIZATION, header)]));
        assert_eq!(found.as_deref(), token, "{header:?}");
    }
    assert_eq!(bearer(&HeaderMap::new()), None);
}

#[test]
fn a_web_socket_may_carry_its_token_among_its_protocols() {
    let token = format!("{BEARER_PROTOCOL}{}", BASE64_URL_SAFE_NO_PAD.encode("abc"));
    let offered = |protocols: &[&str]| {
        let protocols = protocols.iter();
        let pairs: Vec<_> = protocols
            .map(|&protocol| (SEC_WEBSOCKET_PROTOCOL, protocol))
            .collect();
        subprotocol(&headers(&pairs))
    };
    let found = |others: &[&str]| {
        let others = others.iter().map(|&other| other.to_owned()).collect();
        Ok(Some(("abc".to_owned(), others)))
    };
    let both = format!("v4.channel.k8s.io, {token}");
    assert_eq!(offered(&[&both]), found(&["v4.channel.k8s.io"]));
    assert_eq!(offered(&[&token, "a,b"]), found(&["a", "b"]));
    assert_eq!(offered(&["a"]), Ok(None));
    assert_eq!(offered(&[]), Ok(None));
    assert!(offered(&[&token]).is_err());
    assert!(offered(&[&token, &token, "a"]).is_err());
    assert!(offered(&[&format!("{BEARER_PROTOCOL}a=="), "a"]).is_err());
    assert!(offered(&[&format!("{BEARER_PROTOCOL}_w"), "a"]).is_err());
    assert_eq!(offered(&[BEARER_PROTOCOL, "a"]), Ok(None));
}

#[test]
fn a_web_socket_is_known_by_two_headers() {
    for (upgrade, connection, wanted) in [
        ("websocket", "Upgrade", true),
        ("WebSocket", "keep-alive, upgrade", true),
        ("SPDY/3.1", "Upgrade", false),
        ("websocket", "keep-alive", false),
    ] {
        let headers = headers(&[(UPGRADE, upgrade), (CONNECTION, connection)]);
        assert_eq!(is_web_socket(&headers), wanted, "{upgrade} {connection}");
    }
}
