//! Objects in protobuf, which generated clients write whatever is asked of them: kubectl
//! does for `create namespace`, `certificate approve`, `auth can-i` and others. They are
//! read by the same table of types as JSON, and answered in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{Shape, Struct, schema};

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Before every object.
const MAGIC: &[u8] = b"k8s\0";

/// Why bytes are no object.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProtobufError {
    #[error("provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}")]
    NoMagic,
    #[error("the message ends early or is malformed")]
    Malformed,
    #[error("no kind {0:?} is registered")]
    UnknownKind(String),
}

/// One value as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The object as JSON would have it, with its `apiVersion` and `kind`.
pub fn read(bytes: &[u8], expected_kind: &str) -> Result<Value, ProtobufError> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let envelope = wires(envelope)?;
    let type_meta = wires(bytes_at(&envelope, 1))?;
    let kind = text(bytes_at(&type_meta, 2));
    let kind = if kind.is_empty() {
        expected_kind.to_owned()
    } else {
        kind
    };
    let root = schema()
        .root(&kind)
        .or_else(|| schema().get(&format!("meta.{kind}")));
    let root = root.ok_or_else(|| ProtobufError::UnknownKind(kind.clone()))?;
    let mut object = message(root, &[bytes_at(&envelope, 2)])?;
    object.insert(
        "apiVersion".to_owned(),
        text(bytes_at(&type_meta, 1)).into(),
    );
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// A message may come in parts, which then count as one.
fn message(of: &Struct, parts: &[&[u8]]) -> Result<Map<String, Value>, ProtobufError> {
    let whole = parts.concat();
    let fields = wires(&whole)?;
    let mut object = Map::new();
    for field in &of.fields {
        let found = at(&fields, &field.place, &|found| match found {
            [] => Ok(None),
            found => value(&field.shape, found).map(Some),
        })?;
        if let Some(found) = found {
            object.insert(field.name.to_owned(), found);
        }
    }
    Ok(object)
}

/// Makes something of the values at a place.
type Make<'a, T> = dyn Fn(&[Wire<'_>]) -> Result<Option<T>, ProtobufError> + 'a;

/// What is made of the values at a place.
fn at<T>(
    fields: &[(u64, Wire<'_>)],
    place: &[u64],
    make: &Make<'_, T>,
) -> Result<Option<T>, ProtobufError> {
    let [number, inner @ ..] = place else {
        return Ok(None);
    };
    let found = fields.iter().filter(|(own, _)| own == number);
    let found: Vec<Wire<'_>> = found.map(|(_, wire)| *wire).collect();
    if inner.is_empty() {
        return make(&found);
    }
    let whole = messages(&found)?.concat();
    at(&wires(&whole)?, inner, make)
}

fn value(shape: &Shape, found: &[Wire<'_>]) -> Result<Value, ProtobufError> {
    let Some(last) = found.last() else {
        return Ok(Value::Null);
    };
    match shape {
        // A list that has a name of its own is a message with that list in it.
        Shape::Named(_, inner) if matches!(inner.plain(), Shape::List(_)) => {
            let whole = messages(found)?.concat();
            let fields = wires(&whole)?;
            let items = at(&fields, &[1], &|found| value(inner, found).map(Some))?;
            Ok(items.unwrap_or_else(|| json!([])))
        }
        Shape::Named(_, inner) | Shape::Pointer(inner) => value(inner, found),
        Shape::Text => Ok(text(last.bytes()?).into()),
        Shape::Bool => Ok((last.number()? != 0).into()),
        Shape::Int32 | Shape::Int64 => Ok(i64_of(last.number()?).into()),
        Shape::Bytes => Ok(STANDARD.encode(last.bytes()?).into()),
        Shape::Quantity => Ok(text(bytes_at(&wires(last.bytes()?)?, 1)).into()),
        Shape::Time => time(last.bytes()?, "%Y-%m-%dT%H:%M:%SZ"),
        Shape::MicroTime => time(last.bytes()?, "%Y-%m-%dT%H:%M:%S.%6fZ"),
        Shape::IntOrString => {
            let fields = wires(last.bytes()?)?;
            Ok(match number_at(&fields, 1) {
                0 => i64_of(number_at(&fields, 2)).into(),
                _ => text(bytes_at(&fields, 3)).into(),
            })
        }
        Shape::Raw => {
            let fields = wires(last.bytes()?)?;
            let raw = serde_json::from_slice(bytes_at(&fields, 1));
            Ok(raw.unwrap_or_default())
        }
        Shape::List(inner) => list(inner, found),
        Shape::Map(inner) => {
            let mut map = Map::new();
            for entry in messages(found)? {
                let fields = wires(entry)?;
                let values = at(&fields, &[2], &|values| value(inner, values).map(Some))?;
                map.insert(text(bytes_at(&fields, 1)), values.unwrap_or_default());
            }
            Ok(map.into())
        }
        Shape::Struct(name) => {
            let of = schema().get(name).ok_or(ProtobufError::Malformed)?;
            message(of, &messages(found)?).map(Value::Object)
        }
    }
}

fn list(inner: &Shape, found: &[Wire<'_>]) -> Result<Value, ProtobufError> {
    let numbers = matches!(inner.target(), Shape::Int32 | Shape::Int64);
    let mut items = Vec::new();
    for wire in found.iter().copied() {
        match wire {
            // Numbers may be packed together.
            Wire::Bytes(packed) if numbers => {
                let mut rest = packed;
                while !rest.is_empty() {
                    items.push(i64_of(varint(&mut rest)?).into());
                }
            }
            wire => items.push(value(inner, &[wire])?),
        }
    }
    Ok(items.into())
}

/// Nothing, for a time that is not set.
fn time(bytes: &[u8], form: &str) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let fields = wires(bytes)?;
    let seconds = i64_of(number_at(&fields, 1));
    let nanos = i32::try_from(number_at(&fields, 2)).unwrap_or_default();
    let time = Timestamp::new(seconds, nanos).map_err(|_| ProtobufError::Malformed)?;
    Ok(time.strftime(form).to_string().into())
}

impl<'a> Wire<'a> {
    fn number(self) -> Result<u64, ProtobufError> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err(ProtobufError::Malformed),
        }
    }

    fn bytes(self) -> Result<&'a [u8], ProtobufError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(ProtobufError::Malformed),
        }
    }
}

fn messages<'a>(found: &[Wire<'a>]) -> Result<Vec<&'a [u8]>, ProtobufError> {
    found.iter().map(|wire| wire.bytes()).collect()
}

fn bytes_at<'a>(fields: &[(u64, Wire<'a>)], number: u64) -> &'a [u8] {
    let found = fields.iter().rev().find(|(own, _)| *own == number);
    found
        .and_then(|(_, wire)| wire.bytes().ok())
        .unwrap_or_default()
}

fn number_at(fields: &[(u64, Wire<'_>)], number: u64) -> u64 {
    let found = fields.iter().rev().find(|(own, _)| *own == number);
    found
        .and_then(|(_, wire)| wire.number().ok())
        .unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn i64_of(number: u64) -> i64 {
    number.cast_signed()
}

/// The fields of a message, with their numbers.
fn wires(mut bytes: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, ProtobufError> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let wire = match key & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => Wire::Bytes(taken(&mut bytes, 8)?),
            2 => {
                let length = varint(&mut bytes)?;
                Wire::Bytes(taken(&mut bytes, length)?)
            }
            5 => Wire::Bytes(taken(&mut bytes, 4)?),
            _ => return Err(ProtobufError::Malformed),
        };
        fields.push((key >> 3, wire));
    }
    Ok(fields)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, ProtobufError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(ProtobufError::Malformed)?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(ProtobufError::Malformed)
}

fn taken<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8], ProtobufError> {
    let length = usize::try_from(length).map_err(|_| ProtobufError::Malformed)?;
    let (taken, rest) = bytes
        .split_at_checked(length)
        .ok_or(ProtobufError::Malformed)?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).unwrap();
        [&[number << 3 | 2, length], bytes].concat()
    }

    fn enveloped(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &type_meta), &field(2, object)].concat()
    }

    #[test]
    fn an_object_is_read_by_the_table_of_types() {
        let metadata = [
            field(1, b"a"),
            field(11, &[field(1, b"k"), field(2, b"v")].concat()),
        ]
        .concat();
        let data = field(2, &[field(1, b"x"), field(2, b"y")].concat());
        let binary = field(3, &[field(1, b"z"), field(2, &[0, 255])].concat());
        let object = [field(1, &metadata), data, binary, vec![4 << 3, 1]].concat();
        let read = read(&enveloped("v1", "ConfigMap", &object), "").unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"k": "v"}},
            "data": {"x": "y"}, "binaryData": {"z": "AP8="}, "immutable": true,
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn what_json_has_beside_its_neighbours_protobuf_has_inside_of_a_message() {
        // A volume: its name, and in field 2 the source, of which 1 is a host path.
        let volume = [field(1, b"v"), field(2, &field(1, &field(1, b"/p")))].concat();
        // A container with a port's number (varint) and a probe whose handler asks at a port.
        let port = [vec![3 << 3, 80], field(1, b"web")].concat();
        let asks = field(2, &field(2, &[vec![1 << 3, 1], field(3, b"web")].concat()));
        let container = [field(1, b"c"), field(6, &port), field(10, &field(1, &asks))].concat();
        let spec = [field(1, &volume), field(2, &container)].concat();
        let read = read(&enveloped("v1", "Pod", &field(2, &spec)), "").unwrap();
        assert_eq!(
            read["spec"]["volumes"],
            json!([{"name": "v", "hostPath": {"path": "/p"}}])
        );
        let container = &read["spec"]["containers"][0];
        assert_eq!(
            container["ports"],
            json!([{"name": "web", "containerPort": 80}])
        );
        assert_eq!(container["livenessProbe"]["httpGet"]["port"], "web");
    }

    #[test]
    fn times_and_lists_with_names_are_what_they_are_in_json() {
        // 1,800,000,000 seconds.
        let seconds = [1 << 3, 0x80, 0xa4, 0xa7, 0xda, 0x06];
        let form = "%Y-%m-%dT%H:%M:%SZ";
        assert_eq!(time(&seconds, form).unwrap(), "2027-01-15T08:00:00Z");
        assert_eq!(time(&[], form).unwrap(), Value::Null);
        let values = [field(1, b"a"), field(1, b"b")].concat();
        let extra = field(5, &[field(1, b"k"), field(2, &values)].concat());
        let object = field(2, &[field(3, b"someone"), extra].concat());
        let review = enveloped("authorization.k8s.io/v1", "SubjectAccessReview", &object);
        let spec = read(&review, "").unwrap()["spec"].clone();
        assert_eq!(spec, json!({"user": "someone", "extra": {"k": ["a", "b"]}}));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert_eq!(read(b"{}", "Pod"), Err(ProtobufError::NoMagic));
        let unknown = read(&enveloped("v1", "Banana", b""), "");
        assert_eq!(
            unknown,
            Err(ProtobufError::UnknownKind("Banana".to_owned()))
        );
        let cut = enveloped("v1", "Pod", &[1 << 3 | 2, 9]);
        assert_eq!(read(&cut, ""), Err(ProtobufError::Malformed));
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_breaks_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&[MAGIC, &bytes].concat(), "Pod");
            let _ = message(schema().root("Pod").unwrap(), &[&bytes]);
        }
    }
}
