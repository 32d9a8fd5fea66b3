//! Objects that change.

use http::StatusCode;
use serde_json::Value;

use super::bounds;
use super::created::place_in;
use super::objects::{Objects, Part, refused};
use super::written::Written;
use crate::defaults::{self, prepare};
use crate::failure::Failure;
use crate::kinds::Kind;
use crate::schema::{self, DecodeError};
use crate::store::{Expect, Key, Revision, Stored, WriteError};
use crate::validate;

/// Times that a write without a revision is tried again when others write between.
const ATTEMPTS: usize = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateOptions {
    pub dry_run: bool,
}

/// What a write makes of an object.
enum Next {
    Same,
    Changed(Value),
    /// The last finalizer went, or the last of its grace.
    Gone(Value),
}

impl Objects {
    /// Writes what `change` makes of the object as it is now; again, when somebody else
    /// wrote between and the change does not insist on a revision.
    pub async fn update_with(
        &self,
        key: &Key,
        part: Part,
        change: impl Fn(&Value) -> Result<Value, Failure> + Send + Sync,
        options: &UpdateOptions,
    ) -> Result<Written, Failure> {
        let mut attempts = ATTEMPTS;
        loop {
            let current = self.get(key)?;
            let before = current.value();
            let wanted = change(&before)?;
            let next = self.next(key, part, &current, &before, wanted)?;
            let expect = Expect::At(current.revision());
            let written = match next {
                Next::Same => return Ok(Written::Stored(current)),
                Next::Changed(object) | Next::Gone(object) if options.dry_run => {
                    return Ok(Written::Dry(object));
                }
                Next::Changed(object) => {
                    let stored = self.store.update(key.clone(), expect, object).await;
                    stored.map(Written::Stored)
                }
                Next::Gone(object) => {
                    let stored = self.store.delete(key.clone(), expect).await;
                    stored.map(|stored| Written::Last(stored, object))
                }
            };
            attempts -= 1;
            match written {
                Err(WriteError::Changed(_)) if attempts > 0 => {}
                other => return other.map_err(|error| refused(key, error)),
            }
        }
    }

    fn next(
        &self,
        key: &Key,
        part: Part,
        current: &Stored,
        before: &Value,
        mut wanted: Value,
    ) -> Result<Next, Failure> {
        let Key {
            kind,
            namespace,
            name,
        } = key;
        place_in(kind, namespace, &mut wanted)?;
        identity(kind, name, before, &wanted)?;
        revision(kind, name, current, &mut wanted)?;
        let unreadable = |error: DecodeError| Failure::bad_request(error.0);
        let mut object = defaults::complete(kind, wanted).map_err(unreadable)?;
        object["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        keep_times(&mut object, before);
        let now = self.clock.seconds();
        let object = match part {
            Part::Main => prepare::update(kind, object, before),
            Part::Subresource(name) => {
                prepare::update_subresource(kind, name, object, before, &now)
            }
            Part::Whole => object,
        };
        let object = schema::tidy(kind.kind, object).map_err(unreadable)?;
        match part {
            Part::Main => validate::update(kind, &object, before)?,
            Part::Subresource(name) => {
                validate::update_subresource(kind, name, &object, before)?;
            }
            // The server's own parts know what they write.
            Part::Whole => {}
        }
        if part != Part::Whole {
            bounds::check(&object)?;
        }
        if object == *before {
            return Ok(Next::Same);
        }
        Ok(if is_over(&object) {
            Next::Gone(object)
        } else {
            Next::Changed(object)
        })
    }
}

/// Whether an object is one to put at this place; to be asked before what is there is looked at.
pub fn belongs(key: &Key, object: &Value) -> Result<(), Failure> {
    place_in(key.kind, &key.namespace, &mut object.clone())?;
    named(&key.name, object)
}

fn named(name: &str, object: &Value) -> Result<(), Failure> {
    let given = object["metadata"]["name"].as_str().unwrap_or_default();
    if given.is_empty() {
        return Err(Failure::bad_request("name must be provided"));
    }
    if given != name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// The name and the uid of an object do not change.
fn identity(kind: &Kind, name: &str, before: &Value, wanted: &Value) -> Result<(), Failure> {
    named(name, wanted)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (uid, own) = (
        text(&wanted["metadata"]["uid"]),
        text(&before["metadata"]["uid"]),
    );
    if !uid.is_empty() && uid != own {
        return Err(Failure::conflict(
            kind,
            name,
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"),
        ));
    }
    Ok(())
}

/// Who names a revision means that one.
fn revision(kind: &Kind, name: &str, current: &Stored, wanted: &mut Value) -> Result<(), Failure> {
    let given = wanted["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    if given.is_empty() || given == "0" {
        let conditional_only = matches!(
            kind.kind,
            "Lease" | "RuntimeClass" | "CSIDriver" | "CSINode"
        );
        if conditional_only {
            let mut errors = validate::Errors::default();
            let given = given.to_owned();
            errors.invalid(
                "metadata.resourceVersion",
                given,
                "must be specified for an update",
            );
            errors.into_result(kind, name)?;
        }
        return Ok(());
    }
    match given.parse::<Revision>() {
        Ok(revision) if current.revision() == revision => Ok(()),
        Ok(_) => Err(Failure::modified(kind, name)),
        // Upstream's answer: it does not say whose fault it is.
        Err(_) => Err(Failure::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "",
            format!("strconv.ParseUint: parsing {given:?}: invalid syntax"),
        )),
    }
}

/// What nobody changes by an update. Upstream takes it for a mistake when an object that stays is
/// said to be going, or when its grace is another.
fn keep_times(object: &mut Value, before: &Value) {
    let (metadata, old) = (&mut object["metadata"], &before["metadata"]);
    for field in ["uid", "creationTimestamp", "deletionTimestamp"] {
        if !old[field].is_null() {
            metadata[field] = old[field].clone();
        }
    }
    let grace = "deletionGracePeriodSeconds";
    if metadata[grace].is_null() && !old[grace].is_null() {
        metadata[grace] = old[grace].clone();
    }
}

/// Whether it was to go and nothing holds it any more.
pub(super) fn is_over(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let some = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    let grace = metadata["deletionGracePeriodSeconds"].as_i64();
    let marked = !metadata["deletionTimestamp"].is_null() && grace.unwrap_or_default() == 0;
    let own = object["kind"] == "Namespace" && some(&object["spec"]["finalizers"]);
    let held = own || some(&metadata["finalizers"]);
    marked && !held
}

pub(super) fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
