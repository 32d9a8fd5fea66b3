//! `ferrolet csr list`.

use std::time::SystemTime;

use cluster::CallError;
use cluster::csr::{Described, RequestContent, describe};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::ListParams;

use super::KIND;
use crate::cluster_access::{self, ClusterArguments};
use crate::kubelet::say;
use crate::output::{Failure, Format, ListFormat, Table, age, lines, print, rendered_list};

pub(super) fn run(cluster: &ClusterArguments, output: Option<ListFormat>) -> Result<(), Failure> {
    cluster_access::run(cluster, async |access| {
        let requests: Api<CertificateSigningRequest> = Api::all(access.client.clone());
        let found = requests.list(&ListParams::default()).await;
        let found = found.map_err(|cause| CallError::new("list", "requests", &cause))?;
        if found.items.is_empty() && output.is_none() {
            say("No requests found");
            return Ok(());
        }
        print(&match output {
            None => table(&found.items, access.now()),
            Some(ListFormat::Json) => rendered_list(Format::Json, &found.items)?,
            Some(ListFormat::Yaml) => rendered_list(Format::Yaml, &found.items)?,
            Some(ListFormat::Name) => names(&found.items),
        })
    })
}

fn names(requests: &[CertificateSigningRequest]) -> String {
    let name = |csr: &CertificateSigningRequest| csr.metadata.name.clone().unwrap_or_default();
    lines(requests.iter().map(|csr| format!("{KIND}/{}", name(csr))))
}

/// kubectl's columns, and what is asked for.
fn table(requests: &[CertificateSigningRequest], now: SystemTime) -> String {
    let mut table = Table::new([
        "NAME",
        "AGE",
        "SIGNERNAME",
        "REQUESTOR",
        "REQUESTEDDURATION",
        "CONDITION",
        "SUBJECT",
        "NAMES",
    ]);
    for request in requests.iter().map(describe) {
        let (subject, names) = asked(&request);
        let condition = request.condition.to_string();
        table.add([
            request.name.clone(),
            request.age(now).map_or("<unknown>".to_owned(), age),
            request.signer,
            request.requester,
            request.wished_life.map_or(String::new(), age),
            condition,
            subject,
            names,
        ]);
    }
    table.to_string()
}

fn asked(request: &Described) -> (String, String) {
    match &request.content {
        Ok(content) => (
            content.subject.clone(),
            alternative_names(content).join(","),
        ),
        Err(_) => ("<unreadable>".to_owned(), String::new()),
    }
}

/// All kinds together, in their order in kubectl's description.
fn alternative_names(content: &RequestContent) -> Vec<String> {
    let addresses = content.addresses.iter().map(ToString::to_string);
    let names = content.dns_names.iter().cloned().chain(addresses);
    let others = content.emails.iter().chain(&content.uris).cloned();
    names
        .chain(others)
        .chain(content.other_names.iter().cloned())
        .collect()
}
