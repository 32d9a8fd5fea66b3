//! What is asked of a part of an object, and reviews, which are answered and not kept.

use http::StatusCode;
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::desk::Desk;
use super::request::Asked;
use super::verbs::{self, success};
use crate::access::node_restriction::{self, Operation, Write};
use crate::access::reviews::Reviews;
use crate::failure::Failure;
use crate::kinds::{Kind, Subresource};
use crate::rest::{DeleteOptions, Part, UpdateOptions, Written, belongs};

pub(super) async fn answer(
    desk: &Desk,
    kind: &'static Kind,
    asked: Asked,
) -> Result<Answer, Failure> {
    let name = asked.attributes.subresource.as_str();
    if name.is_empty() {
        return review(desk, kind, &asked);
    }
    let subresource = kind.subresource(name).ok_or_else(Failure::no_such_page)?;
    match (name, asked.attributes.verb.as_str()) {
        ("binding", _) => bind(desk, kind, subresource, &asked).await,
        ("eviction", _) => evict(desk, kind, subresource, &asked).await,
        ("token", _) => token(desk, kind, subresource, &asked),
        (_, "get") => verbs::get(desk, kind, &asked),
        (_, "update") => {
            let (object, warnings) = verbs::read(kind, &asked)?;
            belongs(&asked.key(kind), &object)?;
            let change = |_: &Value| Ok(object.clone());
            let part = Part::Subresource(subresource.name);
            let written = verbs::changed(desk, kind, &asked, part, change).await;
            let written = written.map_err(|failure| failure.with_warnings(&warnings))?;
            verbs::one(desk, kind, &asked, StatusCode::OK, &written, &warnings)
        }
        (_, "patch") => {
            let part = Part::Subresource(subresource.name);
            let (written, warnings) = verbs::patched(desk, kind, &asked, part).await?;
            verbs::one(desk, kind, &asked, StatusCode::OK, &written, &warnings)
        }
        _ => Err(Failure::method_not_allowed()),
    }
}

fn review(desk: &Desk, kind: &'static Kind, asked: &Asked) -> Result<Answer, Failure> {
    let (review, warnings) = verbs::read(kind, asked)?;
    let parts = &desk.parts;
    let reviews = Reviews::new(
        parts.authenticator.clone(),
        parts.authorizer.clone(),
        desk.clock().clone(),
    );
    let namespace = asked.namespace(kind);
    let answered = reviews.answer(kind.plural, namespace, &asked.user, review)?;
    let written = Written::Dry(answered);
    verbs::one(desk, kind, asked, StatusCode::CREATED, &written, &warnings)
}

/// What a subresource takes.
fn read(subresource: &Subresource, asked: &Asked) -> Result<Value, Failure> {
    let api_version = match subresource.group {
        "" => subresource.version.to_owned(),
        group => format!("{group}/{}", subresource.version),
    };
    let (object, _) = verbs::read_as(&api_version, subresource.kind, asked)?;
    Ok(object)
}

fn restricted(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    object: &Value,
) -> Result<(), Failure> {
    let write = Write {
        kind,
        subresource: &asked.attributes.subresource,
        namespace: asked.namespace(kind),
        name: &asked.attributes.name,
        operation: Operation::Create,
        object: Some(object),
        old: None,
    };
    node_restriction::admit(&asked.user, &write, desk.parts.objects.store())
}

fn named(asked: &Asked, object: &Value, kind: &str) -> Result<(), Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name == asked.attributes.name {
        return Ok(());
    }
    let message = format!("name in URL does not match name in {kind} object");
    Err(Failure::bad_request(message))
}

/// A pod is given to a node, once.
async fn bind(
    desk: &Desk,
    kind: &'static Kind,
    subresource: &Subresource,
    asked: &Asked,
) -> Result<Answer, Failure> {
    let binding = read(subresource, asked)?;
    named(asked, &binding, "Binding")?;
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(Failure::bad_request("target.name: Required value"));
    }
    restricted(desk, kind, asked, &binding)?;
    let name = asked.attributes.name.as_str();
    let now = desk.clock().seconds();
    let assigned = |current: &Value| {
        let conflict = |cause: String| Err(Failure::conflict_on("pods/binding", kind, name, cause));
        let text = |object: &Value, field: &str| {
            let text = object["metadata"][field].as_str();
            text.unwrap_or_default().to_owned()
        };
        for (field, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (given, own) = (text(&binding, field), text(current, field));
            if !given.is_empty() && given != own {
                let cause = format!(
                    "Precondition failed: {word} in precondition: {given}, {word} in object meta: {own}"
                );
                return Err(Failure::conflict(kind, name, cause));
            }
        }
        if !current["metadata"]["deletionTimestamp"].is_null() {
            return conflict(format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            ));
        }
        let before = current["spec"]["nodeName"].as_str().unwrap_or_default();
        if !before.is_empty() {
            return conflict(format!("pod {name} is already assigned to node {before:?}"));
        }
        if current["spec"]["schedulingGates"]
            .as_array()
            .is_some_and(|gates| !gates.is_empty())
        {
            return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        let mut pod = current.clone();
        pod["spec"]["nodeName"] = node.into();
        for field in ["annotations", "labels"] {
            for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
                pod["metadata"][field][key] = value.clone();
            }
        }
        if let Some(status) = pod["status"].as_object_mut() {
            status.remove("nominatedNodeName");
        }
        let scheduled = json!({"type": "PodScheduled", "status": "True"});
        set_condition(&mut pod["status"]["conditions"], scheduled, &now);
        Ok(pod)
    };
    let options = UpdateOptions {
        dry_run: asked.query.dry_run()?,
    };
    let objects = &desk.parts.objects;
    objects
        .update_with(&asked.key(kind), Part::Whole, assigned, &options)
        .await?;
    Ok(answer::value(StatusCode::CREATED, &coded_success()))
}

fn coded_success() -> Value {
    let mut status = success(Value::Null);
    status["code"] = 201.into();
    status
}

/// In the place of the one of its type, if there is one; it has changed when its status has.
fn set_condition(conditions: &mut Value, mut condition: Value, now: &str) {
    let mut list = conditions.as_array().cloned().unwrap_or_default();
    let same = |one: &&mut Value| one["type"] == condition["type"];
    let found = list.iter_mut().find(same);
    condition["lastProbeTime"] = Value::Null;
    condition["lastTransitionTime"] = now.into();
    match found {
        Some(found) => {
            if found["status"] == condition["status"] {
                condition["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = condition;
        }
        None => list.push(condition),
    }
    *conditions = list.into();
}

/// There are no disruption budgets yet: an eviction is a deletion that says why.
async fn evict(
    desk: &Desk,
    kind: &'static Kind,
    subresource: &Subresource,
    asked: &Asked,
) -> Result<Answer, Failure> {
    let eviction = read(subresource, asked)?;
    named(asked, &eviction, "Eviction")?;
    restricted(desk, kind, asked, &eviction)?;
    let mut options = DeleteOptions {
        dry_run: asked.query.dry_run()?,
        ..DeleteOptions::default()
    };
    options.read(&eviction["deleteOptions"])?;
    let objects = &desk.parts.objects;
    let key = asked.key(kind);
    if !options.dry_run {
        let now = desk.clock().seconds();
        let target = |current: &Value| {
            options.check(kind, &key.name, current)?;
            let mut pod = current.clone();
            let condition = json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            set_condition(&mut pod["status"]["conditions"], condition, &now);
            Ok(pod)
        };
        let told = UpdateOptions::default();
        let written = objects
            .update_with(&key, Part::Whole, target, &told)
            .await?;
        // Who meant a certain revision means the one that we have just made of it.
        if let Some(revision) = &mut options.resource_version {
            let value = written.value();
            let made = value["metadata"]["resourceVersion"].as_str();
            made.unwrap_or_default().clone_into(revision);
        }
    }
    objects.delete_with(&key, &options).await?;
    Ok(answer::value(StatusCode::CREATED, &coded_success()))
}

fn token(
    desk: &Desk,
    kind: &'static Kind,
    subresource: &Subresource,
    asked: &Asked,
) -> Result<Answer, Failure> {
    let request = read(subresource, asked)?;
    restricted(desk, kind, asked, &request)?;
    let namespace = asked.namespace(kind);
    let name = asked.attributes.name.as_str();
    let issued = desk.parts.authenticator.issue(namespace, name, request)?;
    Ok(answer::value(StatusCode::CREATED, &issued))
}
