//! From the bytes of a manifest to the pods that a node runs, or to the reason why
//! not.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use thiserror::Error;

use crate::decode::{self, DecodeError, Decoded};
use crate::defaults::{Origin, complete};
use crate::validate::{Problem, Reference, references, validate};

/// What manifests are read for.
#[derive(Clone, Debug)]
pub struct Rules {
    pub node: String,
    /// The gate `PreventStaticPodAPIReferences`.
    pub forbid_references: bool,
}

/// Why a manifest cannot be run. Names no place: who read it does.
#[derive(Debug, Error)]
pub enum ManifestError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("metadata.name is missing: every pod needs one")]
    NoName,
    #[error("the pod {name:?} is invalid: {}", listed(.problems))]
    Invalid {
        name: String,
        problems: Vec<Problem>,
    },
    #[error("the pod {name:?}: {reference}: use hostPath volumes and literal values")]
    Reference { name: String, reference: Reference },
}

fn listed(problems: &[Problem]) -> String {
    let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
    problems.join("; ")
}

/// A file: exactly one pod.
pub fn file(bytes: &[u8], path: &str, rules: &Rules) -> Result<Decoded<Arc<Pod>>, ManifestError> {
    let Decoded { content, notices } = decode::pod(bytes)?;
    let content = checked(content, Origin::File(path), rules)?;
    Ok(Decoded { content, notices })
}

/// What a URL gave: a pod or a list. One bad pod spoils the list, as it does upstream.
pub fn page(
    bytes: &[u8],
    url: &str,
    rules: &Rules,
) -> Result<Decoded<Vec<Arc<Pod>>>, ManifestError> {
    let Decoded { content, notices } = decode::pods(bytes)?;
    let pods = content.into_iter();
    let pods = pods.map(|pod| checked(pod, Origin::Url(url), rules));
    let content = pods.collect::<Result<_, _>>()?;
    Ok(Decoded { content, notices })
}

fn checked(pod: Pod, origin: Origin<'_>, rules: &Rules) -> Result<Arc<Pod>, ManifestError> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    if name.is_empty() {
        return Err(ManifestError::NoName);
    }
    let pod = complete(pod, origin, &rules.node);
    let problems = validate(&pod);
    if !problems.is_empty() {
        return Err(ManifestError::Invalid { name, problems });
    }
    let found = pod.spec.as_ref().filter(|_| rules.forbid_references);
    if let Some(reference) = found.and_then(references) {
        return Err(ManifestError::Reference { name, reference });
    }
    Ok(Arc::new(pod))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(forbid_references: bool) -> Rules {
        Rules {
            node: "n".to_owned(),
            forbid_references,
        }
    }

    #[test]
    fn a_manifest_that_cannot_be_run_says_why() {
        let manifest = |metadata: &str, spec: &str| {
            format!("apiVersion: v1\nkind: Pod\nmetadata: {{{metadata}}}\nspec: {{{spec}}}\n")
        };
        let cases = [
            (
                manifest("", ""),
                "metadata.name is missing: every pod needs one",
            ),
            (
                manifest("name: a", "restartPolicy: X, containers: []"),
                "the pod \"a\" is invalid: spec.restartPolicy: \"X\" is unknown: use one of Always, OnFailure, Never; spec.containers: there must be at least one",
            ),
            (
                manifest(
                    "name: a",
                    "serviceAccountName: s, containers: [{name: a, image: a}]",
                ),
                "the pod \"a\": static pods may not reference serviceaccounts: use hostPath volumes and literal values",
            ),
        ];
        for (text, expected) in &cases {
            let error = file(text.as_bytes(), "/a", &rules(true)).unwrap_err();
            assert_eq!(error.to_string(), *expected);
        }
        assert!(file(cases[2].0.as_bytes(), "/a", &rules(false)).is_ok());
    }
}
