//! Certificate signing requests from the operator's side: make one, look into
//! one, say what stops it, approve it, deny it, wait for it.

mod approve_serving;
mod auto_approval;
mod create;
mod decide;
mod describe;
mod pkcs10;
mod serving;
mod structure;
mod subject;
mod wait;

pub use approve_serving::{Reviewed, ServingOutcome, approve_serving};
pub use auto_approval::{Access, AutoApproval, MissingRole, Recogniser, access, auto_approval};
pub use create::{CreateError, KeyType, NewRequest, default_usages, submit};
pub use decide::{DecideError, Decided, Decision, Word, decide, with_decision};
pub use describe::{Approval, Condition, Described, describe};
pub use pkcs10::{RequestContent, RequestFault};
pub use serving::{ServingRefusal, serving_approvable};
pub use structure::{StructuralFault, structural_faults};
pub use subject::{Subject, SubjectError};
pub use wait::{POLL_INTERVAL, WaitError, wait};

/// Clients of the API server that are not nodes; approved by people.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Nodes as clients; the auto-approver looks at these only.
pub const NODE_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Nodes as servers; never approved by the control plane itself.
pub const NODE_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

const NODE_PREFIX: &str = "system:node:";
const NODES_GROUP: &str = "system:nodes";
const DIGITAL_SIGNATURE: &str = "digital signature";
const KEY_ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

#[cfg(test)]
mod testdata;
