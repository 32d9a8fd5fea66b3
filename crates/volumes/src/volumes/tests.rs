//! On real disks. Mounts need root, and are made in a mount namespace of the
//! test's own thread (and of the threads that it starts): they go with it.

mod bad_days;
mod claims;
mod labels;
mod left_behind;
mod parts;
mod rooms;
mod slow;

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, UNIX_EPOCH};

use api::objects::{Referenced, TrustBundles};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::Client;
use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::clock::TokioClock;
use testkit::host::LinuxHost;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::claims::Claims;
use crate::objects::{ApiObjects, Trust};
use crate::testing::{Server, from_json};
use crate::tokens::Tokens;

const UID: &str = "0a1b-2c3d";

struct Scene {
    root: TempDir,
    server: Server,
    clock: SharedClock,
    allocatable: watch::Sender<Arc<Allocatable>>,
    tasks: TaskTracker,
    /// Where the references are counted.
    config_maps: Referenced<ConfigMap>,
    secrets: Referenced<Secret>,
    client: Client,
    own_node: watch::Sender<Option<Arc<Node>>>,
    in_use: watch::Sender<Option<Vec<String>>>,
}

/// Runs a test where its mounts harm nobody; not at all without the right to mount.
fn on_disks<F: Future<Output = ()>>(test: impl FnOnce(Scene) -> F + Send) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: nothing is mounted");
        return;
    }
    let private = || {
        nix::sched::unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let (none, private) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
        nix::mount::mount(none, "/", none, private, none).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async { test(scene()).await });
    };
    std::thread::scope(|scope| scope.spawn(private).join().unwrap());
}

fn scene() -> Scene {
    let start = UNIX_EPOCH + Duration::from_secs(1_767_322_985);
    let clock: SharedClock = Arc::new(TokioClock::starting_at(start));
    let server = Server::new(clock.clone());
    let (client, tasks) = (server.client(), TaskTracker::new());
    let stop = CancellationToken::new();
    let config_maps = Referenced::new(client.clone(), clock.clone(), tasks.clone(), stop.clone());
    let secrets = Referenced::new(client.clone(), clock.clone(), tasks.clone(), stop);
    let memory = [("memory".to_owned(), "1Gi".parse().unwrap())];
    Scene {
        root: tempfile::tempdir().unwrap(),
        server,
        clock,
        allocatable: watch::channel(Arc::new(memory.into())).0,
        tasks,
        config_maps,
        secrets,
        client,
        own_node: watch::channel(None).0,
        in_use: watch::channel(None).0,
    }
}

impl Scene {
    /// An agent that has just started.
    fn volumes(&self) -> Volumes {
        self.volumes_with(self.objects())
    }

    fn objects(&self) -> Objects {
        let (client, clock) = (self.client.clone(), self.clock.clone());
        let (tasks, stop) = (self.tasks.clone(), CancellationToken::new());
        Objects::Api(Box::new(ApiObjects {
            config_maps: self.config_maps.clone(),
            secrets: self.secrets.clone(),
            tokens: Tokens::new(self.client.clone(), self.clock.clone()),
            claims: Claims {
                client: self.client.clone(),
                clock: self.clock.clone(),
                own_node: self.own_node.subscribe(),
            },
            trust: Some(Trust {
                bundles: TrustBundles::new(client, clock, tasks, stop),
                order: 0,
            }),
        }))
    }

    fn volumes_with(&self, objects: Objects) -> Volumes {
        self.volumes_of(Arc::new(LinuxHost::new(PathBuf::from("/"))), objects)
    }

    fn volumes_of(&self, storage: SharedStorage, objects: Objects) -> Volumes {
        Volumes::new(Foundations {
            layout: Layout::new(self.root.path()),
            storage,
            clock: self.clock.clone(),
            objects,
            allocatable: self.allocatable.subscribe(),
            in_use: InUse::new(self.in_use.clone()),
            metrics: Metrics::default(),
        })
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join("pods").join(UID).join(below)
    }

    fn text(&self, below: &str) -> String {
        let path = self.path("volumes").join(below);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// What is mounted, below the pod's directory of volumes.
    fn mounts(&self) -> BTreeSet<String> {
        let host = LinuxHost::new(PathBuf::from("/"));
        let mounts = seams::Storage::mounts_below(&host, self.root.path()).unwrap();
        let below = |path: &Path| {
            path.strip_prefix(self.path("volumes"))
                .unwrap()
                .display()
                .to_string()
        };
        mounts.iter().map(|mount| below(&mount.path)).collect()
    }

    fn assert_nothing_is_left(&self) {
        assert!(self.mounts().is_empty());
        let left = ["volumes", "plugins", "volume-subpaths"].map(|name| self.path(name).exists());
        assert_eq!(left, [false; 3]);
    }
}

fn uid() -> PodUid {
    PodUid::new(UID)
}

/// A pod whose one container has all of these volumes.
fn pod(volumes: &Value) -> Pod {
    let all = volumes.as_array().unwrap().iter();
    let mounts: Vec<_> = all
        .map(|volume| json!({"name": volume["name"], "mountPath": format!("/{}", volume["name"])}))
        .collect();
    from_json(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": UID, "labels": {"app": "x"}},
        "spec": {
            "serviceAccountName": "robot",
            "containers": [{"name": "m", "volumeMounts": mounts}],
            "volumes": volumes
        }
    }))
}

fn every_kind() -> Pod {
    pod(&json!([
        {"name": "plain", "emptyDir": {}},
        {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "machine", "hostPath": {"path": "/proc", "type": "Directory"}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "key", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "self", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "access", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}},
            {"configMap": {"name": "c", "items": [{"key": "k", "path": "sub/k"}]}}
        ]}}
    ]))
}

fn furnished(scene: &Scene) {
    scene
        .server
        .put("configmaps", "c", json!({"data": {"k": "one"}}));
    scene
        .server
        .put("secrets", "s", json!({"data": {"key": "c2VjcmV0"}}));
}

#[test]
fn every_kind_is_where_upstream_has_it_and_gone_in_the_end() {
    on_disks(async |scene| {
        furnished(&scene);
        let volumes = scene.volumes();
        let mounted = volumes.mount(&every_kind()).await.unwrap();
        assert_eq!(scene.text("kubernetes.io~configmap/config/k"), "one");
        assert_eq!(scene.text("kubernetes.io~secret/key/key"), "secret");
        assert_eq!(
            scene.text("kubernetes.io~downward-api/self/labels"),
            "app=\"x\""
        );
        assert_eq!(
            scene.text("kubernetes.io~projected/access/token"),
            "token-1"
        );
        assert_eq!(scene.text("kubernetes.io~projected/access/sub/k"), "one");
        let in_memory = [
            "downward-api/self",
            "empty-dir/fast",
            "projected/access",
            "secret/key",
        ];
        let in_memory = in_memory.map(|name| format!("kubernetes.io~{name}"));
        assert_eq!(scene.mounts(), in_memory.into());
        let mode = |below: &str| fs::metadata(scene.path(below)).unwrap().mode() & 0o7777;
        assert_eq!(mode("volumes/kubernetes.io~empty-dir/plain"), 0o777);
        assert_eq!(mode("volumes/kubernetes.io~secret/key/key"), 0o400);
        assert_eq!(
            (mode(""), mode("volumes"), mode("plugins")),
            (0o750, 0o750, 0o750)
        );
        assert!(
            scene
                .path("plugins/kubernetes.io~empty-dir/plain/ready")
                .is_file()
        );
        assert!(
            scene
                .path("plugins/kubernetes.io~empty-dir/wrapped_key/ready")
                .is_file()
        );
        let size = |below: &str| {
            let figures = rustix::fs::statvfs(scene.path(below)).unwrap();
            figures.f_blocks * figures.f_frsize
        };
        assert_eq!(size("volumes/kubernetes.io~empty-dir/fast"), 1 << 20);
        assert_eq!(size("volumes/kubernetes.io~secret/key"), 1 << 30);
        let read_only: Vec<_> = mounted
            .volumes
            .iter()
            .map(|volume| (volume.name.as_str(), volume.read_only))
            .collect();
        assert_eq!(
            read_only,
            [
                ("plain", false),
                ("fast", false),
                ("machine", false),
                ("config", true),
                ("key", true),
                ("self", true),
                ("access", true)
            ]
        );
        assert_eq!(mounted.volumes[2].path, Path::new("/proc"));
        assert_eq!(
            mounted.volumes[3].path,
            scene.path("volumes/kubernetes.io~configmap/config")
        );
        assert!(mounted.refresh_at.is_some());

        fs::write(scene.path("etc-hosts"), "").unwrap();
        for _ in 0..2 {
            volumes.unmount(&uid()).await.unwrap();
            scene.assert_nothing_is_left();
        }
        assert!(volumes.held().is_empty());
        assert_eq!((scene.config_maps.count(), scene.secrets.count()), (0, 0));
        assert!(
            scene.path("etc-hosts").exists(),
            "the rest of the pod is others'"
        );
        volumes.remove_pod(&uid()).await.unwrap();
        assert!(!scene.path("").exists());
        scene.tasks.close();
        scene.tasks.wait().await;
    });
}

#[test]
fn a_restarted_agent_finds_all_as_it_was_and_touches_nothing() {
    on_disks(async |scene| {
        furnished(&scene);
        let pod = every_kind();
        let first = scene.volumes().mount(&pod).await.unwrap();
        fs::write(
            scene.path("volumes/kubernetes.io~empty-dir/plain/work"),
            "a pod's",
        )
        .unwrap();
        fs::write(
            scene.path("volumes/kubernetes.io~empty-dir/fast/work"),
            "a pod's",
        )
        .unwrap();
        let links = || {
            ["configmap/config", "secret/key", "downward-api/self"].map(|name| {
                fs::read_link(scene.path(&format!("volumes/kubernetes.io~{name}/..data"))).unwrap()
            })
        };
        // A database wants its directory for itself, another shares it with a group.
        let roots = [("plain", 0o700), ("fast", 0o2770)];
        let root = |name: &str| scene.path(&format!("volumes/kubernetes.io~empty-dir/{name}"));
        for (name, mode) in roots {
            fs::set_permissions(root(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let (before, mounts) = (links(), scene.mounts());
        let restarted = scene.volumes();
        let second = restarted.mount(&pod).await.unwrap();
        for (name, mode) in roots {
            let found = fs::metadata(root(name)).unwrap().mode() & 0o7777;
            assert_eq!(found, mode, "{name}");
        }
        assert_eq!(second.volumes, first.volumes);
        assert_eq!((links(), scene.mounts()), (before, mounts));
        assert_eq!(scene.text("kubernetes.io~empty-dir/plain/work"), "a pod's");
        assert_eq!(scene.text("kubernetes.io~empty-dir/fast/work"), "a pod's");
        let found = restarted.on_disk().await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (
                found[0].uid.clone(),
                found[0].volumes.len(),
                found[0].mounts.len()
            ),
            (uid(), 6, 4)
        );
        // One that knows of no pods can still take all away.
        scene.volumes().unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn what_is_missing_is_told_and_mounted_when_it_comes() {
    on_disks(async |scene| {
        furnished(&scene);
        scene.server.remove("configmaps", "c");
        let pod = pod(&json!([
            {"name": "plain", "emptyDir": {}},
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "key", "secret": {"secretName": "s", "items": [{"key": "other", "path": "x"}]}},
            {"name": "maybe", "configMap": {"name": "absent", "optional": true}},
        ]));
        let volumes = scene.volumes();
        let error = volumes.mount(&pod).await.unwrap_err();
        let texts: Vec<_> = error.failures.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "MountVolume.SetUp failed for volume \"config\" : configmap \"c\" not found",
                "MountVolume.SetUp failed for volume \"key\" : references non-existent secret key: other",
            ]
        );
        assert_eq!(
            error.to_string(),
            "unmounted volumes=[config key], unattached volumes=[], failed to process volumes=[]: \
             context deadline exceeded"
        );
        assert!(
            scene.path("volumes/kubernetes.io~empty-dir/plain").is_dir(),
            "the others are there"
        );
        assert!(
            scene
                .path("volumes/kubernetes.io~configmap/maybe/..data")
                .is_dir()
        );
        assert!(
            !scene
                .path("volumes/kubernetes.io~configmap/config")
                .exists()
        );
        scene
            .server
            .put("configmaps", "c", json!({"data": {"k": "late"}}));
        scene
            .server
            .put("secrets", "s", json!({"data": {"other": "bGF0ZQ=="}}));
        while volumes.mount(&pod).await.is_err() {
            volumes.changed(&uid()).await;
        }
        assert_eq!(scene.text("kubernetes.io~configmap/config/k"), "late");
        assert_eq!(scene.text("kubernetes.io~secret/key/x"), "late");
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn what_changes_is_published_anew() {
    on_disks(async |scene| {
        furnished(&scene);
        let pod = every_kind();
        let volumes = scene.volumes();
        volumes.mount(&pod).await.unwrap();
        let minute = Duration::from_secs(60);
        let quiet = seams::timeout(&*scene.clock, minute, volumes.changed(&uid())).await;
        assert!(quiet.is_err());
        scene
            .server
            .put("configmaps", "c", json!({"data": {"k": "two", "l": "new"}}));
        let told = seams::timeout(&*scene.clock, minute, volumes.changed(&uid())).await;
        told.unwrap();
        let refreshed = volumes.refresh(&pod).await.unwrap();
        assert_eq!(refreshed.volumes.len(), 4);
        assert_eq!(scene.text("kubernetes.io~configmap/config/k"), "two");
        assert_eq!(scene.text("kubernetes.io~configmap/config/l"), "new");
        assert_eq!(scene.text("kubernetes.io~projected/access/sub/k"), "two");
        assert_eq!(
            scene.text("kubernetes.io~projected/access/token"),
            "token-1"
        );
        volumes.unmount(&uid()).await.unwrap();
    });
}

#[test]
fn what_a_pod_is_told_of_itself_follows_the_pod() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        let field = |path: &str| json!({"path": path, "fieldRef": {"fieldPath": format!("metadata.{path}")}});
        let limit = json!({"containerName": "m", "resource": "limits.memory", "divisor": "1Mi"});
        let among = json!([field("namespace"), field("annotations"),
            {"path": "limit", "resourceFieldRef": limit}]);
        let mut pod = pod(&json!([
            {"name": "self", "downwardAPI": {"items": [field("labels"), field("name")]}},
            {"name": "all", "projected": {"sources": [{"downwardAPI": {"items": among}}]}},
        ]));
        let text = |file: &str| scene.text(&format!("kubernetes.io~{file}"));
        volumes.mount(&pod).await.unwrap();
        let said = |pod: &Pod| volumes.said_of_itself(pod);
        // Neither its name nor its namespace can change.
        assert_eq!(said(&pod), ["app=\"x\"", "", "1024"]);
        pod.metadata.labels = Some([("app".to_owned(), "y".to_owned())].into());
        pod.metadata.annotations = Some([("note".to_owned(), "b".to_owned())].into());
        assert_eq!(said(&pod), ["app=\"y\"", "note=\"b\"", "1024"]);
        volumes.refresh(&pod).await.unwrap();
        assert_eq!(text("downward-api/self/labels"), "app=\"y\"");
        assert_eq!(text("projected/all/annotations"), "note=\"b\"");
        // Who has no limit is limited by the node, which may have less for pods one day.
        let less = [("memory".to_owned(), "512Mi".parse().unwrap())];
        scene.allocatable.send_replace(Arc::new(less.into()));
        assert_eq!(said(&pod)[2], "512");
        volumes.refresh(&pod).await.unwrap();
        assert_eq!(text("projected/all/limit"), "512");
        // What no container uses is not there, and says nothing.
        pod.spec.as_mut().unwrap().containers[0].volume_mounts = None;
        assert!(said(&pod).is_empty());
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn a_token_is_renewed_on_disk_when_it_is_due() {
    on_disks(async |scene| {
        furnished(&scene);
        let pod = every_kind();
        let volumes = scene.volumes();
        let mounted = volumes.mount(&pod).await.unwrap();
        let due = mounted
            .refresh_at
            .unwrap()
            .duration_since(scene.clock.now())
            .unwrap();
        assert!((2860..=2880).contains(&due.as_secs()), "{due:?}");
        scene.clock.sleep(due).await;
        let refreshed = volumes.refresh(&pod).await.unwrap();
        assert_eq!(
            scene.text("kubernetes.io~projected/access/token"),
            "token-2"
        );
        assert!(refreshed.refresh_at > mounted.refresh_at);
        volumes.unmount(&uid()).await.unwrap();
    });
}

#[test]
fn disks_that_do_not_answer_keep_other_pods_waiting_for_ten_seconds() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        let began = scene.clock.uptime();
        // As those do that ask a server for files which is away.
        let hung = || Box::pin(volumes.in_turn(std::future::pending::<()>()));
        let mut all: Vec<_> = std::iter::repeat_with(hung).take(AT_ONCE).collect();
        for one in &mut all {
            assert!(futures_util::poll!(one).is_pending());
        }
        let pod = pod(&json!([{"name": "plain", "emptyDir": {}}]));
        let mut mounting = Box::pin(volumes.mount(&pod));
        assert!(futures_util::poll!(&mut mounting).is_pending());
        let hung = futures_util::future::join_all(all);
        let mounted = async {
            tokio::select! {
                mounted = mounting => mounted.is_ok(),
                _ = hung => false,
            }
        };
        let mounted = seams::timeout(&*scene.clock, 2 * PATIENCE, mounted).await;
        assert_eq!(mounted.ok(), Some(true));
        assert_eq!(scene.clock.uptime(), began + PATIENCE);
        volumes.unmount(&uid()).await.unwrap();
    });
}

#[test]
fn work_that_was_cut_short_at_any_point_is_finished_or_taken_away_the_next_time() {
    on_disks(async |scene| {
        furnished(&scene);
        let pod = every_kind();
        let mut finished = false;
        for polls in 0..60 {
            let volumes = scene.volumes();
            {
                let mut mounting = pin!(volumes.mount(&pod));
                let mut context = Context::from_waker(Waker::noop());
                for _ in 0..polls {
                    if let Poll::Ready(outcome) = mounting.as_mut().poll(&mut context) {
                        outcome.unwrap();
                        finished = true;
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            if polls % 2 == 0 {
                let mounted = volumes.mount(&pod).await.unwrap();
                assert_eq!(mounted.volumes.len(), 7);
                assert_eq!(scene.text("kubernetes.io~secret/key/key"), "secret");
            }
            volumes.unmount(&uid()).await.unwrap();
            scene.assert_nothing_is_left();
            assert!(volumes.held().is_empty());
            if finished {
                break;
            }
        }
    });
}

#[test]
fn a_group_gets_the_volumes_and_what_a_pod_did_in_them_stays() {
    on_disks(async |scene| {
        furnished(&scene);
        let mut pod = every_kind();
        let spec = pod.spec.as_mut().unwrap();
        spec.security_context = Some(from_json(json!({"fsGroup": 4242, "runAsUser": 1000})));
        let volumes = scene.volumes();
        let mounted = volumes.mount(&pod).await.unwrap();
        let look = |below: &str| {
            let metadata = fs::metadata(scene.path("volumes").join(below)).unwrap();
            (metadata.mode() & 0o7777, metadata.uid(), metadata.gid())
        };
        assert_eq!(look("kubernetes.io~empty-dir/plain"), (0o2777, 0, 4242));
        assert_eq!(look("kubernetes.io~empty-dir/fast"), (0o3777, 0, 4242));
        assert_eq!(look("kubernetes.io~secret/key/key"), (0o440, 0, 4242));
        assert_eq!(
            look("kubernetes.io~projected/access/token"),
            (0o640, 1000, 4242)
        );
        assert_eq!(
            look("kubernetes.io~projected/access/sub/k"),
            (0o644, 0, 4242)
        );
        let groups: Vec<_> = mounted
            .volumes
            .iter()
            .map(|volume| volume.fs_group)
            .collect();
        assert_eq!(
            groups.iter().filter(|group| **group == Some(4242)).count(),
            6
        );
        let own = scene.path("volumes/kubernetes.io~empty-dir/plain/own");
        fs::write(&own, "").unwrap();
        std::os::unix::fs::chown(&own, Some(1), Some(1)).unwrap();
        volumes.mount(&pod).await.unwrap();
        assert_eq!(fs::metadata(&own).unwrap().gid(), 1);
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn mounts_that_a_pod_left_behind_are_unmounted_and_not_emptied() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        let pod = pod(&json!([{"name": "plain", "emptyDir": {}}]));
        volumes.mount(&pod).await.unwrap();
        let precious = tempfile::tempdir().unwrap();
        fs::write(precious.path().join("data"), "kept").unwrap();
        let none = None::<&str>;
        let inside = scene.path("volumes/kubernetes.io~empty-dir/plain/deep/mounted");
        let subpath = scene.path("volume-subpaths/plain/m/0");
        for target in [&inside, &subpath] {
            fs::create_dir_all(target).unwrap();
            nix::mount::mount(
                Some(precious.path()),
                target.as_path(),
                none,
                MsFlags::MS_BIND,
                none,
            )
            .unwrap();
        }
        volumes.remove_pod(&uid()).await.unwrap_err();
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
        assert!(!scene.path("volume-subpaths").exists());
        assert_eq!(
            fs::read_to_string(precious.path().join("data")).unwrap(),
            "kept"
        );
    });
}

#[test]
fn a_volume_of_a_kind_that_is_not_ours_is_left_and_named() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        volumes
            .mount(&pod(&json!([{"name": "plain", "emptyDir": {}}])))
            .await
            .unwrap();
        let theirs = scene.path("volumes/kubernetes.io~csi/pv-1");
        fs::create_dir_all(theirs.join("mount")).unwrap();
        let error = volumes.unmount(&uid()).await.unwrap_err().to_string();
        assert!(
            error.contains("\"pv-1\"") && error.contains("kubernetes.io/csi"),
            "{error}"
        );
        assert!(theirs.join("mount").exists());
        assert!(!scene.path("volumes/kubernetes.io~empty-dir/plain").exists());
        let error = volumes.remove_pod(&uid()).await.unwrap_err().to_string();
        assert!(
            error.starts_with(
                "orphaned pod \"0a1b-2c3d\" found, but failed to rmdir() volume at path"
            ),
            "{error}"
        );
        assert!(theirs.join("mount").exists());
    });
}

#[test]
fn directories_for_what_is_mounted_inside_are_made_with_the_volume() {
    on_disks(async |scene| {
        furnished(&scene);
        let pod: Pod = from_json(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": UID},
            "spec": {
                "containers": [{"name": "m", "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/app"}, {"name": "plain", "mountPath": "/etc/app/cache/x"}
                ]}],
                "volumes": [{"name": "config", "configMap": {"name": "c"}}, {"name": "plain", "emptyDir": {}}]
            }
        }));
        let volumes = scene.volumes();
        for _ in 0..2 {
            volumes.mount(&pod).await.unwrap();
            assert!(
                scene
                    .path("volumes/kubernetes.io~configmap/config/cache/x")
                    .is_dir()
            );
            assert_eq!(scene.text("kubernetes.io~configmap/config/k"), "one");
        }
    });
}

#[test]
fn kinds_that_are_not_built_are_refused_and_the_others_are_there() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        let pod = pod(&json!([
            {"name": "plain", "emptyDir": {}},
            {"name": "data", "nfs": {"server": "s", "path": "/"}},
        ]));
        let error = volumes.mount(&pod).await.unwrap_err();
        assert!(error.is_unprocessed());
        assert_eq!(
            error.to_string(),
            "unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: \
             volumes of kind nfs are not supported by this kubelet yet"
        );
        assert!(scene.path("volumes/kubernetes.io~empty-dir/plain").is_dir());
    });
}

#[test]
fn without_an_api_server_there_are_only_volumes_that_need_none() {
    on_disks(async |scene| {
        let volumes = scene.volumes_with(Objects::Standalone);
        let mut plain = every_kind();
        plain
            .spec
            .as_mut()
            .unwrap()
            .volumes
            .as_mut()
            .unwrap()
            .truncate(3);
        assert_eq!(volumes.mount(&plain).await.unwrap().volumes.len(), 3);
        let error = volumes.mount(&every_kind()).await.unwrap_err();
        assert_eq!(error.failures.len(), 3, "{error}");
        let problem = |number: usize| error.failures[number].problem.to_string();
        let wanted = "not supported due to running kubelet in standalone mode";
        assert_eq!([problem(0), problem(1)], [wanted; 2]);
        let wanted = "cannot setup projected volume access because kube client is not configured";
        assert_eq!(problem(2), wanted);
        volumes.unmount(&uid()).await.unwrap();
    });
}

#[test]
fn an_api_server_that_is_away_is_told_and_what_was_published_stays() {
    on_disks(async |scene| {
        furnished(&scene);
        let pod = pod(&json!([{"name": "config", "configMap": {"name": "c"}}]));
        scene.volumes().mount(&pod).await.unwrap();
        scene.server.be_away();
        let error = scene.volumes().mount(&pod).await.unwrap_err();
        assert_eq!(
            error.failures[0].to_string(),
            "MountVolume.SetUp failed for volume \"config\" : \
             failed to sync configmap cache: timed out waiting for the condition"
        );
        assert_eq!(scene.text("kubernetes.io~configmap/config/k"), "one");
    });
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        let mut bad = pod(&json!([{"name": "..", "emptyDir": {}}]));
        let error = volumes.mount(&bad).await.unwrap_err();
        let error = error.failures[0].to_string();
        assert!(
            error.contains("\"..\" is not a name for a directory"),
            "{error}"
        );
        bad = pod(&json!([{"name": "plain", "emptyDir": {}}]));
        bad.metadata.uid = Some("../../etc".to_owned());
        volumes.mount(&bad).await.unwrap_err();
        for uid in ["..", "", "a/b"] {
            volumes.unmount(&PodUid::new(uid)).await.unwrap_err();
            volumes.remove_pod(&PodUid::new(uid)).await.unwrap_err();
        }
        assert!(scene.root.path().exists());
    });
}

#[test]
fn certificates_to_trust_are_published_and_follow_their_bundle() {
    on_disks(async |scene| {
        let bundle = |letter: &str| {
            let text =
                format!("-----BEGIN CERTIFICATE-----\n{letter}\n-----END CERTIFICATE-----\n");
            (json!({"spec": {"trustBundle": text}}), text)
        };
        let pod = pod(&json!([{"name": "trust", "projected": {"sources": [
            {"clusterTrustBundle": {"name": "b", "path": "ca.pem"}}
        ]}}]));
        let volumes = scene.volumes();
        let error = volumes.mount(&pod).await.unwrap_err();
        let wanted = "MountVolume.SetUp failed for volume \"trust\" : while getting ClusterTrustBundle: \
             clustertrustbundle.certificates.k8s.io \"b\" not found";
        assert_eq!(error.failures[0].to_string(), wanted);
        for letter in ["QQ==", "Qg=="] {
            let (object, text) = bundle(letter);
            scene.server.put("clustertrustbundles", "b", object);
            volumes.changed(&uid()).await;
            volumes.mount(&pod).await.unwrap();
            assert_eq!(scene.text("kubernetes.io~projected/trust/ca.pem"), text);
        }
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}
