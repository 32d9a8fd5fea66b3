//! Answers in words that two servers share: what each makes up by itself is named by when it was
//! first seen, and what only tells the time is left out.

use serde_json::Value;

/// Times of this year were given by a test, and have to come back.
pub(crate) const GIVEN_YEAR: &str = "2020-";

/// What a server puts five letters of its own behind: volumes for tokens, and names that the
/// sequences leave to it.
const LETTERED: [&str; 2] = ["kube-api-access-", MADE];
pub(crate) const MADE: &str = "made-by-server-";
const LETTERS: usize = 5;

/// What comes before a revision in upstream's words.
const RECORD: &str = "ResourceVersion in record (";

/// What was seen of one server, in order.
#[derive(Debug, Default)]
pub(crate) struct Normal {
    uids: Vec<String>,
    versions: Vec<String>,
}

impl Normal {
    pub(crate) fn answer(&mut self, mut body: Value) -> Value {
        let kind = body["kind"].as_str().unwrap_or_default();
        let is_many = kind.ends_with("List") || kind == "Table";
        self.settle(&mut body, is_many);
        if kind_is(&body, "Table") {
            table(&mut body);
        }
        // Upstream's typed lists leave out what all their objects are; ours do not.
        if kind_is_list(&body) {
            for item in body["items"].as_array_mut().into_iter().flatten() {
                if let Some(fields) = item.as_object_mut() {
                    fields.remove("apiVersion");
                    fields.remove("kind");
                }
            }
        }
        body
    }

    /// Of a watch.
    pub(crate) fn change(&mut self, mut change: Value) -> Value {
        if change["type"] == "BOOKMARK" {
            // Of an object that is none: only what it marks counts, and not at which revision.
            let annotations = change["object"]["metadata"]["annotations"].clone();
            change["object"] = annotations;
            return change;
        }
        self.settle(&mut change["object"], false);
        if kind_is(&change["object"], "Table") {
            table(&mut change["object"]);
        }
        change
    }

    /// `any_version`: other clients of the server move it.
    fn settle(&mut self, body: &mut Value, any_version: bool) {
        if any_version && let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
            if let Some(token) = metadata.get_mut("continue") {
                *token = "(how it goes on)".into();
            }
        }
        if body["kind"] == "Status" {
            plain(&mut body["message"]);
            if let Some(Value::Array(causes)) = body.pointer_mut("/details/causes") {
                for cause in causes.iter_mut() {
                    plain(&mut cause["message"]);
                }
                once(causes);
            }
        }
        self.walk("", body);
    }

    fn walk(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("managedFields");
                // The CA is each cluster's own.
                if fields.get("kind").is_none_or(|kind| kind == "ConfigMap")
                    && let Some(Value::Object(data)) = fields.get_mut("data")
                    && data.contains_key("ca.crt")
                {
                    data.insert("ca.crt".to_owned(), "(its CA)".into());
                }
                let mut names: Vec<String> = fields.keys().cloned().collect();
                names.sort();
                for name in names {
                    if let Some(value) = fields.get_mut(&name) {
                        self.walk(&name, value);
                    }
                }
            }
            Value::Array(list) => {
                for item in list {
                    self.walk(key, item);
                }
            }
            Value::String(text) => *text = self.text(key, text),
            _ => {}
        }
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        if key == "resourceVersion" {
            return format!("(revision {})", place(&mut self.versions, text));
        }
        if text.parse::<jiff::Timestamp>().is_ok() && !text.starts_with(GIVEN_YEAR) {
            return "(a time)".to_owned();
        }
        // Upstream tells where its storage has the object, too.
        let told = text
            .split_once("StorageError: ")
            .zip(text.split_once("AdditionalErrorMsg: "));
        let mut text = match told {
            Some(((before, _), (_, after))) => format!("{before}{after}"),
            None => text.to_owned(),
        };
        text = without_letters(&text);
        while let Some(start) = uid_in(&text) {
            let uid = text[start..start + UID].to_owned();
            let name = format!("(uid {})", place(&mut self.uids, &uid));
            text.replace_range(start..start + UID, &name);
        }
        if key == "message" {
            text = self.with_versions(&text);
        }
        text
    }

    /// Revisions between other words. What is in a server's record need not have been told before.
    fn with_versions(&mut self, text: &str) -> String {
        if let Some((before, rest)) = text.split_once(RECORD)
            && let Some((version, after)) = rest.split_once(')')
        {
            let number = place(&mut self.versions, version);
            let before = self.with_versions(before);
            return format!("{before}{RECORD}(revision {number}){after}");
        }
        let mut before = "";
        let words = text.split(' ').map(|word| {
            // What upstream says of names cites one, which may be a revision as well.
            let is_standard = std::mem::replace(&mut before, word) == "RFC";
            let bare = word.trim_matches(|letter: char| ",.()".contains(letter));
            let known = self.versions.iter().position(|version| version == bare);
            match known {
                Some(number) if !bare.is_empty() && !is_standard => {
                    word.replace(bare, &format!("(revision {number})"))
                }
                _ => word.to_owned(),
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

fn kind_is_list(body: &Value) -> bool {
    ["ConfigMapList", "PodList"]
        .iter()
        .any(|kind| kind_is(body, kind))
}

fn kind_is(body: &Value, kind: &str) -> bool {
    body["kind"] == kind
}

/// Where it stands among those that were seen, itself included.
fn place(seen: &mut Vec<String>, text: &str) -> usize {
    let known = seen.iter().position(|other| other == text);
    known.unwrap_or_else(|| {
        seen.push(text.to_owned());
        seen.len() - 1
    })
}

/// Upstream quotes whole objects, in the order of its own fields, and goes on with a difference of
/// its own types in Go's syntax.
fn plain(message: &mut Value) {
    if let Some(text) = message.as_str() {
        let first = text.lines().next().unwrap_or_default();
        let quoted = first
            .split_once("Invalid value: \"{")
            .zip(first.rsplit_once("}\": "));
        *message = match quoted {
            Some(((before, _), (_, after))) => format!("{before}Invalid value: {{}}: {after}"),
            None => first.to_owned(),
        }
        .into();
    }
}

/// Upstream looks at metadata up to four times when an object changes, and lists what it finds as
/// often.
fn once(causes: &mut Vec<Value>) {
    let mut told: Vec<Value> = Vec::new();
    causes.retain(|cause| {
        let new = !told.contains(cause);
        told.push(cause.clone());
        new
    });
}

fn without_letters(text: &str) -> String {
    let mut text = text.to_owned();
    for before in LETTERED {
        let parts: Vec<&str> = text.split(before).collect();
        let rest = parts.iter().skip(1).map(|part| {
            let letters = part.bytes().take_while(u8::is_ascii_alphanumeric).count();
            let cut = if letters >= LETTERS { LETTERS } else { 0 };
            format!("{before}{}", &part[cut..])
        });
        text = parts[0].to_owned() + &rest.collect::<String>();
    }
    text
}

/// Letters of a uid.
const UID: usize = 36;

fn uid_in(text: &str) -> Option<usize> {
    let is_uid = |letters: &[u8]| {
        letters.iter().enumerate().all(|(at, letter)| match at {
            8 | 13 | 18 | 23 => *letter == b'-',
            _ => letter.is_ascii_hexdigit(),
        })
    };
    text.as_bytes().windows(UID).position(is_uid)
}

/// The columns are told in words of our own, and how old something is changes while one looks.
fn table(table: &mut Value) {
    let mut age = None;
    let columns = table["columnDefinitions"].as_array_mut();
    for (at, column) in columns.into_iter().flatten().enumerate() {
        column["description"] = Value::Null;
        if column["name"] == "Age" {
            age = Some(at);
        }
    }
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        if let Some(cell) = age.and_then(|at| row["cells"].get_mut(at)) {
            *cell = "(an age)".into();
        }
    }
}

#[test]
fn what_a_server_makes_up_is_named_by_when_it_was_seen() {
    let mut normal = Normal::default();
    let uid = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";
    let object = serde_json::json!({
        "kind": "Pod",
        "metadata": {"name": "made-by-server-x7k2p", "uid": uid, "resourceVersion": "17",
            "creationTimestamp": "2026-01-02T03:04:05Z", "managedFields": []},
        "spec": {"volumes": [{"name": "kube-api-access-abcde"}]},
        "status": {"startTime": "2020-01-02T03:04:05Z"},
    });
    let settled = serde_json::json!({
        "kind": "Pod",
        "metadata": {"name": "made-by-server-", "uid": "(uid 0)", "resourceVersion": "(revision 0)",
            "creationTimestamp": "(a time)"},
        "spec": {"volumes": [{"name": "kube-api-access-"}]},
        "status": {"startTime": "2020-01-02T03:04:05Z"},
    });
    assert_eq!(normal.answer(object), settled);
    let refused =
        serde_json::json!({"kind": "Status", "message": format!("not {uid} at 17, but 18\nmore")});
    let settled =
        serde_json::json!({"kind": "Status", "message": "not (uid 0) at (revision 0), but 18"});
    assert_eq!(normal.answer(refused), settled);
    let cited = serde_json::json!({"kind": "Status", "message": "a name as in RFC 17"});
    assert_eq!(normal.answer(cited.clone()), cited);
}
