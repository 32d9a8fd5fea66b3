//! What is missing, in use, full, or meant to lead elsewhere.

use super::*;

#[test]
fn a_source_that_is_missing_is_named_and_its_coming_is_noticed() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        let pod = pod(&json!([
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "key", "secret": {"secretName": "s"}},
        ]));
        let failures = volumes.mount(&pod).await.unwrap_err().failures;
        let words: Vec<String> = failures.iter().map(ToString::to_string).collect();
        let said = |name: &str| words.iter().any(|words| words.ends_with(name));
        assert!(
            said("configmap \"c\" not found") && said("secret \"s\" not found"),
            "{words:?}"
        );
        furnished(&scene);
        // The server of this test tells nobody: it is looked at again in a while.
        let minute = Duration::from_secs(60);
        let come = async {
            loop {
                volumes.changed(&uid()).await;
                if volumes.mount(&pod).await.is_ok() {
                    break;
                }
            }
        };
        seams::timeout(&*scene.clock, minute, come).await.unwrap();
        assert_eq!(scene.text("kubernetes.io~configmap/config/k"), "one");
        volumes.unmount(&uid()).await.unwrap();
    });
}

#[test]
fn what_a_pod_goes_on_with_counts_as_before() {
    on_disks(async |scene| {
        furnished(&scene);
        let volumes = scene.volumes();
        let pod = pod(&json!([
            {"name": "plain", "emptyDir": {}},
            {"name": "config", "configMap": {"name": "c"}},
        ]));
        let mounted = volumes.mount(&pod).await.unwrap();
        let counted = || {
            let counted = &volumes.countable()[&uid()];
            counted
                .iter()
                .map(|one| one.name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(counted(), ["plain", "config"]);
        let plain = scene.path("volumes/kubernetes.io~empty-dir/plain");
        fs::remove_dir(&plain).unwrap();
        fs::write(&plain, "").unwrap();
        let error = volumes.mount(&pod).await.unwrap_err();
        assert_eq!(error.failures[0].volume, "plain");
        assert_eq!(error.volumes, mounted.volumes[1..]);
        assert_eq!(counted(), ["config"]);
        volumes.goes_on_with(&pod, &mounted.volumes);
        assert_eq!(counted(), ["plain", "config"]);
        fs::remove_file(&plain).unwrap();
        volumes.unmount(&uid()).await.unwrap();
    });
}

#[test]
fn a_volume_that_is_in_use_stays_and_goes_with_the_next_try() {
    on_disks(async |scene| {
        furnished(&scene);
        let volumes = scene.volumes();
        volumes.mount(&every_kind()).await.unwrap();
        let fast = scene.path("volumes/kubernetes.io~empty-dir/fast");
        let open = fs::File::create(fast.join("file")).unwrap();
        let error = volumes.unmount(&uid()).await.unwrap_err().to_string();
        let wanted = "UnmountVolume.TearDown failed for volume \"fast\" : ";
        assert!(error.starts_with(wanted), "{error}");
        assert!(fast.join("file").exists());
        let others = scene.mounts();
        assert_eq!(others, ["kubernetes.io~empty-dir/fast".to_owned()].into());
        drop(open);
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn a_token_that_cannot_be_renewed_for_an_hour_stays_and_is_asked_for_with_patience() {
    /// How long a worker waits, at least, before it tries anew what has failed.
    const RETRY: Duration = Duration::from_secs(10);
    on_disks(async |scene| {
        let volumes = scene.volumes();
        let source = json!([{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]);
        let pod = pod(&json!([{"name": "access", "projected": {"sources": source}}]));
        let file = || scene.text("kubernetes.io~projected/access/token");
        let (clock, began) = (&scene.clock, scene.clock.now());
        let since = || clock.now().duration_since(began).unwrap();
        let until = async |at: SystemTime| {
            let left = at.duration_since(clock.now());
            clock.sleep(left.unwrap_or_default()).await;
        };
        let mut due = volumes.mount(&pod).await.unwrap().refresh_at.unwrap();
        until(due).await;
        assert_eq!(
            (file().as_str(), scene.server.token_requests()),
            ("token-1", 1)
        );

        scene.server.be_away();
        let away = clock.now();
        let (mut while_good, mut failures) = (0, Vec::new());
        while clock.now() < away + Duration::from_secs(3600) {
            // What a worker does: it rests until its volumes are due.
            match volumes.refresh(&pod).await {
                Ok(fresh) => {
                    while_good += 1;
                    due = fresh.refresh_at.unwrap().max(clock.now() + RETRY);
                    assert!(since() <= Duration::from_secs(3600), "{:?}", since());
                }
                Err(error) => {
                    failures.extend(error.failures.iter().map(ToString::to_string));
                    due = clock.now() + RETRY;
                    assert!(since() > Duration::from_secs(3600), "{:?}", since());
                }
            }
            assert_eq!(file(), "token-1", "after {:?}", since());
            until(due).await;
        }
        // It was good for twelve minutes more, and asked for once in each of them; then
        // once with each try.
        assert!((12..=13).contains(&while_good), "{while_good}");
        let tries = while_good + failures.len() as u64;
        assert_eq!(scene.server.token_requests(), 1 + tries);
        assert!((280..=290).contains(&failures.len()), "{}", failures.len());
        for words in &failures {
            let place = "MountVolume.SetUp failed for volume \"access\" : token of service account \"robot\"";
            assert!(words.starts_with(place), "{words}");
            assert!(words.contains("expired and refresh failed: "), "{words}");
            assert!(
                words.contains("connection refused") && !words.contains("token-1"),
                "{words}"
            );
        }

        scene.server.come_back();
        let fresh = volumes.refresh(&pod).await.unwrap();
        assert_eq!(file(), format!("token-{}", tries + 2));
        let left = fresh
            .refresh_at
            .unwrap()
            .duration_since(clock.now())
            .unwrap();
        assert!((2860..=2880).contains(&left.as_secs()), "{left:?}");
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn keys_and_paths_that_lead_elsewhere_are_refused() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        let cases = [
            (
                json!({"../up": "x"}),
                json!([]),
                "must not contain '..': ../up",
            ),
            (
                json!({"..hidden": "x"}),
                json!([]),
                "must not start with '..': ..hidden",
            ),
            (
                json!({"k": "x"}),
                json!([{"key": "k", "path": "/etc/passwd"}]),
                "must be relative path: /etc/passwd",
            ),
            (
                json!({"k": "x"}),
                json!([{"key": "k", "path": "a/../../b"}]),
                "must not contain '..': a/../../b",
            ),
        ];
        for (number, (data, items, wanted)) in cases.into_iter().enumerate() {
            let name = format!("bad-{number}");
            scene.server.put("configmaps", &name, json!({"data": data}));
            let source = json!([{"name": "v", "configMap": {"name": name, "items": items}}]);
            let error = volumes.mount(&pod(&source)).await.unwrap_err();
            let wanted =
                format!("MountVolume.SetUp failed for volume \"v\" : invalid path: {wanted}");
            assert_eq!(error.failures[0].to_string(), wanted);
        }
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}
