//! JSON as Go writes it: fields in the order of their declaration, letters that
//! HTML minds escaped. It stands in annotations, which others compare as text.

use serde_json::Value;

use super::hash::quoted;

/// Fields of ports and of handlers, as upstream declares them. No two types
/// disagree on the order of two of them.
const ORDER: [&str; 17] = [
    "name",
    "value",
    "hostPort",
    "containerPort",
    "protocol",
    "hostIP",
    "exec",
    "httpGet",
    "tcpSocket",
    "sleep",
    "command",
    "path",
    "port",
    "host",
    "scheme",
    "httpHeaders",
    "seconds",
];

pub(super) fn go_json(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let place = |name: &str| ORDER.iter().position(|known| *known == name);
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| place(name).unwrap_or(ORDER.len()));
            let fields = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", quoted(name), go_json(value)));
            format!("{{{}}}", joined(fields))
        }
        Value::Array(items) => format!("[{}]", joined(items.iter().map(go_json))),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_stand_in_the_order_in_which_upstream_declares_them() {
        let port = json!({
            "containerPort": 80, "hostIP": "127.0.0.1", "hostPort": 8080, "name": "web",
            "protocol": "TCP",
        });
        let handler = json!({ "httpGet": {
            "host": "h", "httpHeaders": [{ "value": "v", "name": "n" }], "path": "/a?b&c",
            "port": 80, "scheme": "HTTP",
        } });
        for (object, expected) in [
            (
                json!([port]),
                r#"[{"name":"web","hostPort":8080,"containerPort":80,"protocol":"TCP","hostIP":"127.0.0.1"}]"#,
            ),
            (
                handler,
                r#"{"httpGet":{"path":"/a?b\u0026c","port":80,"host":"h","scheme":"HTTP","httpHeaders":[{"name":"n","value":"v"}]}}"#,
            ),
            (
                json!({ "exec": { "command": ["a", "<b>"] } }),
                r#"{"exec":{"command":["a","\u003cb\u003e"]}}"#,
            ),
            (
                json!({ "tcpSocket": { "host": "h", "port": "p" } }),
                r#"{"tcpSocket":{"port":"p","host":"h"}}"#,
            ),
            (
                json!({ "sleep": { "seconds": 5 } }),
                r#"{"sleep":{"seconds":5}}"#,
            ),
        ] {
            assert_eq!(go_json(&object), expected);
        }
    }
}
