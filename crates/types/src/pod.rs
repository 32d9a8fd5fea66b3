//! Who a pod is.

use std::fmt;
use std::sync::Arc;

/// A pod for its whole life: another of the same name has another uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodUid(Arc<str>);

impl PodUid {
    pub fn new(uid: &str) -> Self {
        Self(Arc::from(uid))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A pod's name and namespace. Static pods of one name follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
}

/// As the kubelet writes it: `name_namespace`.
impl fmt::Display for PodName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}_{}", self.name, self.namespace)
    }
}

/// A pod, named for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodRef {
    pub name: PodName,
    pub uid: PodUid,
}

/// As the kubelet writes it: `name_namespace(uid)`.
impl fmt::Display for PodRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}({})", self.name, self.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_written_as_the_kubelet_writes_it() {
        let pod = PodRef {
            name: PodName {
                namespace: "kube-system".to_owned(),
                name: "etcd-a".to_owned(),
            },
            uid: PodUid::new("1-2"),
        };
        assert_eq!(pod.to_string(), "etcd-a_kube-system(1-2)");
    }
}
