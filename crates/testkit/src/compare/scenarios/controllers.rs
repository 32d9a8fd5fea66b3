//! Pods as controllers make, replace and remove them.

use serde_json::{Value, json};

use super::super::manifest::{FOREVER, pod};
use super::super::scenario::Scenario;
use super::super::stage::is_ready;

const APPS: &str = "/apis/apps/v1";

fn apps(kind: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

fn env_of(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["env"][0]["value"]
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("deployment", "two replicas, and then none", |stage| {
        let template = stage.here(pod("", FOREVER)).template("web");
        let spec = json!({"replicas": 2, "template": template});
        stage.make(APPS, "deployments", &apps("Deployment", &spec))?;
        stage.until("two ready pods", |view| {
            view.pods().into_iter().filter(|pod| is_ready(pod)).count() == 2
        })?;
        stage.patch(APPS, "deployments/web", &json!({"spec": {"replicas": 0}}))?;
        stage.until("no pods", |view| view.pods().is_empty())
    }),
    Scenario::new(
        "deployment-rollout",
        "a new template replaces pods one by one",
        |stage| {
            let first = json!({"env": [{"name": "V", "value": "1"}]});
            let template = stage.here(pod("", FOREVER).main(&first)).template("web");
            let spec = json!({"replicas": 2, "template": template});
            stage.make(APPS, "deployments", &apps("Deployment", &spec))?;
            stage.until("two ready pods", |view| {
                view.pods().into_iter().filter(|pod| is_ready(pod)).count() == 2
            })?;
            let second = json!([{"name": "main", "env": [{"name": "V", "value": "2"}]}]);
            let change = json!({"spec": {"template": {"spec": {"containers": second}}}});
            stage.patch(APPS, "deployments/web", &change)?;
            stage.until(
                "two ready pods of the new template, and no others",
                |view| {
                    let pods = view.pods();
                    pods.len() == 2 && pods.iter().all(|pod| is_ready(pod) && env_of(pod) == "2")
                },
            )
        },
    ),
    Scenario::new(
        "daemon-set",
        "a pod of a DaemonSet, placed by the scheduler",
        |stage| {
            let node = json!({"nodeSelector": {"kubernetes.io/hostname": stage.node_name()}});
            let template = pod("", FOREVER).spec(&node).template("web");
            stage.make(
                APPS,
                "daemonsets",
                &apps("DaemonSet", &json!({"template": template})),
            )?;
            stage.until("a ready pod", |view| view.pods().into_iter().any(is_ready))?;
            stage.remove(APPS, "daemonsets/web")?;
            stage.until("no pods", |view| view.pods().is_empty())
        },
    ),
    Scenario::new(
        "stateful-set",
        "names that stay, one after the other",
        |stage| {
            let template = stage.here(pod("", FOREVER)).template("web");
            let spec = json!({"replicas": 2, "serviceName": "web", "template": template});
            stage.make(APPS, "statefulsets", &apps("StatefulSet", &spec))?;
            stage.running("web-0")?;
            stage.running("web-1")?;
            stage.delete("web-0", None)?;
            stage.until("web-0 to be another, and ready", |view| {
                view.lives("web-0") == 2 && view.pod("web-0").is_some_and(is_ready)
            })
        },
    ),
    Scenario::new("job", "two completions, one after the other", |stage| {
        let template = stage.here(pod("", "sleep 2").once()).template("web");
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "web"},
            "spec": {"completions": 2, "parallelism": 1, "template": template},
        });
        stage.make("/apis/batch/v1", "jobs", &job)?;
        stage.until("two pods that have succeeded", |view| {
            let pods = view.pods().into_iter();
            pods.filter(|pod| pod["status"]["phase"] == "Succeeded")
                .count()
                == 2
        })
    }),
];
