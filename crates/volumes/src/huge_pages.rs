//! Huge pages as the medium of an emptyDir: which size of them. A pod that has some says
//! so among its requests, and a volume is of a size that is requested.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use thiserror::Error;
use types::Quantity;

/// Of the one size that the pod requests.
const ANY_SIZE: &str = "HugePages";
/// Of a size that the name goes on with.
const OF_SIZE: &str = "HugePages-";
/// What such requests begin with.
const RESOURCE: &str = "hugepages-";

/// Why a volume cannot be on huge pages. The words are upstream's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HugePagesError {
    #[error(
        "medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
    )]
    NotRequested { medium: String },
    #[error("medium: {medium} can't be used if container requests multiple huge page sizes")]
    SeveralSizes { medium: String },
    #[error("{problem}")]
    Size { problem: String },
}

pub(crate) fn is_medium(medium: &str) -> bool {
    medium == ANY_SIZE || medium.starts_with(OF_SIZE)
}

/// The bytes of a page.
pub(crate) fn page_size(medium: &str, pod: &Pod) -> Result<u64, HugePagesError> {
    let wanted = medium.strip_prefix(OF_SIZE).map(size).transpose()?;
    let mut found = None;
    for requested in requested_sizes(pod) {
        let requested = requested?;
        match wanted {
            Some(wanted) if wanted != requested => {}
            None if found.is_some_and(|found| found != requested) => {
                let medium = medium.to_owned();
                return Err(HugePagesError::SeveralSizes { medium });
            }
            _ => found = Some(requested),
        }
    }
    found.ok_or_else(|| HugePagesError::NotRequested {
        medium: medium.to_owned(),
    })
}

/// Of the pod as a whole, of its containers, and of those before them.
fn requested_sizes(pod: &Pod) -> impl Iterator<Item = Result<u64, HugePagesError>> {
    let spec = pod.spec.iter();
    let resources = spec.flat_map(|spec| {
        let init = spec.init_containers.iter().flatten();
        let containers = spec.containers.iter().chain(init);
        let of_containers = containers.filter_map(|container| container.resources.as_ref());
        spec.resources.iter().chain(of_containers)
    });
    let requests = resources.filter_map(|resources| resources.requests.as_ref());
    let names = requests.flat_map(BTreeMap::<String, ApiQuantity>::keys);
    names
        .filter_map(|name| name.strip_prefix(RESOURCE))
        .map(size)
}

fn size(text: &str) -> Result<u64, HugePagesError> {
    let size = text.parse::<Quantity>();
    let size = size.map_err(|problem| problem.to_string());
    let size = size.and_then(|size| {
        u64::try_from(size.value()).map_err(|_| format!("huge pages of {text} cannot be"))
    });
    size.map_err(|problem| HugePagesError::Size { problem })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::from_json;
    use serde_json::{Value, json};

    fn container(sizes: &[&str]) -> Value {
        let requests = sizes
            .iter()
            .map(|size| (format!("hugepages-{size}"), json!("4Mi")));
        let mut requests: BTreeMap<String, Value> = requests.collect();
        requests.insert("cpu".to_owned(), json!("1"));
        json!({"name": "c", "resources": {"requests": requests}})
    }

    #[test]
    fn a_volume_has_pages_of_the_size_that_the_pod_requests() {
        const MI: u64 = 1 << 20;
        let none = "hugePages storage requested, but there is no resource request for huge pages";
        let several =
            "medium: HugePages can't be used if container requests multiple huge page sizes";
        let cases = [
            (
                "HugePages",
                json!({"containers": [container(&["2Mi"])]}),
                Ok(2 * MI),
            ),
            (
                "HugePages",
                json!({"containers": [container(&["2Mi"]), container(&["2Mi"])]}),
                Ok(2 * MI),
            ),
            (
                "HugePages",
                json!({"containers": [container(&[])], "initContainers": [container(&["1Gi"])]}),
                Ok(1024 * MI),
            ),
            (
                "HugePages",
                json!({"containers": [container(&[])], "resources": container(&["2Mi"])["resources"]}),
                Ok(2 * MI),
            ),
            (
                "HugePages",
                json!({"containers": [container(&["2Mi"]), container(&["1Gi"])]}),
                Err(several.to_owned()),
            ),
            (
                "HugePages-1Gi",
                json!({"containers": [container(&["2Mi"]), container(&["1Gi"])]}),
                Ok(1024 * MI),
            ),
            (
                "HugePages-2Mi",
                json!({"containers": [container(&["1Gi"])]}),
                Err(format!("medium HugePages-2Mi: {none}")),
            ),
            (
                "HugePages",
                json!({"containers": [container(&[])]}),
                Err(format!("medium HugePages: {none}")),
            ),
        ];
        for (medium, spec, wanted) in cases {
            assert!(is_medium(medium));
            let pod: Pod = from_json(json!({"spec": spec}));
            let found = page_size(medium, &pod).map_err(|error| error.to_string());
            assert_eq!(found, wanted, "{medium} {spec}");
        }
        assert!(page_size("HugePages-many", &Pod::default()).is_err());
        assert!(!is_medium("HugePagesMany") && !is_medium("Memory"));
    }
}
