//! Certificates of trust bundles, as a file of a projected volume: those of one bundle,
//! or of all that a signer has and a selector matches; each once, in an order that
//! nobody can rely on.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::ClusterTrustBundleProjection;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use pem::{EncodeConfig, LineEnding, Pem};
use thiserror::Error;

/// Why there are no certificates. The words are upstream's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TrustAnchorsError {
    #[error(
        "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io {name:?} not found"
    )]
    NoBundle { name: String },
    #[error("combination of signerName and labelSelector matched zero ClusterTrustBundles")]
    NoneMatches,
    #[error("while parsing label selector: {operator:?} is not a valid label selector operator")]
    Operator { operator: String },
    #[error("ClusterTrustBundle projection requires either name or signerName to be set")]
    Unnamed,
}

/// The certificates that a projection asks for. `order` is the same as long as the
/// agent runs, so that a file is not written anew for nothing.
pub(crate) fn anchors(
    source: &ClusterTrustBundleProjection,
    bundles: &BTreeMap<String, ClusterTrustBundle>,
    order: u64,
) -> Result<Vec<u8>, TrustAnchorsError> {
    let chosen = match (&source.name, &source.signer_name) {
        (Some(name), _) => match bundles.get(name) {
            None if source.optional != Some(true) => {
                let name = name.clone();
                return Err(TrustAnchorsError::NoBundle { name });
            }
            bundle => bundle.into_iter().collect(),
        },
        (None, Some(signer)) => {
            let chosen = of_signer(signer, source.label_selector.as_ref(), bundles)?;
            if chosen.is_empty() && source.optional != Some(true) {
                return Err(TrustAnchorsError::NoneMatches);
            }
            chosen
        }
        (None, None) => return Err(TrustAnchorsError::Unnamed),
    };
    Ok(merged(&chosen, order))
}

fn of_signer<'a>(
    signer: &str,
    selector: Option<&LabelSelector>,
    bundles: &'a BTreeMap<String, ClusterTrustBundle>,
) -> Result<Vec<&'a ClusterTrustBundle>, TrustAnchorsError> {
    let mut chosen = Vec::new();
    for bundle in bundles.values() {
        let labels = bundle.metadata.labels.as_ref();
        let is_matched = matches(selector, labels.unwrap_or(&BTreeMap::new()))?;
        if is_matched && bundle.spec.signer_name.as_deref() == Some(signer) {
            chosen.push(bundle);
        }
    }
    Ok(chosen)
}

/// No selector matches nothing, an empty one everything.
fn matches(
    selector: Option<&LabelSelector>,
    labels: &BTreeMap<String, String>,
) -> Result<bool, TrustAnchorsError> {
    let Some(selector) = selector else {
        return Ok(false);
    };
    let mut wanted = selector.match_labels.iter().flatten();
    let mut all = wanted.all(|(key, value)| labels.get(key) == Some(value));
    for requirement in selector.match_expressions.iter().flatten() {
        all &= is_met(requirement, labels)?;
    }
    Ok(all)
}

fn is_met(
    requirement: &LabelSelectorRequirement,
    labels: &BTreeMap<String, String>,
) -> Result<bool, TrustAnchorsError> {
    let value = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_among = value.is_some_and(|value| values.contains(value));
    match requirement.operator.as_str() {
        "In" => Ok(is_among),
        "NotIn" => Ok(!is_among),
        "Exists" => Ok(value.is_some()),
        "DoesNotExist" => Ok(value.is_none()),
        operator => Err(TrustAnchorsError::Operator {
            operator: operator.to_owned(),
        }),
    }
}

/// The API server lets nothing but certificates through.
fn merged(bundles: &[&ClusterTrustBundle], order: u64) -> Vec<u8> {
    let bundles = bundles.iter();
    let blocks = bundles.flat_map(|bundle| pem::parse_many(&bundle.spec.trust_bundle));
    let certificates: BTreeSet<Vec<u8>> = blocks.flatten().map(Pem::into_contents).collect();
    let mut certificates: Vec<Vec<u8>> = certificates.into_iter().collect();
    certificates.sort_by_cached_key(|certificate| {
        let mut hasher = DefaultHasher::new();
        (order, certificate).hash(&mut hasher);
        hasher.finish()
    });
    let unix = EncodeConfig::new().set_line_ending(LineEnding::LF);
    let certificates = certificates.into_iter();
    let texts = certificates.map(|content| Pem::new("CERTIFICATE", content));
    let texts = texts.map(|block| pem::encode_config(&block, unix));
    texts.collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::from_json;
    use serde_json::{Value, json};

    /// Of one byte: whatever is in it, to us it is a certificate.
    fn certificate(text: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }

    fn bundles() -> BTreeMap<String, ClusterTrustBundle> {
        let bundle = |name: &str, signer: Option<&str>, labels: Value, text: String| {
            let bundle = from_json(json!({
                "metadata": {"name": name, "labels": labels},
                "spec": {"signerName": signer, "trustBundle": text}
            }));
            (name.to_owned(), bundle)
        };
        let (a, b, c) = (
            certificate("QQ=="),
            certificate("Qg=="),
            certificate("Qw=="),
        );
        let signer = Some("s.io/x");
        [
            bundle("plain", None, json!({}), format!("{b}said between\n{a}")),
            bundle(
                "s.io:x:1",
                signer,
                json!({"v": "1", "live": "y"}),
                a.clone() + &b,
            ),
            bundle("s.io:x:2", signer, json!({"v": "2"}), b + &c),
            bundle("other", Some("o.io/y"), json!({"v": "1"}), c),
        ]
        .into()
    }

    /// The letters of the certificates, sorted.
    fn found(source: Value) -> Result<String, String> {
        let mut source: ClusterTrustBundleProjection = from_json(source);
        "t".clone_into(&mut source.path);
        let content = anchors(&source, &bundles(), 7).map_err(|error| error.to_string())?;
        let blocks = pem::parse_many(&content).unwrap();
        assert!(!content.contains(&b'\r'));
        let mut letters: Vec<u8> = blocks.iter().map(|block| block.contents()[0]).collect();
        letters.sort_unstable();
        Ok(String::from_utf8(letters).unwrap())
    }

    #[test]
    fn certificates_are_those_of_a_bundle_or_of_all_that_match_each_once() {
        let by = |selector: Value| json!({"path": "t", "signerName": "s.io/x", "labelSelector": selector});
        let expression = |key: &str, operator: &str, values: Value| {
            by(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        let none = "combination of signerName and labelSelector matched zero ClusterTrustBundles";
        let cases = [
            (json!({"path": "t", "name": "plain"}), Ok("AB")),
            (
                json!({"path": "t", "name": "none"}),
                Err(
                    "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io \"none\" not found",
                ),
            ),
            (
                json!({"path": "t", "name": "none", "optional": true}),
                Ok(""),
            ),
            (by(json!({})), Ok("ABC")),
            (by(Value::Null), Err(none)),
            (by(json!({"matchLabels": {"v": "1"}})), Ok("AB")),
            (by(json!({"matchLabels": {"v": "3"}})), Err(none)),
            (expression("v", "In", json!(["2", "3"])), Ok("BC")),
            (expression("v", "NotIn", json!(["2"])), Ok("AB")),
            (expression("live", "Exists", json!(null)), Ok("AB")),
            (expression("live", "DoesNotExist", json!(null)), Ok("BC")),
            (
                expression("v", "Like", json!(["2"])),
                Err(
                    "while parsing label selector: \"Like\" is not a valid label selector operator",
                ),
            ),
            (
                json!({"path": "t", "signerName": "n.io/z", "labelSelector": {}, "optional": true}),
                Ok(""),
            ),
            (
                json!({"path": "t"}),
                Err("ClusterTrustBundle projection requires either name or signerName to be set"),
            ),
        ];
        for (source, wanted) in cases {
            let wanted = wanted.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(found(source.clone()), wanted, "{source}");
        }
    }

    #[test]
    fn the_order_is_the_same_for_one_agent_and_another_for_others() {
        let source = from_json(json!({"path": "t", "signerName": "s.io/x", "labelSelector": {}}));
        let of = |order| anchors(&source, &bundles(), order).unwrap();
        assert_eq!(of(1), of(1));
        let orders: BTreeSet<Vec<u8>> = (0..100).map(of).collect();
        assert_eq!(orders.len(), 6, "three certificates in any order");
    }
}
