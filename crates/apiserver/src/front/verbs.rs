//! The verbs over HTTP: parameters in, objects out.

use http::{StatusCode, header};
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::desk::Desk;
use super::negotiate::{Form, Language};
use super::query::Query;
use super::reading::{self, Expected, Strictness};
use super::request::Asked;
use crate::access::node_restriction::{self, Operation, Write};
use crate::failure::Failure;
use crate::faults::Fault;
use crate::kinds::Kind;
use crate::patch;
use crate::rest::{
    CreateOptions, DeleteOptions, Deletion, ListOptions, Page, Part, UpdateOptions, VersionMatch,
    Written, belongs,
};
use crate::schema;
use crate::store::{Revision, Selector, Stored};
use crate::tables;

pub(super) fn get(desk: &Desk, kind: &'static Kind, asked: &Asked) -> Result<Answer, Failure> {
    if let Some(revision) = revision(&asked.query)? {
        desk.parts.objects.not_ahead(revision)?;
    }
    let found = desk.parts.objects.get(&asked.key(kind))?;
    one(
        desk,
        kind,
        asked,
        StatusCode::OK,
        &Written::Stored(found),
        &[],
    )
}

pub(super) fn list(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    fault: &Fault,
) -> Result<Answer, Failure> {
    let mut options = list_options(kind, asked)?;
    if let Some(back) = fault.stale {
        let then = desk.parts.objects.store().revision().saturating_sub(back);
        options.resource_version = Some(then.max(1));
        options.version_match = Some(VersionMatch::Exact);
    }
    let page = desk.parts.objects.list(kind, &options)?;
    several(desk, kind, asked, &page)
}

pub(super) async fn create(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
) -> Result<Answer, Failure> {
    let (object, warnings) = read(kind, asked)?;
    let written = created(desk, kind, asked, object).await;
    let written = written.map_err(|failure| failure.with_warnings(&warnings))?;
    one(desk, kind, asked, StatusCode::CREATED, &written, &warnings)
}

async fn created(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    object: Value,
) -> Result<Written, Failure> {
    let namespace = asked.namespace(kind);
    let write = Write {
        kind,
        subresource: "",
        namespace,
        name: "",
        operation: Operation::Create,
        object: Some(&object),
        old: None,
    };
    node_restriction::admit(&asked.user, &write, desk.parts.objects.store())?;
    let options = CreateOptions {
        dry_run: asked.query.dry_run()?,
        user: Some(asked.user.clone()),
    };
    let objects = &desk.parts.objects;
    objects.create_with(kind, namespace, object, &options).await
}

pub(super) async fn update(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
) -> Result<Answer, Failure> {
    let (object, warnings) = read(kind, asked)?;
    let written = replaced(desk, kind, asked, object).await;
    let (code, written) = written.map_err(|failure| failure.with_warnings(&warnings))?;
    one(desk, kind, asked, code, &written, &warnings)
}

async fn replaced(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    mut object: Value,
) -> Result<(StatusCode, Written), Failure> {
    belongs(&asked.key(kind), &object)?;
    let created_by_update = matches!(kind.kind, "Lease" | "Event" | "Service" | "RuntimeClass");
    let missing = || desk.parts.objects.store().get(&asked.key(kind)).is_none();
    if created_by_update && missing() {
        object["metadata"]["resourceVersion"] = Value::Null;
        let written = created(desk, kind, asked, object).await?;
        return Ok((StatusCode::CREATED, written));
    }
    let change = |_: &Value| Ok(object.clone());
    let written = changed(desk, kind, asked, Part::Main, change).await?;
    Ok((StatusCode::OK, written))
}

pub(super) async fn patch(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
) -> Result<Answer, Failure> {
    let (written, warnings) = patched(desk, kind, asked, Part::Main).await?;
    one(desk, kind, asked, StatusCode::OK, &written, &warnings)
}

/// The object with the patch of the request, written.
pub(super) async fn patched(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    part: Part,
) -> Result<(Written, Vec<String>), Failure> {
    let strictness = Strictness::of(&asked.query)?;
    let media_type = asked.headers.get(header::CONTENT_TYPE);
    let media_type = media_type
        .and_then(|given| given.to_str().ok())
        .unwrap_or_default();
    patch::check_form(media_type)?;
    let duplicates = schema::duplicate_fields(&asked.body);
    let made = |current: &Value| {
        let patched = patch::apply(media_type, kind.kind, current, &asked.body)?;
        let api_version = kind.api_version();
        let expected = Expected {
            api_version: &api_version,
            kind: kind.kind,
        };
        let read = reading::checked(expected, patched.clone(), &duplicates, Strictness::Warn);
        let (object, findings) = read.map_err(|failure| {
            let cause = failure
                .message
                .split_once(": ")
                .map_or("", |(_, cause)| cause);
            patch::no_object(&patched, cause)
        })?;
        match strictness {
            Strictness::Strict if !findings.is_empty() => {
                let cause = schema::strict_error(&findings);
                Err(patch::no_object(&patched, &cause))
            }
            Strictness::Ignore => Ok((object, Vec::new())),
            _ => Ok((object, findings)),
        }
    };
    // Warnings are of what was written, not of what was tried before.
    let before = desk.parts.objects.get(&asked.key(kind))?;
    let (_, warnings) = made(&before.value())?;
    let change = |current: &Value| made(current).map(|(object, _)| object);
    let written = changed(desk, kind, asked, part, change).await;
    let written = written.map_err(|failure| failure.with_warnings(&warnings))?;
    Ok((written, warnings))
}

/// What `change` makes of the object, written if its writer may.
pub(super) async fn changed(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    part: Part,
    change: impl Fn(&Value) -> Result<Value, Failure> + Send + Sync,
) -> Result<Written, Failure> {
    let store = desk.parts.objects.store();
    let checked = |current: &Value| {
        let object = change(current)?;
        let write = Write {
            kind,
            subresource: &asked.attributes.subresource,
            namespace: asked.namespace(kind),
            name: &asked.attributes.name,
            operation: Operation::Update,
            object: Some(&object),
            old: Some(current),
        };
        node_restriction::admit(&asked.user, &write, store)?;
        Ok(object)
    };
    let options = UpdateOptions {
        dry_run: asked.query.dry_run()?,
    };
    let objects = &desk.parts.objects;
    objects
        .update_with(&asked.key(kind), part, checked, &options)
        .await
}

pub(super) async fn delete(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
) -> Result<Answer, Failure> {
    let options = delete_options(asked)?;
    let objects = &desk.parts.objects;
    let key = asked.key(kind);
    may_delete(desk, kind, asked, &objects.get(&key)?)?;
    let (written, gone) = match objects.delete_with(&key, &options).await? {
        Deletion::Gone(written) => (written, true),
        Deletion::Marked(written) => (written, false),
    };
    // Upstream's kinds, which tell what was deleted.
    let tells = matches!(
        kind.kind,
        "Namespace"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "Pod"
            | "Service"
            | "ServiceAccount"
            | "CSIDriver"
            | "CSINode"
    );
    if gone && !tells {
        let mut details = json!({"name": key.name, "kind": kind.plural});
        details["uid"] = written.value()["metadata"]["uid"].clone();
        if !kind.group.is_empty() {
            details["group"] = kind.group.into();
        }
        return Ok(answer::value(StatusCode::OK, &success(details)));
    }
    one(desk, kind, asked, StatusCode::OK, &written, &[])
}

pub(super) fn success(details: Value) -> Value {
    let mut status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    });
    if !details.is_null() {
        status["details"] = details;
    }
    status
}

fn may_delete(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    current: &Stored,
) -> Result<(), Failure> {
    let old = current.value();
    let write = Write {
        kind,
        subresource: "",
        namespace: current.namespace(),
        name: current.name(),
        operation: Operation::Delete,
        object: None,
        old: Some(&old),
    };
    node_restriction::admit(&asked.user, &write, desk.parts.objects.store())
}

pub(super) async fn delete_collection(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
) -> Result<Answer, Failure> {
    let options = delete_options(asked)?;
    let objects = &desk.parts.objects;
    let page = objects.list(kind, &list_options(kind, asked)?)?;
    for object in &page.items {
        may_delete(desk, kind, asked, object)?;
    }
    // One after the other, as upstream does it: who watches sees each go before the next.
    for object in &page.items {
        match objects.delete_with(&object.key(), &options).await {
            // Somebody else was faster.
            Err(failure) if failure.code == StatusCode::NOT_FOUND => {}
            outcome => drop(outcome?),
        }
    }
    several(desk, kind, asked, &page)
}

/// The object of the body.
pub(super) fn read(kind: &Kind, asked: &Asked) -> Result<(Value, Vec<String>), Failure> {
    read_as(&kind.api_version(), kind.kind, asked)
}

pub(super) fn read_as(
    api_version: &str,
    kind: &str,
    asked: &Asked,
) -> Result<(Value, Vec<String>), Failure> {
    let language = Language::of(&asked.headers)?;
    let expected = Expected { api_version, kind };
    let strictness = Strictness::of(&asked.query)?;
    reading::object(expected, language, &asked.body, strictness)
}

/// From the body, or, where there is none, from the query: upstream looks at one of them only.
fn delete_options(asked: &Asked) -> Result<DeleteOptions, Failure> {
    let mut options = DeleteOptions::default();
    let policy = if asked.body.is_empty() {
        options.grace_period_seconds = asked.query.number("gracePeriodSeconds")?;
        options.dry_run = asked.query.dry_run()?;
        asked.query.text("propagationPolicy").to_owned()
    } else {
        let given = match Language::of(&asked.headers)? {
            Language::Protobuf => reading::from_protobuf("DeleteOptions", &asked.body)?,
            Language::Json => serde_json::from_slice(&asked.body).map_err(|error| {
                Failure::bad_request(format!("the delete options cannot be read: {error}"))
            })?,
        };
        options.read(&given)?;
        let policy = given["propagationPolicy"].as_str();
        policy.unwrap_or_default().to_owned()
    };
    match policy.as_str() {
        "" | "Background" | "Foreground" | "Orphan" => Ok(options),
        other => Err(Failure::bad_request(format!(
            "propagationPolicy: Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
        ))),
    }
}

pub(super) fn list_options(kind: &'static Kind, asked: &Asked) -> Result<ListOptions, Failure> {
    let query = &asked.query;
    let selector = Selector::parse(
        kind,
        asked.scope(kind),
        query.text("labelSelector"),
        query.text("fieldSelector"),
    )?;
    let resource_version = revision(query)?;
    let version_match = match query.text("resourceVersionMatch") {
        "" => None,
        "Exact" => Some(VersionMatch::Exact),
        "NotOlderThan" => Some(VersionMatch::NotOlderThan),
        other => {
            return Err(unfit_options(
                "resourceVersionMatch",
                &format!(
                    "Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\""
                ),
            ));
        }
    };
    let continued = query.get("continue").filter(|token| !token.is_empty());
    let forbidden = |cause: &str| {
        Err(unfit_options(
            "resourceVersionMatch",
            &format!("Forbidden: {cause}"),
        ))
    };
    let given = query
        .get("resourceVersion")
        .is_some_and(|text| !text.is_empty());
    if version_match.is_some() && asked.attributes.verb != "watch" {
        if !given {
            return forbidden(
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if continued.is_some() {
            return forbidden("resourceVersionMatch is forbidden when continue is provided");
        }
        if version_match == Some(VersionMatch::Exact) && resource_version.is_none() {
            return forbidden(
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            );
        }
    }
    if continued.is_some() && resource_version.is_some() {
        return Err(Failure::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    // A page at a revision is that revision: this is how the pages after it belong to it. A watch
    // has no pages.
    let limit = query.number::<i64>("limit")?.filter(|limit| *limit > 0);
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    let version_match = match (limit, resource_version, version_match) {
        (Some(_), Some(_), None) if asked.attributes.verb != "watch" => Some(VersionMatch::Exact),
        (_, _, version_match) => version_match,
    };
    Ok(ListOptions {
        selector,
        limit,
        continued: continued.map(str::to_owned),
        resource_version,
        version_match,
    })
}

/// 0 stands for whatever there is.
pub(super) fn revision(query: &Query) -> Result<Option<Revision>, Failure> {
    let text = query.text("resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    let revision: Revision = text.parse().map_err(|_| {
        Failure::bad_request(format!(
            "invalid resource version {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })?;
    Ok(Some(revision).filter(|revision| *revision > 0))
}

pub(super) fn unfit_options(field: &str, cause: &str) -> Failure {
    let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: {cause}");
    let details = json!({"group": "meta.k8s.io", "kind": "ListOptions", "causes": [
        {"message": cause, "field": field},
    ]});
    Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(details)
}

/// One object in the form that is wanted.
pub(super) fn one(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    code: StatusCode,
    written: &Written,
    warnings: &[String],
) -> Result<Answer, Failure> {
    let answer = match asked.wanted.form {
        Form::Object => answer::json(code, written.bytes()),
        Form::Metadata => answer::value(code, &metadata_only(&written.value())),
        Form::Table => {
            let object = written.value();
            let metadata = object["metadata"].clone();
            let table = table(desk, kind, asked, &[object], metadata, true)?;
            answer::value(code, &table)
        }
    };
    Ok(answer::with_warnings(answer, warnings))
}

pub(super) fn metadata_only(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

pub(super) fn table(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    objects: &[Value],
    metadata: Value,
    headers: bool,
) -> Result<Value, Failure> {
    let include = asked.query.text("includeObject");
    let include = tables::IncludeObject::parse(include).ok_or_else(|| {
        Failure::bad_request(format!("unrecognized includeObject value: {include:?}"))
    })?;
    let options = tables::Options {
        include,
        headers,
        metadata,
    };
    Ok(tables::render(
        kind,
        objects,
        &options,
        desk.clock().timestamp(),
    ))
}

fn several(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    page: &Page,
) -> Result<Answer, Failure> {
    match asked.wanted.form {
        Form::Object => Ok(answer::json(StatusCode::OK, list_bytes(kind, page))),
        Form::Metadata => {
            let items = page.items.iter().map(|item| metadata_only(&item.value()));
            let items: Vec<Value> = items.collect();
            let mut list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": page.metadata(),
                "items": null,
            });
            // Upstream says null of none here, and an empty list everywhere else.
            if !items.is_empty() {
                list["items"] = items.into();
            }
            Ok(answer::value(StatusCode::OK, &list))
        }
        Form::Table => {
            let items: Vec<Value> = page.items.iter().map(Stored::value).collect();
            let table = table(desk, kind, asked, &items, page.metadata(), true)?;
            Ok(answer::value(StatusCode::OK, &table))
        }
    }
}

/// The objects are JSON already.
fn list_bytes(kind: &Kind, page: &Page) -> Vec<u8> {
    let head = format!(
        r#"{{"kind":"{}List","apiVersion":"{}","metadata":{},"items":["#,
        kind.kind,
        kind.api_version(),
        page.metadata()
    );
    let size: usize = page.items.iter().map(|item| item.bytes().len() + 1).sum();
    let mut bytes = Vec::with_capacity(head.len() + size + 2);
    bytes.extend_from_slice(head.as_bytes());
    for (index, item) in page.items.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(item.bytes());
    }
    bytes.extend_from_slice(b"]}");
    bytes
}
