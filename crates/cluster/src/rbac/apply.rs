//! Roles and bindings in the cluster: made where they are missing, compared where
//! they are there, never changed.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Subject};
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{API_GROUP, RbacObject};
use crate::call::{CallError, CallProblem};

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub kind: &'static str,
    pub name: String,
    pub outcome: Outcome,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    /// It is there and allows what it should; what it allows besides.
    Present {
        also: Vec<String>,
    },
}

/// Why not all objects are as they should be. Those before it in the list are.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RbacError {
    #[error(
        "the {kind} {name} is there with another content: {}; correct it, or delete it and run this again",
        differences.join("; ")
    )]
    Differs {
        kind: &'static str,
        name: String,
        differences: Vec<String>,
    },
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Makes the objects, in their order. Running it again changes nothing.
pub async fn apply(client: &Client, objects: &[RbacObject]) -> Result<Vec<Applied>, RbacError> {
    let mut applied = Vec::with_capacity(objects.len());
    for object in objects {
        let outcome = match object {
            RbacObject::Role(role) => {
                let roles = Api::<ClusterRole>::all(client.clone());
                create_or_compare(&roles, object, role, compare_roles).await?
            }
            RbacObject::Binding(binding) => {
                let bindings = Api::<ClusterRoleBinding>::all(client.clone());
                create_or_compare(&bindings, object, binding, compare_bindings).await?
            }
        };
        applied.push(Applied {
            kind: object.kind(),
            name: object.name().to_owned(),
            outcome,
        });
    }
    Ok(applied)
}

/// What is missing, and what there is besides.
struct Comparison {
    differences: Vec<String>,
    also: Vec<String>,
}

async fn create_or_compare<T>(
    api: &Api<T>,
    object: &RbacObject,
    wanted: &T,
    compare: fn(&T, &T) -> Comparison,
) -> Result<Outcome, RbacError>
where
    T: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let named = || format!("the {} {}", object.kind(), object.name());
    let Err(cause) = api.create(&PostParams::default(), wanted).await else {
        return Ok(Outcome::Created);
    };
    let error = CallError::new("create", named(), &cause);
    if error.problem != CallProblem::AlreadyExists {
        return Err(error.into());
    }
    let found = api.get(object.name()).await;
    let found = found.map_err(|cause| CallError::new("read", named(), &cause))?;
    let Comparison { differences, also } = compare(wanted, &found);
    if differences.is_empty() {
        return Ok(Outcome::Present { also });
    }
    Err(RbacError::Differs {
        kind: object.kind(),
        name: object.name().to_owned(),
        differences,
    })
}

fn compare_bindings(wanted: &ClusterRoleBinding, found: &ClusterRoleBinding) -> Comparison {
    let mut differences = Vec::new();
    let (role, other) = (&wanted.role_ref, &found.role_ref);
    if (&role.kind, &role.name) != (&other.kind, &other.name) {
        differences.push(format!(
            "it binds the {} {} instead of the {} {}",
            other.kind, other.name, role.kind, role.name
        ));
    }
    let subjects = |binding: &ClusterRoleBinding| binding.subjects.clone().unwrap_or_default();
    let (wanted, found) = (subjects(wanted), subjects(found));
    let lacks = |subject: &&Subject| !found.iter().any(|other| is_same(subject, other));
    let missing = wanted.iter().filter(lacks);
    differences.extend(missing.map(|subject| format!("it is not for the {}", told(subject))));
    let extra = |subject: &&Subject| !wanted.iter().any(|other| is_same(subject, other));
    Comparison {
        differences,
        also: found.iter().filter(extra).map(told).collect(),
    }
}

fn told(subject: &Subject) -> String {
    format!("{} {}", subject.kind, subject.name)
}

/// The API server fills in the group of users and groups.
fn is_same(one: &Subject, other: &Subject) -> bool {
    let identity = |subject: &Subject| {
        let group = subject.api_group.clone();
        let group = group.unwrap_or_else(|| match subject.kind.as_str() {
            "User" | "Group" => API_GROUP.to_owned(),
            _ => String::new(),
        });
        let namespace = subject.namespace.clone().unwrap_or_default();
        (group, subject.kind.clone(), subject.name.clone(), namespace)
    };
    identity(one) == identity(other)
}

fn compare_roles(wanted: &ClusterRole, found: &ClusterRole) -> Comparison {
    let rules = |role: &ClusterRole| role.rules.clone().unwrap_or_default();
    let (wanted, found) = (rules(wanted), rules(found));
    let not_in = |rules: &[PolicyRule]| {
        let rules = rules.to_vec();
        move |rule: &&PolicyRule| !rules.contains(rule)
    };
    let words = |rule: &PolicyRule| {
        let resources = rule.resources.clone().unwrap_or_default();
        format!("{} {}", rule.verbs.join(","), resources.join(","))
    };
    let missing = wanted.iter().filter(not_in(&found));
    Comparison {
        differences: missing
            .map(|rule| format!("it has no rule \"{}\"", words(rule)))
            .collect(),
        also: found.iter().filter(not_in(&wanted)).map(words).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rbac::BootstrapRbac;
    use crate::testing::FakeApi;

    const BINDING: &str =
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kubeadm:kubelet-bootstrap";

    async fn applied(api: &FakeApi) -> Result<Vec<Applied>, RbacError> {
        apply(&api.client(), &BootstrapRbac::default().objects()).await
    }

    fn edit(api: &FakeApi, change: impl Fn(&mut Value)) {
        let mut object = api.get(BINDING).unwrap();
        change(&mut object);
        api.put(BINDING, object);
    }

    #[tokio::test]
    async fn what_is_missing_is_made_and_a_second_run_changes_nothing() {
        let api = FakeApi::new();
        let first = applied(&api).await.unwrap();
        assert_eq!(first.len(), 6);
        assert!(first.iter().all(|one| one.outcome == Outcome::Created));
        // As the API server stores it.
        edit(&api, |object| {
            object["subjects"][0]["apiGroup"] = json!("rbac.authorization.k8s.io");
        });
        let before = api.get(BINDING);
        let second = applied(&api).await.unwrap();
        let present = Outcome::Present { also: Vec::new() };
        assert!(
            second.iter().all(|one| one.outcome == present),
            "{second:?}"
        );
        assert_eq!(api.get(BINDING), before);
    }

    #[tokio::test]
    async fn a_binding_for_others_too_is_enough_and_they_are_named() {
        let api = FakeApi::new();
        applied(&api).await.unwrap();
        edit(&api, |object| {
            let more = json!({ "kind": "User", "name": "mary" });
            object["subjects"].as_array_mut().unwrap().push(more);
        });
        let outcomes = applied(&api).await.unwrap();
        let also = vec!["User mary".to_owned()];
        assert_eq!(outcomes[2].outcome, Outcome::Present { also });
    }

    #[tokio::test]
    async fn what_differs_is_told_precisely_and_left_alone() {
        let api = FakeApi::new();
        applied(&api).await.unwrap();
        edit(&api, |object| {
            object["roleRef"]["name"] = json!("view");
            object["subjects"] = json!([{ "kind": "Group", "name": "x" }]);
        });
        let before = api.get(BINDING);
        let error = applied(&api).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the ClusterRoleBinding kubeadm:kubelet-bootstrap is there with another content: \
             it binds the ClusterRole view instead of the ClusterRole system:node-bootstrapper; \
             it is not for the Group system:bootstrappers:kubeadm:default-node-token; \
             correct it, or delete it and run this again"
        );
        assert_eq!(api.get(BINDING), before);
    }

    #[tokio::test]
    async fn a_user_who_may_not_is_told_which_object() {
        let api = FakeApi::new();
        api.forbid("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings");
        let error = applied(&api).await.unwrap_err().to_string();
        assert!(
            error.starts_with("cannot create the ClusterRoleBinding kubeadm:get-nodes: "),
            "{error}"
        );
    }
}
