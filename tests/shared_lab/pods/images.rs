//! Images that need a program's word, and images that are volumes.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{Agent, Runtime};
use testkit::wait;

use super::stage::{SOON, Stage, main_of, shell, sleeper};

const PRIVATE: &str = "registry.lab:5000/private/pulled:1";
const OPEN: &str = "registry.lab:5000/open/pulled:1";

const CONFIG: &str = "/etc/kubernetes/credential-providers.yaml";
const PROGRAMS: &str = "/etc/kubernetes/credential-providers";

/// Writes down what it is asked, and knows the registry's password.
const PROVIDER: &str = r#"#!/bin/sh
cat >> /var/tmp/asked
echo "$REGION" "$@" >> /var/tmp/told
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",
"cacheKeyType":"Registry","auth":{"registry.lab:5000":{"username":"lab","password":"secret"}}}'
"#;

fn configuration(more: &str) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: provider
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ['registry.*:5000/private']
  defaultCacheDuration: 10m
  args: [--of-the-lab]
  env: [{{name: REGION, value: north}}]
{more}"
    )
}

/// A node whose agent has a credential provider plugin.
fn with_provider(name: &str, more: &str) -> Result<Stage> {
    let stage = Stage::bare(name, Runtime::Containerd2)?;
    let machine = stage.node.machine();
    let program = format!("{PROGRAMS}/provider");
    machine.write(&program, PROVIDER)?;
    machine.run("chmod", ["755", &program])?;
    machine.write(CONFIG, configuration(more))?;
    let flags = [
        format!("--image-credential-provider-config={CONFIG}"),
        format!("--image-credential-provider-bin-dir={PROGRAMS}"),
    ];
    let flags = flags.each_ref().map(String::as_str);
    stage.node.start_agent(Agent::Ferrolet, "", &flags)?;
    stage.node.wait_ready(SOON)?;
    Ok(stage)
}

fn with_image(image: &str, policy: &str) -> Value {
    let mut container = sleeper();
    container["image"] = json!(image);
    container["imagePullPolicy"] = json!(policy);
    container
}

#[test]
fn a_private_image_is_pulled_with_what_a_credential_provider_plugin_says() -> Result<()> {
    let stage = with_provider("pods-plugin", "")?;
    for name in ["one", "two"] {
        stage.create_pod(name, with_image(PRIVATE, "Always"), json!({}))?;
        stage.wait_ready(name)?;
    }
    let machine = stage.node.machine();
    let asked = machine.run("cat", ["/var/tmp/asked"])?;
    let wanted = "{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"image\":\"registry.lab:5000/private/pulled\"}\n";
    ensure!(asked == wanted, "once, as the answer is kept: {asked}");
    let told = machine.run("cat", ["/var/tmp/told"])?;
    ensure!(told == "north --of-the-lab\n", "{told}");
    stage.end()
}

#[test]
fn a_plugin_is_shown_a_token_of_the_pods_service_account() -> Result<()> {
    let attributes = "  tokenAttributes:
    serviceAccountTokenAudience: registry
    cacheType: ServiceAccount
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [registry/role]
";
    let stage = with_provider("pods-plugin-sa", attributes)?;
    let audience = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": format!("{}-audience", stage.namespace()) },
        "rules": [{
            "apiGroups": [""], "resources": ["registry"], "verbs": ["request-serviceaccounts-token-audience"],
        }],
    });
    stage.create(&audience)?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": format!("{}-audience", stage.namespace()) },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": format!("{}-audience", stage.namespace()),
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes",
        }],
    });
    stage.create(&binding)?;
    stage.run(&[
        "annotate",
        "serviceaccount",
        "default",
        "registry/role=reader",
    ])?;
    stage.create_pod("reader", with_image(PRIVATE, "IfNotPresent"), json!({}))?;
    stage.wait_ready("reader")?;
    let asked = stage.node.machine().run("cat", ["/var/tmp/asked"])?;
    let asked: Value = serde_json::from_str(asked.lines().next().unwrap_or_default())?;
    let annotations = json!({ "registry/role": "reader" });
    ensure!(asked["serviceAccountAnnotations"] == annotations, "{asked}");
    let token = asked["serviceAccountToken"].as_str().unwrap_or_default();
    ensure!(token.split('.').count() == 3, "it is no token");
    // Another account cannot use what this one's credentials have brought.
    stage.run(&["create", "serviceaccount", "other"])?;
    let other = json!({ "serviceAccountName": "other" });
    stage.create_pod("other", with_image(PRIVATE, "IfNotPresent"), other)?;
    stage.wait_pod("other", "refused", |pod| {
        let reason = main_of(pod)["state"]["waiting"]["reason"].as_str();
        matches!(reason, Some("ErrImagePull" | "ImagePullBackOff"))
    })?;
    for kind in ["clusterrole", "clusterrolebinding"] {
        let name = format!("{}-audience", stage.namespace());
        stage.run(&["delete", kind, &name])?;
    }
    stage.end()
}

#[test]
fn an_image_is_pulled_and_mounted_as_a_volume_or_the_pod_waits_and_says_why() -> Result<()> {
    let stage = Stage::ours("pods-image-volume", Runtime::Containerd2)?;
    let reads = |reference: &str| {
        let mut reader = shell("test -d /data && trap 'exit 0' TERM; while :; do sleep 0.2; done");
        reader["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
        let image = json!({ "reference": reference, "pullPolicy": "IfNotPresent" });
        (
            reader,
            json!({ "volumes": [{ "name": "data", "image": image }] }),
        )
    };
    let (reader, volumes) = reads(OPEN);
    stage.create_pod("reads", reader, volumes)?;
    stage.wait_ready("reads")?;
    stage.wait_event("reads", "Pulled", &format!("image \"{OPEN}\""))?;
    let id = stage.running()?["reads"][0].clone();
    let seen = stage.node.crictl(["exec", &id, "ls", "/data"])?;
    ensure!(!seen.trim().is_empty(), "the image is empty");
    let mounts = stage.node.crictl(["exec", &id, "cat", "/proc/mounts"])?;
    let data = mounts.lines().find(|line| line.contains(" /data "));
    ensure!(data.is_some_and(|line| line.contains(" ro,")), "{mounts}");

    let (reader, volumes) = reads("registry.lab:5000/failing/pulled:1");
    stage.create_pod("waits", reader, volumes)?;
    stage.wait_event("waits", "Failed", "Failed to pull image")?;
    stage.wait_event("waits", "Failed", "Error: ErrImagePull")?;
    wait::until("the pod to wait for its volume's image", SOON, || {
        let pod = stage.pod("waits")?;
        let reason = &main_of(&pod)["state"]["waiting"]["reason"];
        ensure!(reason == "ImagePullBackOff", "{reason}");
        Ok(())
    })?;
    stage.end()
}
