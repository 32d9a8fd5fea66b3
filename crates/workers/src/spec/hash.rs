//! What tells whether a running container is still the one that the spec means.

use std::fmt::Write;

use k8s_openapi::api::core::v1::Container;

/// The hash of a container's name and image, as upstream computes it: FNV-1a over
/// Go's picture of the bytes of a JSON object. A node that changes its agent keeps
/// its containers.
pub fn container_hash(container: &Container) -> u64 {
    let image = container.image.as_deref().unwrap_or_default();
    let json = format!(
        "{{\"image\":{},\"name\":{}}}",
        quoted(image),
        quoted(&container.name)
    );
    let mut picture = String::from("([]uint8)[");
    for (index, byte) in json.bytes().enumerate() {
        let space = if index == 0 { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(picture, "{space}{byte}");
    }
    picture.push(']');
    u64::from(fnv_1a(picture.as_bytes()))
}

/// As it stands in the annotation.
pub fn hash_text(container: &Container) -> String {
    format!("{:x}", container_hash(container))
}

/// Go's JSON is fit for HTML.
pub(super) fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let escape =
        |text: String, letter: char| text.replace(letter, &format!("\\u{:04x}", u32::from(letter)));
    ['&', '<', '>', '\u{2028}', '\u{2029}']
        .into_iter()
        .fold(json, escape)
}

fn fnv_1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::testing::container;

    #[test]
    fn other_resources_make_no_other_container() {
        let of = |cpu: &str| {
            let resources = json!({ "requests": { "cpu": cpu } });
            container(&json!({ "name": "c", "image": "i", "resources": resources }))
        };
        assert_eq!(hash_text(&of("1")), hash_text(&of("2")));
    }

    #[test]
    fn the_hash_is_upstreams() {
        let container = container(&json!({ "name": "test_container", "image": "foo/image:v1" }));
        assert_eq!(hash_text(&container), "8e45cbd0");
    }

    #[test]
    fn only_name_and_image_count() {
        let hash = |fields| container_hash(&container(&fields));
        let plain = hash(json!({}));
        assert_eq!(
            hash(json!({ "command": ["x"], "env": [{ "name": "A" }] })),
            plain
        );
        assert_ne!(hash(json!({ "image": "example/app:2" })), plain);
        assert_ne!(hash(json!({ "name": "other" })), plain);
    }

    #[test]
    fn letters_that_html_minds_are_escaped() {
        assert_eq!(
            quoted("a<b>&\"\u{2028}"),
            r#""a\u003cb\u003e\u0026\"\u2028""#
        );
    }
}
