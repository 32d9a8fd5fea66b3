//! From the JSON of a request to an object as upstream would store and print it: what
//! it does not know is taken away and named, what is empty goes or stays as Go has it,
//! quantities and times are written in their canonical form.

use serde_json::{Map, Value};
use thiserror::Error;

use super::values;
use super::{Field, Presence, Shape, Struct, schema};
use crate::kinds::Kind;

/// Why a text is no object of its kind, in upstream's words.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// An object, and what was not understood in it.
#[derive(Debug)]
pub struct Decoded {
    pub object: Value,
    /// Paths of fields that the type does not have: `spec.containers[0].imagee`.
    pub unknown: Vec<String>,
}

/// Reads an object of a kind of the table.
pub fn decode(kind: &str, object: Value) -> Result<Decoded, DecodeError> {
    let Some(root) = schema().root(kind) else {
        return Err(DecodeError(format!("no kind {kind:?} is registered")));
    };
    let Value::Object(fields) = object else {
        let found = values::word(&object);
        let message = format!("json: cannot unmarshal {found} into Go value of type v1.{kind}");
        return Err(DecodeError(message));
    };
    let mut reader = Reader::default();
    let object = reader.structure(root, fields)?;
    Ok(Decoded {
        object,
        unknown: reader.unknown,
    })
}

/// The same for an object of our own making, of which everything is known.
pub fn tidy(kind: &str, object: Value) -> Result<Value, DecodeError> {
    decode(kind, object).map(|decoded| decoded.object)
}

/// What a strict reader says of fields that are not known, or are there twice; a reader
/// that warns sends each as a warning.
pub fn strict_findings(unknown: &[String], duplicates: &[String]) -> Vec<String> {
    let duplicates = duplicates
        .iter()
        .map(|path| format!("duplicate field {path:?}"));
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    duplicates.chain(unknown).collect()
}

/// All of them as one error.
pub fn strict_error(findings: &[String]) -> String {
    format!("strict decoding error: {}", findings.join(", "))
}

/// The message of the refusal of a body that is no object of its kind.
pub fn not_handled(kind: &Kind, error: &str) -> String {
    format!(
        "{} in version {:?} cannot be handled as a {}: {error}",
        kind.kind, kind.version, kind.kind
    )
}

/// Where a reader is, and what it met.
#[derive(Default)]
struct Reader {
    path: Vec<Step>,
    unknown: Vec<String>,
}

enum Step {
    /// The name of the field and of the type that has it.
    Field(&'static str, &'static str),
    Key(String),
    Index(usize),
}

impl Reader {
    fn structure(
        &mut self,
        of: &'static Struct,
        mut given: Map<String, Value>,
    ) -> Result<Value, DecodeError> {
        let mut written = Map::new();
        for field in &of.fields {
            self.path.push(Step::Field(field.name, of.short_name()));
            if let Some(value) = self.field(field, given.remove(field.name))? {
                written.insert(field.name.to_owned(), value);
            }
            self.path.pop();
        }
        for name in given.keys() {
            let path = self.printed_path();
            let dot = if path.is_empty() { "" } else { "." };
            self.unknown.push(format!("{path}{dot}{name}"));
        }
        Ok(Value::Object(written))
    }

    /// What is written of a field, if it is.
    fn field(
        &mut self,
        field: &'static Field,
        given: Option<Value>,
    ) -> Result<Option<Value>, DecodeError> {
        let value = self.value(&field.shape, given.unwrap_or_default())?;
        let written = match field.presence {
            Presence::Always => true,
            Presence::NotEmpty => !is_empty(&field.shape, &value),
            Presence::NotZero => value != self.value(&field.shape, Value::Null)?,
        };
        Ok(written.then_some(value))
    }

    fn value(&mut self, shape: &'static Shape, given: Value) -> Result<Value, DecodeError> {
        match (shape.plain(), given) {
            (Shape::Struct(name), Value::Null) => self.named(name, Map::new()),
            (Shape::Struct(name), Value::Object(fields)) => self.named(name, fields),
            (Shape::Pointer(_) | Shape::List(_) | Shape::Map(_), Value::Null) => Ok(Value::Null),
            (Shape::Pointer(target), given) => self.value(target, given),
            (Shape::List(inner), Value::Array(items)) => self.list(inner, items),
            (Shape::Map(inner), Value::Object(entries)) => self.map(inner, entries),
            (Shape::Raw, given) => Ok(given),
            (plain, given) => match values::leaf(plain, given) {
                Ok(value) => Ok(value),
                Err(values::Wrong::Type(found)) => Err(self.wrong_type(&found, shape)),
                Err(values::Wrong::Text(message)) => Err(DecodeError(message)),
            },
        }
    }

    fn named(
        &mut self,
        name: &'static str,
        fields: Map<String, Value>,
    ) -> Result<Value, DecodeError> {
        match schema().get(name) {
            Some(found) => self.structure(found, fields),
            // A test holds that every name is in the table.
            None => Ok(Value::Object(fields)),
        }
    }

    /// An empty list does not live through upstream's store: it becomes none.
    fn list(&mut self, inner: &'static Shape, items: Vec<Value>) -> Result<Value, DecodeError> {
        if items.is_empty() {
            return Ok(Value::Null);
        }
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            self.path.push(Step::Index(index));
            list.push(self.value(inner, item)?);
            self.path.pop();
        }
        Ok(Value::Array(list))
    }

    fn map(
        &mut self,
        inner: &'static Shape,
        entries: Map<String, Value>,
    ) -> Result<Value, DecodeError> {
        if entries.is_empty() {
            return Ok(Value::Null);
        }
        let mut map = Map::new();
        for (key, value) in entries {
            self.path.push(Step::Key(key.clone()));
            map.insert(key, self.value(inner, value)?);
            self.path.pop();
        }
        Ok(Value::Object(map))
    }

    /// `spec.containers[0]`.
    fn printed_path(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Index(index) => path.extend(["[", &index.to_string(), "]"]),
                Step::Field(name, _) => join(&mut path, name),
                Step::Key(name) => join(&mut path, name),
            }
        }
        path
    }

    fn wrong_type(&self, found: &str, shape: &Shape) -> DecodeError {
        let mut names = Vec::new();
        let mut owner = "";
        for step in &self.path {
            if let Step::Field(name, of) = step {
                names.push(*name);
                owner = of;
            }
        }
        let path = names.join(".");
        let wanted = values::go_type(shape);
        DecodeError(format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}"
        ))
    }
}

fn join(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Whether Go's `omitempty` leaves it out.
fn is_empty(shape: &Shape, value: &Value) -> bool {
    match shape.plain() {
        Shape::Text | Shape::Bytes => value.as_str() == Some(""),
        Shape::Bool => value.as_bool() == Some(false),
        Shape::Int32 | Shape::Int64 => value.as_i64() == Some(0),
        Shape::List(_) | Shape::Map(_) | Shape::Pointer(_) | Shape::Raw => value.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decoded(kind: &str, object: Value) -> (Value, Vec<String>) {
        let decoded = decode(kind, object).unwrap();
        (decoded.object, decoded.unknown)
    }

    #[test]
    fn what_is_empty_goes_or_stays_as_go_has_it() {
        let pod = json!({
            "metadata": {"name": "a", "labels": {}, "creationTimestamp": null},
            "spec": {
                "nodeName": "", "hostNetwork": false, "automountServiceAccountToken": false,
                "volumes": [{"name": "v", "emptyDir": {}}],
                "securityContext": {"runAsUser": 0},
                "containers": [{"name": "c", "image": "", "args": []}],
            },
        });
        let expected = json!({
            "metadata": {"name": "a"},
            "spec": {
                "automountServiceAccountToken": false,
                "volumes": [{"name": "v", "emptyDir": {}}],
                "securityContext": {"runAsUser": 0},
                "containers": [{"name": "c", "resources": {}}],
            },
            "status": {},
        });
        assert_eq!(decoded("Pod", pod), (expected, vec![]));
        let (node, _) = decoded("Node", json!({"metadata": {"name": "n"}}));
        assert_eq!(
            node["status"]["daemonEndpoints"],
            json!({"kubeletEndpoint": {"Port": 0}})
        );
        assert_eq!(node["status"]["nodeInfo"]["architecture"], "");
        assert_eq!(node["spec"], json!({}));
        let (csi, _) = decoded(
            "CSINode",
            json!({"metadata": {"name": "n"}, "spec": {"drivers": []}}),
        );
        assert_eq!(csi["spec"], json!({"drivers": null}));
        let (event, _) = decoded("Event", json!({"metadata": {"name": "e"}}));
        assert_eq!(
            (&event["firstTimestamp"], &event["eventTime"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(event["involvedObject"], json!({}));
    }

    #[test]
    fn quantities_and_times_are_canonical() {
        let (pod, _) = decoded(
            "Pod",
            json!({"metadata": {"creationTimestamp": "2024-01-02T03:04:05.678+01:00"}, "spec": {"containers": [
                {"name": "a", "resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}, "limits": {"cpu": 1}}}]}}),
        );
        assert_eq!(pod["metadata"]["creationTimestamp"], "2024-01-02T02:04:05Z");
        let resources = &pod["spec"]["containers"][0]["resources"];
        assert_eq!(
            *resources,
            json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1"}})
        );
        let (lease, _) = decoded(
            "Lease",
            json!({"spec": {"renewTime": "2024-01-02T03:04:05Z"}}),
        );
        assert_eq!(lease["spec"]["renewTime"], "2024-01-02T03:04:05.000000Z");
    }

    #[test]
    fn what_is_unknown_is_named_and_taken_away() {
        let (pod, unknown) = decoded(
            "Pod",
            json!({"spce": {}, "spec": {"containers": [{"name": "a", "imagee": "b", "env": [{"nam": "c"}]}]}}),
        );
        let mut unknown = unknown;
        unknown.sort();
        assert_eq!(
            unknown,
            [
                "spce",
                "spec.containers[0].env[0].nam",
                "spec.containers[0].imagee"
            ]
        );
        assert_eq!(pod["spec"]["containers"][0]["env"], json!([{"name": ""}]));
    }

    #[test]
    fn a_wrong_type_is_told_as_go_tells_it() {
        let cases = [
            (
                json!({"spec": {"containers": "a"}}),
                "string into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                json!({"spec": {"containers": [{"args": [1]}]}}),
                "number into Go struct field Container.spec.containers.args of type string",
            ),
            (
                json!({"spec": {"priority": 1.5}}),
                "number 1.5 into Go struct field PodSpec.spec.priority of type int32",
            ),
            (
                json!({"spec": {"priority": 3_000_000_000_i64}}),
                "number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
            ),
            (
                json!({"spec": {"hostPID": "yes"}}),
                "string into Go struct field PodSpec.spec.hostPID of type bool",
            ),
            (
                json!({"spec": {"dnsPolicy": true}}),
                "bool into Go struct field PodSpec.spec.dnsPolicy of type v1.DNSPolicy",
            ),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"spec": []}),
                "array into Go struct field Pod.spec of type v1.PodSpec",
            ),
        ];
        for (pod, expected) in cases {
            let message = decode("Pod", pod).unwrap_err().to_string();
            assert_eq!(message, format!("json: cannot unmarshal {expected}"));
        }
        let bad = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "lots"}}}]}});
        assert_eq!(
            decode("Pod", bad).unwrap_err().to_string(),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        );
    }
}
