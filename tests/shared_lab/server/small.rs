//! The small endpoints, ours and upstream's, asked the same by somebody who may.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::lab::{Agent, Lab, Node, Runtime};

use super::door::{self, Answer};
use super::profiles;

const READY: Duration = Duration::from_secs(90);

/// What the role of the API server's client leaves out and these questions need.
const RIGHTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: small-reader}
rules:
- {apiGroups: [""], resources: [nodes/statusz], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: small-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: small-reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: kube-apiserver-kubelet-client}
"#;

/// Answers that are to be the same to the byte.
const SAME: &[&[&str]] = &[
    &["/healthz"],
    &["/healthz/ping"],
    &["/healthz/log"],
    &["/healthz/syncloop"],
    &["--request", "POST", "/healthz?exclude=nope"],
    &["/nope"],
    &["/runningpods"],
    &["//pods?x=1"],
    &["--request", "POST", "//pods"],
    &["/pods/x"],
    &["--request", "POST", "/pods"],
    &["--header", "Accept: text/html", "/pods"],
    &["/stats"],
    &["/exec"],
    &["/debug/flags/v"],
    &["--request", "PUT", "--data", "3", "/debug/flags/v"],
    &["--header", "Accept: application/xml", "/statusz"],
    &["--header", "Accept: application/xml", "/flagz"],
    &["--header", "Accept: application/json", "/flagz"],
    &[
        "--user-agent",
        "x",
        "--header",
        "Accept: application/json",
        "/statusz",
    ],
    &[
        "--header",
        "Accept: application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
        "/flagz",
    ],
];

/// Objects whose fields are to be the same, by path and what is accepted.
const OBJECTS: &[(&str, &str)] = &[
    ("/pods", "*/*"),
    (
        "/flagz",
        "application/json;as=Flagz;v=v1alpha1;g=config.k8s.io",
    ),
    ("/statusz", "*/*;as=Statusz;v=v1beta1;g=config.k8s.io"),
    (
        "/flagz",
        "application/json;as=Flagz;v=v1beta1;g=config.k8s.io",
    ),
    (
        "/statusz",
        "application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
    ),
    (
        "/statusz",
        "application/json;as=Statusz;v=v1alpha1;g=config.k8s.io",
    ),
];

/// Checks of health that upstream has and we do not, and why.
const UNCHECKED: &[(&str, &str)] = &[(
    "device-plugin",
    "there is nobody yet with whom device plugins could register: nothing to vouch for",
)];

/// Everything that can be asked for through the API server's proxy.
const PROXIED: &[&str] = &[
    "healthz",
    "healthz/ping",
    "healthz/log",
    "healthz/syncloop",
    "pods",
    "runningpods/",
    "configz",
    "stats/summary",
    "stats/summary?only_cpu_and_memory=true",
    "metrics",
    "metrics/cadvisor",
    "metrics/resource",
    "metrics/probes",
    "metrics/slis",
    "logs/",
    "statusz",
    "flagz",
    "debug/pprof/cmdline",
    "debug/flags/v",
    "containerLogs/default/nope/c",
    "nope",
];

#[test]
fn the_small_endpoints_answer_as_upstreams_do() -> Result<()> {
    let lab = Lab::shared()?;
    let theirs = lab.node("small-theirs", Runtime::Containerd2)?;
    let ours = lab.node("small-ours", Runtime::Containerd2)?;
    theirs.start_agent(Agent::Upstream, "", &[])?;
    ours.start_agent(Agent::Ferrolet, "", &[])?;
    lab.kubectl().apply(RIGHTS)?;
    let mut wrong = BTreeMap::new();
    for node in [&theirs, &ours] {
        node.wait_ready(READY)?;
        door::lend_certificate(&lab, node)?;
    }
    for request in SAME {
        let [theirs, ours] = [&theirs, &ours].map(|node| asked(node, request));
        let (theirs, ours) = (theirs?, ours?);
        if theirs != ours {
            wrong.insert(
                request.join(" "),
                format!("upstream {theirs:?}\n  ours     {ours:?}"),
            );
        }
    }
    for (path, accept) in OBJECTS {
        let key = format!("{path} {accept}");
        let accept = format!("Accept: {accept}");
        let [theirs, ours] = [&theirs, &ours].map(|node| {
            let answer = asked(node, &["--header", &accept, path])?;
            let object: Value = serde_json::from_str(&answer.body)
                .with_context(|| format!("{path}: {answer:?}"))?;
            let warning = answer.headers.get("warning").cloned();
            let media = answer.headers.get("content-type").cloned();
            Ok::<_, anyhow::Error>((keys(&object), warning, media, object))
        });
        let (theirs, ours) = (theirs?, ours?);
        if (&theirs.0, &theirs.1, &theirs.2) != (&ours.0, &ours.1, &ours.2) {
            let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
                one.difference(other).cloned().collect::<Vec<_>>()
            };
            let how = format!(
                "upstream alone {:?} {:?} {:?}, ours alone {:?} {:?} {:?}",
                only(&theirs.0, &ours.0),
                theirs.1,
                theirs.2,
                only(&ours.0, &theirs.0),
                ours.1,
                ours.2
            );
            wrong.insert(key, how);
        }
        println!(
            "{path}: {} {}",
            theirs.3.to_string().get(..600).unwrap_or(""),
            ours.3.to_string().get(..600).unwrap_or("")
        );
    }
    let [their_config, our_config] = [&theirs, &ours].map(|node| {
        let answer = asked(node, &["/configz"])?;
        let object: Value = serde_json::from_str(&answer.body)?;
        Ok::<_, anyhow::Error>((answer.headers, object))
    });
    let (their_config, our_config) = (their_config?, our_config?);
    if their_config.1 != our_config.1 {
        let how = format!("upstream {}\n  ours     {}", their_config.1, our_config.1);
        wrong.insert("/configz".to_owned(), how);
    }
    health(&theirs, &ours)?;
    profiles::compare(&theirs, &ours)?;
    for path in ["/statusz", "/flagz", "/debug/pprof/tasks"] {
        let answer = asked(&ours, &[path])?;
        println!("{path}: {}", answer.body.get(..500).unwrap_or(&answer.body));
        ensure!(answer.status == "200", "{path}: {answer:?}");
    }
    for path in PROXIED {
        let [theirs, ours] = [&theirs, &ours].map(|node| proxied(&lab, node, path));
        if theirs != ours {
            let how = format!("upstream {theirs:?}\n  ours     {ours:?}");
            wrong.insert(format!("{path} through the API server"), how);
        }
    }
    ensure!(wrong.is_empty(), "{} differ: {wrong:#?}", wrong.len());
    theirs.remove()?;
    ours.remove()
}

/// The checks of a node by their names, all together and one by one.
fn health(theirs: &Node, ours: &Node) -> Result<()> {
    for query in ["verbose", "verbose&exclude=log", "verbose&exclude=nope"] {
        let path = format!("/healthz?{query}");
        let [theirs, ours] = [theirs, ours].map(|node| asked(node, &[&path]));
        let (mut theirs, ours) = (theirs?, ours?);
        for (check, _) in UNCHECKED {
            let line = format!("[+]{check} ok\n");
            ensure!(theirs.body.contains(&line), "no {check}: {theirs:?}");
            theirs.body = theirs.body.replace(&line, "");
        }
        ensure!(theirs == ours, "upstream {theirs:?}\nours     {ours:?}");
    }
    for (check, _) in UNCHECKED {
        let path = format!("/healthz/{check}");
        let [theirs, ours] = [theirs, ours].map(|node| asked(node, &[&path]));
        let (theirs, ours) = (theirs?, ours?);
        ensure!(theirs.status == "200", "upstream {check}: {theirs:?}");
        // What is not there is not said to be well.
        ensure!(ours.status == "404", "{check}: {ours:?}");
    }
    Ok(())
}

/// Whether there is an answer, or in which words there is none.
fn proxied(lab: &Lab, node: &Node, path: &str) -> Result<(), String> {
    let name = node.name();
    let said = door::through_api(&lab.kubectl(), node, &format!("/{path}"));
    let said = said.map_err(|error| format!("{error:#}").replace(name, "NODE"))?;
    if said.is_empty() {
        return Err("nothing".to_owned());
    }
    Ok(())
}

/// The names of everything in an object, and in every entry of its lists.
fn keys(value: &Value) -> BTreeSet<String> {
    fn walk(path: &str, value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let path = format!("{path}.{key}");
                    walk(&path, value, into);
                    into.insert(path);
                }
            }
            Value::Array(list) => {
                for value in list {
                    walk(&format!("{path}[]"), value, into);
                }
            }
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    walk("", value, &mut found);
    found
}

/// What somebody who may ask is answered: options of curl, and a path.
fn asked(node: &Node, request: &[&str]) -> Result<Answer> {
    let mut answer = door::asked(node, request)?;
    // Who knows the length says it.
    answer.headers.remove("content-length");
    answer.headers.remove("transfer-encoding");
    Ok(answer)
}
