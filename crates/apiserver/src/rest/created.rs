//! Objects that begin.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::bounds;
use super::objects::{Objects, refused};
use super::written::Written;
use crate::access::User;
use crate::defaults::admit::{self, Surroundings};
use crate::defaults::{self, prepare};
use crate::failure::Failure;
use crate::kinds::{Kind, NAMESPACES, RUNTIME_CLASSES, SERVICE_ACCOUNTS};
use crate::schema;
use crate::store::{Key, WriteError};
use crate::validate;

/// Without the vowels and the figures that make words or look alike; upstream's.
const SUFFIX_CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const LONGEST_GENERATED: usize = 63;

/// Names that are tried before a clash is reported.
const ATTEMPTS: usize = 8;

/// How often and how long a pod waits for the service account of a young namespace.
const ACCOUNT_LOOKS: usize = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    pub dry_run: bool,
    /// Who asks; certificate requests remember it.
    pub user: Option<User>,
}

impl Objects {
    pub async fn create_with(
        &self,
        kind: &'static Kind,
        namespace: &str,
        object: Value,
        options: &CreateOptions,
    ) -> Result<Written, Failure> {
        let mut attempts = ATTEMPTS;
        loop {
            let mut object = object.clone();
            let generated = name_it(&mut object);
            let written = self.create_once(kind, namespace, object, options).await;
            attempts -= 1;
            match written {
                Err(failure) if generated && attempts > 0 && failure.reason == "AlreadyExists" => {}
                written => return written,
            }
        }
    }

    async fn create_once(
        &self,
        kind: &'static Kind,
        namespace: &str,
        mut object: Value,
        options: &CreateOptions,
    ) -> Result<Written, Failure> {
        place_in(kind, namespace, &mut object)?;
        let metadata = &mut object["metadata"];
        let now = self.clock.seconds();
        metadata["uid"] = uid().into();
        metadata["creationTimestamp"] = now.as_str().into();
        for field in [
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            super::updated::remove(metadata, field);
        }
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        let unreadable = |error: schema::DecodeError| Failure::bad_request(error.0);
        let object = defaults::complete(kind, object).map_err(unreadable)?;
        self.check_namespace(kind, namespace, &name)?;
        let object = self.admit(kind, namespace, object).await?;
        let mut object = prepare::create(kind, object, &now);
        if kind.kind == "CertificateSigningRequest" {
            requested_by(&mut object, options.user.as_ref());
        }
        let object = schema::tidy(kind.kind, object).map_err(unreadable)?;
        validate::create(kind, &object)?;
        bounds::check(&object)?;
        let key = Key::new(kind, namespace, name);
        if options.dry_run {
            return match self.store.get(&key) {
                Some(_) => Err(self.taken(&key, WriteError::Exists)),
                None => Ok(Written::Dry(object)),
            };
        }
        let version = object["metadata"]["resourceVersion"].as_str();
        if version.is_some_and(|version| !version.is_empty()) {
            // Upstream's storage says so, when all else is well, and nobody makes a better
            // answer of it.
            return Err(Failure::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let stored = self.store.create(key.clone(), object).await;
        stored
            .map(Written::Stored)
            .map_err(|error| self.taken(&key, error))
    }

    /// Who finds the name taken is told if it will be free.
    fn taken(&self, key: &Key, error: WriteError) -> Failure {
        let exists = error == WriteError::Exists;
        let mut failure = refused(key, error);
        let there = self.store.get(key).filter(|_| exists);
        if there.is_some_and(|there| !there.value()["metadata"]["deletionTimestamp"].is_null()) {
            failure.message = format!("object is being deleted: {}", failure.message);
        }
        failure
    }

    /// Nothing begins in a namespace that is not there or is going.
    fn check_namespace(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Failure> {
        if !kind.namespaced {
            return Ok(());
        }
        let key = Key::global(&NAMESPACES, namespace);
        let found = self.store.get(&key).map(|stored| stored.value());
        let found = found.ok_or_else(|| Failure::not_found(&NAMESPACES, namespace))?;
        if found["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let cause = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut failure = Failure::forbidden(kind, name, cause);
        failure.details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        Err(failure)
    }

    async fn admit(
        &self,
        kind: &'static Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Value, Failure> {
        match kind.kind {
            "Node" => Ok(admit::node(object)),
            "Pod" => {
                let account = self.service_account(namespace, &object).await;
                let class = object["spec"]["runtimeClassName"].as_str();
                let class = class.map(|class| Key::global(&RUNTIME_CLASSES, class));
                let class = class.and_then(|class| self.store.get(&class));
                let class = class.map(|class| class.value());
                let suffix = suffix();
                let surroundings = Surroundings {
                    service_account: account.as_ref(),
                    runtime_class: class.as_ref(),
                    suffix: &suffix,
                };
                admit::pod(object, surroundings)
            }
            _ => Ok(object),
        }
    }

    /// Waited for a little when it is the default one, which a controller makes.
    async fn service_account(&self, namespace: &str, pod: &Value) -> Option<Value> {
        let name = admit::service_account_name(pod);
        let key = Key::new(&SERVICE_ACCOUNTS, namespace, name);
        let looks = if name == "default" { ACCOUNT_LOOKS } else { 1 };
        for look in 0..looks {
            if look > 0 {
                self.clock.sleep(BETWEEN_LOOKS).await;
            }
            if let Some(found) = self.store.get(&key) {
                return Some(found.value());
            }
        }
        None
    }
}

/// Whether the name was made from `generateName`.
fn name_it(object: &mut Value) -> bool {
    let metadata = &mut object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if !text(&metadata["name"]).is_empty() {
        return false;
    }
    let mut base = text(&metadata["generateName"]);
    if base.is_empty() {
        // Validation says what is missing.
        return false;
    }
    let longest = LONGEST_GENERATED - SUFFIX_LENGTH;
    if base.len() > longest {
        let end = (0..=longest).rev().find(|end| base.is_char_boundary(*end));
        base.truncate(end.unwrap_or_default());
    }
    metadata["name"] = format!("{base}{}", suffix()).into();
    true
}

/// An object is in the namespace of its request.
pub(super) fn place_in(kind: &Kind, namespace: &str, object: &mut Value) -> Result<(), Failure> {
    let metadata = &mut object["metadata"];
    let own = metadata["namespace"].as_str().unwrap_or_default();
    if !own.is_empty() && own != namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if kind.namespaced {
        metadata["namespace"] = namespace.into();
    }
    Ok(())
}

/// Upstream's: what the requester says of itself does not count.
fn requested_by(request: &mut Value, user: Option<&User>) {
    let spec = &mut request["spec"];
    for field in ["username", "uid", "groups", "extra"] {
        super::updated::remove(spec, field);
    }
    if let Some(user) = user {
        spec["username"] = user.name.as_str().into();
        spec["uid"] = user.uid.as_str().into();
        spec["groups"] = user.groups.clone().into();
        spec["extra"] = json!(user.extra);
    }
}

fn suffix() -> String {
    let one = |_| char::from(SUFFIX_CHARACTERS[fastrand::usize(..SUFFIX_CHARACTERS.len())]);
    (0..SUFFIX_LENGTH).map(one).collect()
}

/// A random one (RFC 9562, version 4).
fn uid() -> String {
    let random = fastrand::u128(..);
    let version = (random & !(0xf << 76)) | (0x4 << 76);
    let id = (version & !(0x3 << 62)) | (0x2 << 62);
    let hex = format!("{id:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}
