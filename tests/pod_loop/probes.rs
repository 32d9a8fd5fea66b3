//! Probes over the simulated runtime and its network: what becomes of containers by what
//! they answer, and what does not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::runtime::Act;
use crate::scenes::Scene;

/// Time for a young agent to have spread its first questions.
const SETTLED: u64 = 20;

fn container(name: &str, more: &Value) -> Value {
    let mut container = json!({ "name": name, "image": "nginx", "imagePullPolicy": "Always" });
    let more = more.as_object().cloned().unwrap_or_default();
    container.as_object_mut().unwrap().extend(more);
    container
}

fn probe(what: &Value) -> Value {
    let mut probe = json!({
        "periodSeconds": 1, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3,
    });
    let what = what.as_object().cloned().unwrap_or_default();
    probe.as_object_mut().unwrap().extend(what);
    probe
}

/// All that can be asked of a pod.
fn every_way() -> [Value; 4] {
    [
        json!({ "exec": { "command": ["cat", "/ready"] } }),
        json!({ "httpGet": { "port": 80, "path": "/" } }),
        json!({ "tcpSocket": { "port": 80 } }),
        json!({ "grpc": { "port": 80 } }),
    ]
}

fn notes(story: &[(&str, &str)]) -> Value {
    let notes = story
        .iter()
        .map(|(key, value)| (format!("sim.ferrolet.dev/{key}"), json!(value)));
    Value::Object(notes.collect())
}

async fn scene() -> Scene {
    let scene = Scene::new();
    scene.pass(SETTLED).await;
    scene
}

/// When a container was started, and when it was asked to end and with which grace; in
/// seconds since the first start.
fn times(scene: &Scene, uid: &str, name: &str) -> (Vec<f64>, Vec<(f64, i64)>) {
    let calls = scene.node.runtime.calls();
    let of = |act: Act| {
        let own = calls.iter().filter(move |call| call.act == act);
        own.filter(|call| call.uid == uid && call.container == name)
    };
    let first = of(Act::Start)
        .next()
        .map(|call| call.at)
        .unwrap_or_default();
    let since = |at: Duration| at.saturating_sub(first).as_secs_f64().ceil();
    let starts = of(Act::Start).map(|call| since(call.at)).collect();
    let stops = of(Act::Stop).map(|call| (since(call.at), call.grace));
    (starts, stops.collect())
}

#[tokio::test(start_paused = true)]
async fn in_each_way_a_container_that_answers_is_left_alone_and_one_that_does_not_is_not() {
    for way in every_way() {
        let mut scene = scene().await;
        let live = container("c", &json!({ "livenessProbe": probe(&way) }));
        let spec = json!({ "containers": [live] });
        scene.put("well", &notes(&[]), &spec, 0).await;
        scene
            .put("ill", &notes(&[("never-ready", "true")]), &spec, 12)
            .await;
        assert_eq!(scene.count(Act::Start, "well", "c"), 1, "{way}");
        assert_eq!(scene.count(Act::Stop, "well", "c"), 0, "{way}");
        let (starts, stops) = times(&scene, "ill", "c");
        assert!(starts.len() >= 2, "{way}: {starts:?}");
        assert_eq!(stops[0].1, 30, "{way}");
        assert!((2.0..=5.0).contains(&stops[0].0), "{way}: {stops:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_bad_counts_like_none() {
    let mut scene = scene().await;
    for (uid, way) in [("http", 1), ("grpc", 3)] {
        let live = probe(&every_way()[way]);
        let spec = json!({ "containers": [container("c", &json!({ "livenessProbe": live }))] });
        scene.put(uid, &notes(&[("http", "503")]), &spec, 12).await;
        assert!(scene.count(Act::Stop, uid, "c") >= 1, "{uid}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_starts_slowly_is_given_its_time() {
    let mut scene = scene().await;
    let start = probe(&json!({
        "failureThreshold": 20, "httpGet": { "port": 80, "path": "/" },
    }));
    let live = probe(&json!({ "httpGet": { "port": 80, "path": "/" } }));
    let both = container(
        "c",
        &json!({ "startupProbe": start, "livenessProbe": live }),
    );
    let spec = json!({ "containers": [both] });
    scene
        .put("slow", &notes(&[("ready-after", "15s")]), &spec, 60)
        .await;
    assert_eq!(scene.count(Act::Start, "slow", "c"), 1);
    assert_eq!(scene.count(Act::Stop, "slow", "c"), 0);
    // Without it the same is ended long before.
    let alone = container("c", &json!({ "livenessProbe": live }));
    let spec = json!({ "containers": [alone] });
    scene
        .put("rash", &notes(&[("ready-after", "15s")]), &spec, 12)
        .await;
    assert!(scene.count(Act::Stop, "rash", "c") >= 1);
}

#[tokio::test(start_paused = true)]
async fn probes_that_a_pod_is_given_or_loses_by_an_edit_count() {
    let mut scene = scene().await;
    let way = probe(&json!({ "httpGet": { "port": 80, "path": "/" } }));
    let start = probe(&json!({
        "failureThreshold": 9, "httpGet": { "port": 80, "path": "/" },
    }));
    let of = |more: &Value| json!({ "containers": [container("c", more)] });
    let story = notes(&[("run-time", "30s"), ("ready-after", "3s")]);
    let none = of(&json!({}));
    let before = of(&json!({ "readinessProbe": way }));
    scene.put("pod", &story, &before, 5).await;
    // The next container starts with a startup probe: until it answers, and then it is ready.
    scene
        .put(
            "pod",
            &story,
            &of(&json!({ "startupProbe": start, "readinessProbe": way })),
            40,
        )
        .await;
    assert_eq!(scene.count(Act::Start, "pod", "c"), 2);
    let said = &scene.said("pod")["containerStatuses"][0];
    assert_eq!(
        (&said["started"], &said["ready"]),
        (&json!(true), &json!(true)),
        "{said}"
    );
    let story = notes(&[("never-ready", "true")]);
    let live = of(&json!({ "livenessProbe": way }));
    scene.put("ill", &story, &none, 10).await;
    assert_eq!(scene.count(Act::Stop, "ill", "c"), 0);
    scene.put("ill", &story, &live, 10).await;
    assert!(scene.count(Act::Stop, "ill", "c") >= 1);
    // It has failed once or twice when the probe is taken away: it is never ended for it.
    scene.put("spared", &story, &none, 10).await;
    scene.put("spared", &story, &live, 1).await;
    scene.put("spared", &story, &none, 30).await;
    assert_eq!(scene.count(Act::Stop, "spared", "c"), 0);
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_a_sidecar_waits_for_its_startup_probe() {
    let mut scene = scene().await;
    let start = probe(&json!({
        "failureThreshold": 20, "exec": { "command": ["cat", "/ready"] },
    }));
    let side = container(
        "side",
        &json!({ "restartPolicy": "Always", "startupProbe": start }),
    );
    let spec = json!({ "initContainers": [side], "containers": [container("c", &json!({}))] });
    let story = notes(&[("ready-after.side", "7s")]);
    scene.put("pod", &story, &spec, 5).await;
    assert_eq!(scene.count(Act::Start, "pod", "c"), 0);
    scene.pass(10).await;
    assert_eq!(scene.count(Act::Start, "pod", "c"), 1);
    assert_eq!(scene.count(Act::Start, "pod", "side"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_ill_again_and_again_waits_longer_and_longer() {
    let mut scene = scene().await;
    let live = probe(&json!({
        "failureThreshold": 2, "terminationGracePeriodSeconds": 1,
        "exec": { "command": ["false"] },
    }));
    let ill = container("c", &json!({ "livenessProbe": live }));
    let spec = json!({ "restartPolicy": "Always", "containers": [ill] });
    scene.put("pod", &notes(&[]), &spec, 120).await;
    let (starts, stops) = times(&scene, "pod", "c");
    // Twice at once, as the one before was not so long ago that it counted; then with
    // waits of ten seconds, and twenty.
    let pauses: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] <= 4.0 && pauses[1] <= 4.0, "{pauses:?}");
    assert!(pauses[2] >= 10.0 && pauses[3] >= 20.0, "{pauses:?}");
    assert!(stops.iter().all(|(_, grace)| *grace == 2), "{stops:?}");
}

#[tokio::test(start_paused = true)]
async fn who_ends_well_when_it_would_come_again_too_soon_is_told_to_have_ended_while_another_waits()
{
    let mut scene = scene().await;
    let live = probe(&json!({ "exec": { "command": ["false"] } }));
    let ill = container("ill", &json!({ "livenessProbe": live }));
    let both = [ill, container("crashes", &json!({}))];
    let spec = json!({ "restartPolicy": "OnFailure", "containers": both });
    // It is asked to end after three seconds, and ends by itself, well, after six.
    let story = notes(&[
        ("run-time.ill", "6s"),
        ("stop-delay.ill", "20s"),
        ("crash-loop.crashes", "1s"),
    ]);
    scene.put("pod", &story, &spec, 0).await;
    // By the second: how often it was started, and whether it is told to run.
    let mut seen = Vec::new();
    for _ in 0..150 {
        scene.pass(1).await;
        let said = scene.said("pod");
        let all = said["containerStatuses"].as_array();
        let mut all = all.into_iter().flatten();
        let runs = all.any(|one| one["name"] == "ill" && one["state"]["running"].is_object());
        seen.push((scene.count(Act::Start, "pod", "ill"), runs));
    }
    let starts = seen.last().unwrap().0;
    assert!((2..6).contains(&starts), "{starts}");
    let last_start = seen.iter().position(|(count, _)| *count == starts).unwrap();
    let told = seen.iter().rposition(|(_, runs)| *runs).unwrap() + 1;
    assert!(told - last_start <= 10, "{last_start} {told} {seen:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_not_to_be_started_again_is_not() {
    let mut scene = scene().await;
    let live = probe(&json!({ "exec": { "command": ["false"] } }));
    let ill = container("c", &json!({ "livenessProbe": live }));
    let alone = json!({ "restartPolicy": "Never", "containers": [ill] });
    scene.put("alone", &notes(&[]), &alone, 0).await;
    let beside = json!({
        "restartPolicy": "Never", "containers": [ill, container("d", &json!({}))],
    });
    scene.put("beside", &notes(&[]), &beside, 60).await;
    for uid in ["alone", "beside"] {
        assert_eq!(scene.count(Act::Start, uid, "c"), 1, "{uid}");
    }
    assert!(!scene.look().is_running("alone"));
    assert!(scene.look().is_running("beside"));
    assert_eq!(scene.count(Act::Stop, "beside", "d"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_begins_anew_asks_on_and_ends_nobody() {
    let mut scene = scene().await;
    let live = probe(&json!({ "exec": { "command": ["cat", "/ready"] } }));
    let start = probe(&json!({ "tcpSocket": { "port": 80 } }));
    let probes = json!({ "livenessProbe": live, "startupProbe": start, "readinessProbe": live });
    let spec = json!({ "containers": [container("c", &probes)] });
    scene.put("pod", &notes(&[]), &spec, 30).await;
    let asked = scene.count(Act::Exec, "pod", "c");
    assert!(asked > 20, "{asked}");
    for _ in 0..3 {
        scene.begin_anew(30).await;
    }
    assert!(scene.count(Act::Exec, "pod", "c") > asked + 60);
    assert_eq!(scene.count(Act::Start, "pod", "c"), 1);
    assert_eq!(scene.count(Act::Stop, "pod", "c"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_is_asked_nothing() {
    let mut scene = scene().await;
    let ready = probe(&json!({ "exec": { "command": ["cat", "/ready"] } }));
    let once = container("c", &json!({ "readinessProbe": ready }));
    let spec = json!({ "restartPolicy": "Never", "containers": [once] });
    scene
        .put("pod", &notes(&[("run-time", "5s")]), &spec, 10)
        .await;
    let asked = scene.count(Act::Exec, "pod", "c");
    assert!((4..=9).contains(&asked), "{asked}");
    scene.pass(60).await;
    assert_eq!(scene.count(Act::Exec, "pod", "c"), asked);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_ill_runs_its_hook_before_it_is_ended() {
    let mut scene = scene().await;
    let live = probe(&json!({
        "terminationGracePeriodSeconds": 7, "exec": { "command": ["false"] },
    }));
    let hook = json!({ "preStop": { "sleep": { "seconds": 2 } } });
    let ill = container("c", &json!({ "livenessProbe": live, "lifecycle": hook }));
    let spec = json!({ "containers": [ill] });
    scene.put("pod", &notes(&[]), &spec, 12).await;
    let calls = scene.node.runtime.calls();
    let mut asked = calls.iter().filter(|call| call.act == Act::Exec);
    let stop = calls.iter().find(|call| call.act == Act::Stop).unwrap();
    // The third answer is the verdict. What the hook takes is taken from the grace.
    let verdict = asked.nth(2).unwrap();
    let after = stop.at.saturating_sub(verdict.at);
    assert!((2.0..2.5).contains(&after.as_secs_f64()), "{after:?}");
    assert_eq!(stop.grace, 5);
}

#[tokio::test(start_paused = true)]
async fn what_is_found_is_told_while_the_worker_waits_for_the_image_of_another_container() {
    let mut scene = scene().await;
    let here = |name: &str, image: &str| json!({ "name": name, "image": image, "imagePullPolicy": "IfNotPresent" });
    let spec = json!({ "containers": [here("c", "here:1")] });
    scene.put("first", &notes(&[]), &spec, 5).await;
    let mut probed = here("c", "here:1");
    probed["readinessProbe"] = probe(&json!({ "exec": { "command": ["cat", "/ready"] } }));
    let mut spec = json!({ "containers": [probed] });
    let story = notes(&[("ready-after.c", "20s"), ("pull-delay", "300s")]);
    scene.put("pod", &story, &spec, 5).await;
    spec["ephemeralContainers"] = json!([here("e", "far:1")]);
    scene.put("pod", &story, &spec, 5).await;
    let said = |scene: &Scene| scene.said("pod")["containerStatuses"][0]["ready"].clone();
    assert_eq!(said(&scene), false);
    scene.pass(20).await;
    assert_eq!(said(&scene), true);
    assert_eq!(scene.count(Act::Create, "pod", "e"), 0, "it is on its way");
}

/// Pulls an image, for pods that say that it takes long.
async fn pull(scene: &mut Scene, image: &str) {
    let container = json!({ "name": "c", "image": image, "imagePullPolicy": "IfNotPresent" });
    let spec = json!({ "containers": [container] });
    scene.put("first", &notes(&[]), &spec, 5).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_found_of_a_container_that_gets_another_image_does_not_end_its_pod() {
    for policy in ["Never", "OnFailure", "Always"] {
        let mut scene = scene().await;
        pull(&mut scene, "here:1").await;
        let spec = |image: &str| {
            let probe = probe(&json!({ "httpGet": { "port": 80, "path": "/" } }));
            let mut container = container("c", &json!({ "readinessProbe": probe }));
            container["image"] = json!(image);
            container["imagePullPolicy"] = json!("IfNotPresent");
            json!({ "restartPolicy": policy, "containers": [container] })
        };
        let story = notes(&[("pull-delay", "60s")]);
        scene.put("pod", &story, &spec("here:1"), 10).await;
        scene.put("pod", &story, &spec("far:1"), 30).await;
        assert_eq!(scene.count(Act::Stop, "pod", "c"), 1, "{policy}");
        assert_eq!(scene.said("pod")["phase"], "Running", "{policy}");
        scene.pass(120).await;
        let said = scene.said("pod");
        assert_eq!(said["phase"], "Running", "{policy}");
        assert_eq!(said["containerStatuses"][0]["ready"], true, "{policy}");
        assert!(scene.look().is_running("pod"), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_found_of_the_others_is_told_while_a_container_waits_for_its_other_image() {
    for policy in ["Never", "OnFailure", "Always"] {
        let mut scene = scene().await;
        pull(&mut scene, "here:1").await;
        let spec = |image: &str| {
            let probe = probe(&json!({ "exec": { "command": ["cat", "/ready"] } }));
            let with = |name: &str, image: &str| {
                let mut container = container(name, &json!({ "readinessProbe": probe }));
                container["image"] = json!(image);
                container["imagePullPolicy"] = json!("IfNotPresent");
                container
            };
            let both = [with("stays", "here:1"), with("changes", image)];
            json!({ "restartPolicy": policy, "containers": both })
        };
        let story = notes(&[("pull-delay", "200s"), ("ready-after.stays", "60s")]);
        scene.put("pod", &story, &spec("here:1"), 10).await;
        let ready = |scene: &Scene| {
            let said = scene.said("pod");
            assert_eq!(said["phase"], "Running", "{policy}");
            let all = said["containerStatuses"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let of =
                |name: &str| all.iter().find(|one| one["name"] == name).unwrap()["ready"].clone();
            (of("changes"), of("stays"))
        };
        assert_eq!(ready(&scene), (json!(true), json!(false)), "{policy}");
        scene.put("pod", &story, &spec("far:1"), 30).await;
        assert_eq!(scene.count(Act::Stop, "pod", "changes"), 1, "{policy}");
        assert_eq!(ready(&scene).1, json!(false), "{policy}");
        scene.pass(60).await;
        assert_eq!(ready(&scene), (json!(false), json!(true)), "{policy}");
        scene.pass(200).await;
        assert_eq!(ready(&scene), (json!(true), json!(true)), "{policy}");
    }
}
