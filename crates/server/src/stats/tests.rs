use std::fs;
use std::path::Path;

use http_body_util::BodyExt as _;
use seams::Runtime;
use seams::cri::{
    ContainerAttributes, ContainerStats, CpuUsage, FilesystemIdentifier, FilesystemUsage,
    ImageFsInfoRequest, ImageFsInfoResponse, LinuxPodSandboxStats, ListContainerStatsRequest,
    ListContainerStatsResponse, ListPodSandboxStatsRequest, ListPodSandboxStatsResponse,
    MemoryUsage, PodSandboxAttributes, PodSandboxStats, PodSandboxStatusRequest,
    PodSandboxStatusResponse, PsiData, PsiStats, UInt64Value,
};
use seams::runtime::{Answer, Code};
use seams::storage::FileSystem;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::clock::TokioClock;
use testkit::host::LinuxHost;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use types::observed::{ContainerState, ObservedContainer, ObservedSandbox};
use types::{PodName, PodRef, PodUid};

use super::*;

/// Tells of two containers; counts who asks.
#[derive(Debug, Default)]
struct Teller {
    whole_pods: bool,
    asked: Mutex<Vec<&'static str>>,
}

fn number(value: u64) -> UInt64Value {
    UInt64Value { value }
}

fn stats_of(id: &str) -> ContainerStats {
    ContainerStats {
        attributes: Some(ContainerAttributes {
            id: id.to_owned(),
            ..ContainerAttributes::default()
        }),
        cpu: Some(CpuUsage {
            timestamp: 1_700_000_000_000_000_000,
            usage_core_nano_seconds: Some(number(9_000)),
            usage_nano_cores: Some(number(7)),
            psi: Some(PsiStats {
                some: Some(PsiData {
                    total: 77,
                    avg10: 1.5,
                    ..PsiData::default()
                }),
                full: None,
            }),
        }),
        memory: Some(MemoryUsage {
            timestamp: 1_700_000_000_000_000_000,
            working_set_bytes: Some(number(100)),
            usage_bytes: Some(number(150)),
            ..MemoryUsage::default()
        }),
        writable_layer: Some(FilesystemUsage {
            timestamp: 1_700_000_000_000_000_000,
            fs_id: Some(FilesystemIdentifier {
                mountpoint: "/".to_owned(),
            }),
            used_bytes: Some(number(4096)),
            inodes_used: Some(number(3)),
        }),
        ..ContainerStats::default()
    }
}

impl Runtime for Teller {
    fn list_container_stats(
        &self,
        _: ListContainerStatsRequest,
    ) -> Answer<'_, ListContainerStatsResponse> {
        self.asked.lock().unwrap().push("containers");
        let stats = vec![stats_of("c1")];
        Box::pin(async { Ok(ListContainerStatsResponse { stats }) })
    }

    fn list_pod_sandbox_stats(
        &self,
        _: ListPodSandboxStatsRequest,
    ) -> Answer<'_, ListPodSandboxStatsResponse> {
        self.asked.lock().unwrap().push("pods");
        let whole = self.whole_pods;
        Box::pin(async move {
            if !whole {
                return Err(RuntimeError::new(
                    "ListPodSandboxStats",
                    Code::Unimplemented,
                    "",
                ));
            }
            let containers = vec![stats_of("c1")];
            let stats = vec![PodSandboxStats {
                attributes: Some(PodSandboxAttributes {
                    id: "s1".to_owned(),
                    ..PodSandboxAttributes::default()
                }),
                linux: Some(LinuxPodSandboxStats {
                    containers,
                    ..LinuxPodSandboxStats::default()
                }),
                windows: None,
            }];
            Ok(ListPodSandboxStatsResponse { stats })
        })
    }

    fn pod_sandbox_status(
        &self,
        request: PodSandboxStatusRequest,
    ) -> Answer<'_, PodSandboxStatusResponse> {
        assert!(request.verbose);
        self.asked.lock().unwrap().push("sandbox");
        let info = r#"{"image":"pause:1"}"#.to_owned();
        Box::pin(async {
            Ok(PodSandboxStatusResponse {
                info: [("info".to_owned(), info)].into(),
                ..PodSandboxStatusResponse::default()
            })
        })
    }

    fn image_fs_info(&self, _: ImageFsInfoRequest) -> Answer<'_, ImageFsInfoResponse> {
        let usage = stats_of("").writable_layer.unwrap();
        let answer = ImageFsInfoResponse {
            image_filesystems: vec![usage],
            container_filesystems: Vec::new(),
        };
        Box::pin(async { Ok(answer) })
    }
}

/// A machine of files, with one pod on it.
struct Scene {
    root: TempDir,
    runtime: Arc<Teller>,
    clock: SharedClock,
    stats: Stats,
    published: watch::Receiver<Arc<DiskFigures>>,
    /// Held so that the task ends with the test.
    tasks: JoinSet<()>,
}

const POD: &str = "kubepods/burstable/podu1";

impl Scene {
    fn new(counted: bool, whole_pods: bool) -> Self {
        Self::with(counted, whole_pods, pod())
    }

    fn with(counted: bool, whole_pods: bool, pod: ObservedPod) -> Self {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
            ("proc/sys/kernel/random/boot_id", "b\n"),
            ("etc/machine-id", "m\n"),
        ] {
            put(root.path(), path, content);
        }
        put(
            root.path(),
            "sys/fs/cgroup/cgroup.controllers",
            "cpu memory pids\n",
        );
        put(root.path(), "proc/1/net/dev", &interfaces(5));
        put(root.path(), "proc/41/net/dev", &interfaces(9));
        put(
            root.path(),
            "proc/meminfo",
            "MemTotal:  1000 kB\nSwapTotal: 0 kB\n",
        );
        put(
            root.path(),
            "proc/self/cgroup",
            "0::/system.slice/agent.service\n",
        );
        put(
            root.path(),
            "var/log/pods/ns_p_u1/main/0.log",
            "some words\n",
        );
        put(
            root.path(),
            "var/lib/kubelet/pods/u1/etc-hosts",
            "127.0.0.1\n",
        );
        if counted {
            for group in [
                "",
                "kubepods",
                "kubepods/burstable",
                "kubepods/besteffort",
                POD,
                &format!("{POD}/cri-containerd-s1.scope"),
                &format!("{POD}/cri-containerd-c1.scope"),
                "system.slice/agent.service",
            ] {
                group_of(root.path(), group);
            }
            let sandbox = format!("sys/fs/cgroup/{POD}/cri-containerd-s1.scope/cgroup.procs");
            put(root.path(), &sandbox, "41\n");
            let container = format!("sys/fs/cgroup/{POD}/cri-containerd-c1.scope/cgroup.procs");
            put(root.path(), &container, "42\n43\n");
        }
        let machine = Arc::new(LinuxHost::new(root.path().to_owned()));
        let runtime = Arc::new(Teller {
            whole_pods,
            ..Teller::default()
        });
        let clock: SharedClock = Arc::new(TokioClock::starting_at(
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000),
        ));
        let places = GroupPlaces {
            pods: PathBuf::from("/kubepods"),
            classes: ["burstable", "besteffort"]
                .map(|class| PathBuf::from("/kubepods").join(class))
                .into(),
            of_pod: Arc::new(|uid: &PodUid| {
                ["", "burstable/", "besteffort/"]
                    .map(|class| PathBuf::from(format!("/kubepods/{class}pod{uid}")))
            }),
        };
        let (disks, published) = watch::channel(Arc::default());
        let (stats, looks) = Stats::new(Sources {
            node_name: "n1".to_owned(),
            host: machine.clone(),
            storage: machine,
            runtime: runtime.clone(),
            clock: clock.clone(),
            pods: Arc::new(move || vec![Arc::new(pod.clone())]),
            places: watch::channel(Some(Arc::new(places))).1,
            directories: Directories {
                root: PathBuf::from("/var/lib/kubelet"),
                logs: PathBuf::from("/var/log/pods"),
            },
            // The node's own group is named twice, and that of all pods once more.
            system: SystemGroups {
                runtime: Some(PathBuf::from("/system.slice/agent.service")),
                misc: Some(PathBuf::from("/kubepods")),
                ..SystemGroups::default()
            },
            volumes: watch::channel(Arc::default()).1,
            asked: watch::channel(()).0,
            disks,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(looks.run(CancellationToken::new()));
        Self {
            root,
            runtime,
            clock,
            stats,
            published,
            tasks,
        }
    }

    async fn summary(&self, query: &str) -> Value {
        let answer = self.stats.summary(query).await;
        assert_eq!(answer.status(), StatusCode::OK);
        serde_json::from_slice(&content(answer).await).unwrap()
    }

    /// So much CPU time was used, in microseconds.
    fn used(&self, group: &str, micros: u64) {
        let path = format!("sys/fs/cgroup/{group}/cpu.stat");
        put(self.root.path(), &path, &format!("usage_usec {micros}\n"));
    }
}

async fn content(answer: Response<Body>) -> Vec<u8> {
    answer
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes()
        .to_vec()
}

fn put(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn group_of(root: &Path, group: &str) {
    let group = format!("sys/fs/cgroup/{group}");
    put(
        root,
        &format!("{group}/cgroup.controllers"),
        "cpu memory pids\n",
    );
    put(root, &format!("{group}/cpu.stat"), "usage_usec 2000000\n");
    put(
        root,
        &format!("{group}/memory.stat"),
        "anon 400\ninactive_file 70\n",
    );
    put(root, &format!("{group}/memory.current"), "1000\n");
    put(root, &format!("{group}/memory.max"), "5000\n");
    put(root, &format!("{group}/memory.swap.max"), "0\n");
    put(root, &format!("{group}/cgroup.procs"), "");
    put(root, &format!("{group}/cgroup.events"), "populated 1\n");
    for (of, some, full) in WAITED {
        let text = format!(
            "some avg10=1.50 avg60=0.25 avg300=0.10 total={some}\n\
             full avg10=0.75 avg60=0.00 avg300=0.00 total={full}\n"
        );
        put(root, &format!("{group}/{of}.pressure"), &text);
    }
}

/// For what the programs of each group have waited: some of them, and all, in microseconds.
const WAITED: [(&str, u32, u32); 3] = [
    ("cpu", 1_500_000, 250_000),
    ("memory", 62_000_007, 3),
    ("io", 4_000_000, 1_000_001),
];

fn interfaces(bytes: u64) -> String {
    format!("a\nb\n  eth0: {bytes} 1 0 0 0 0 0 0 8 2 0 0 0 0 0 0\n")
}

fn pod() -> ObservedPod {
    let container = |id: &str, state| ObservedContainer {
        id: id.to_owned(),
        name: "main".to_owned(),
        image: "busybox:1".to_owned(),
        state,
        created_at: 1_690_000_000_000_000_000,
        started_at: 1_690_000_001_000_000_000,
        ..ObservedContainer::default()
    };
    ObservedPod {
        pod: PodRef {
            name: PodName {
                namespace: "ns".to_owned(),
                name: "p".to_owned(),
            },
            uid: PodUid::new("u1"),
        },
        sandboxes: vec![ObservedSandbox {
            id: "s1".to_owned(),
            ready: true,
            created_at: 1_680_000_000_000_000_000,
            ..ObservedSandbox::default()
        }],
        containers: vec![
            container("c1", ContainerState::Running),
            container("c0", ContainerState::Exited),
        ],
        ..ObservedPod::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_process_is_gone_is_asked_for_another() {
    let scene = Scene::new(true, false);
    let received = async || {
        let summary = scene.summary("").await;
        scene.clock.sleep(Duration::from_secs(2)).await;
        summary["pods"][0]["network"]["rxBytes"].clone()
    };
    assert_eq!(received().await, 9);
    fs::remove_dir_all(scene.root.path().join("proc/41")).unwrap();
    put(scene.root.path(), "proc/44/net/dev", &interfaces(12));
    let list = format!("sys/fs/cgroup/{POD}/cri-containerd-s1.scope/cgroup.procs");
    put(scene.root.path(), &list, "44\n");
    assert_eq!(received().await, Value::Null);
    assert_eq!(received().await, 12);
}

#[tokio::test(start_paused = true)]
async fn a_summary_tells_of_the_node_and_of_what_runs() {
    let scene = Scene::new(true, false);
    let summary = scene.summary("").await;
    let node = &summary["node"];
    assert_eq!(node["nodeName"], "n1");
    assert_eq!(node["memory"]["workingSetBytes"], 930);
    assert_eq!(node["memory"]["availableBytes"], 1000 * 1024 - 930);
    assert_eq!(node["network"]["rxBytes"], 5);
    let names: Vec<_> = node["systemContainers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["pods", "kubelet", "runtime", "misc"]);
    assert_eq!(node["runtime"]["imageFs"]["usedBytes"], 4096);
    assert_eq!(summary["pods"].as_array().unwrap().len(), 1);
    let pod = &summary["pods"][0];
    let wanted = json!({"name": "p", "namespace": "ns", "uid": "u1"});
    assert_eq!(pod["podRef"], wanted);
    assert_eq!(pod["startTime"], "2023-03-28T10:40:00Z");
    assert_eq!(
        pod["network"]["rxBytes"], 9,
        "that of the sandbox's process"
    );
    assert_eq!(pod["process_stats"], json!({"process_count": 2}));
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1, "one runs");
    let container = &pod["containers"][0];
    assert_eq!(container["name"], "main");
    assert_eq!(container["startTime"], "2023-07-22T04:26:40Z");
    assert_eq!(container["memory"]["availableBytes"], 4070);
    assert_eq!(container["rootfs"]["usedBytes"], 4096);
    let log = container["logs"]["usedBytes"].as_u64().unwrap();
    assert!(log > 0);
    let storage = pod["ephemeral-storage"]["usedBytes"].as_u64().unwrap();
    assert!(storage > 4096 + log, "and the file with hosts: {storage}");
}

#[tokio::test(start_paused = true)]
async fn cpu_and_memory_alone_touch_no_disk_and_no_runtime() {
    let scene = Scene::new(true, false);
    let summary = scene.summary("only_cpu_and_memory=true").await;
    let pod = summary["pods"][0].as_object().unwrap();
    let mut keys: Vec<_> = pod.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        ["containers", "cpu", "memory", "podRef", "startTime", "swap"]
    );
    let container = summary["pods"][0]["containers"][0].as_object().unwrap();
    let mut keys: Vec<_> = container.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["cpu", "memory", "name", "startTime", "swap"]);
    assert!(summary["node"].get("fs").is_none());
    assert!(summary["node"]["startTime"].is_string());
    assert!(scene.runtime.asked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn how_much_cpu_is_used_is_known_from_the_second_look_on() {
    let scene = Scene::new(true, false);
    let query = "only_cpu_and_memory=true";
    let rate = |summary: &Value| summary["pods"][0]["cpu"]["usageNanoCores"].clone();
    let begun = scene.clock.uptime();
    assert_eq!(
        rate(&scene.summary(query).await),
        0,
        "two looks, nothing was used"
    );
    let took = scene.clock.uptime().saturating_sub(begun);
    assert_eq!(took, rates::MOMENT);
    scene.clock.sleep(Duration::from_secs(10)).await;
    // Half a core.
    scene.used(POD, 7_000_000);
    let begun = scene.clock.uptime();
    let now = rate(&scene.summary(query).await).as_u64().unwrap();
    assert!((490_000_000..=510_000_000).contains(&now), "{now}");
    assert_eq!(scene.clock.uptime(), begun, "one look is enough by now");
}

#[tokio::test(start_paused = true)]
async fn what_the_machine_does_not_count_the_runtime_tells() {
    for whole_pods in [false, true] {
        let scene = Scene::new(false, whole_pods);
        let summary = scene.summary("only_cpu_and_memory=true").await;
        let pod = &summary["pods"][0];
        for used in [&pod["cpu"], &pod["containers"][0]["cpu"]] {
            assert_eq!(used["usageCoreNanoSeconds"], 9000);
            assert_eq!(used["usageNanoCores"], 7);
        }
        let psi = &pod["containers"][0]["cpu"]["psi"];
        assert_eq!(psi["some"]["total"], 77);
        assert_eq!(psi["some"]["avg10"], 1.5);
        assert_eq!(psi["full"]["total"], 0);
        assert_eq!(pod["memory"]["workingSetBytes"], 100);
        assert_eq!(pod["memory"]["usageBytes"], 150);
        let asked = scene.runtime.asked.lock().unwrap().clone();
        let wanted: &[&str] = if whole_pods {
            &["pods"]
        } else {
            &["pods", "containers"]
        };
        assert_eq!(asked, wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn who_holds_pods_to_their_limits_learns_the_same() {
    let scene = Scene::new(true, false);
    assert_eq!(**scene.published.borrow(), DiskFigures::default());
    let summary = scene.summary("").await;
    let pod = &summary["pods"][0];
    let figures = Arc::clone(&scene.published.borrow());
    assert_eq!(figures.images_apart, Some(false));
    let own = &figures.pods[&PodUid::new("u1")];
    let main = own.containers["main"];
    assert_eq!(pod["containers"][0]["rootfs"]["usedBytes"], main.layer);
    assert_eq!(pod["containers"][0]["logs"]["usedBytes"], main.logs);
    assert!(main.layer > 0 && main.logs > 0 && own.files > 0);
    let all = main.layer + main.logs + own.files;
    assert_eq!(pod["ephemeral-storage"]["usedBytes"], all);
}

#[tokio::test(start_paused = true)]
async fn what_programs_waited_is_told_in_microseconds_and_to_dashboards_in_seconds() {
    let scene = Scene::new(true, false);
    let summary = scene.summary("").await;
    let pod = &summary["pods"][0];
    let text = content(scene.stats.cadvisor().await).await;
    let text = String::from_utf8(text).unwrap();
    let group = format!("/{POD}/cri-containerd-c1.scope");
    let labels = format!(
        "{{container=\"main\",id=\"{group}\",image=\"busybox:1\",name=\"c1\",namespace=\"ns\",pod=\"p\"}}"
    );
    for (of, some, full) in WAITED {
        for told in [&summary["node"], pod, &pod["containers"][0]] {
            let wanted = json!({
                "some": {"total": some, "avg10": 1.5, "avg60": 0.25, "avg300": 0.1},
                "full": {"total": full, "avg10": 0.75, "avg60": 0.0, "avg300": 0.0},
            });
            assert_eq!(told[of]["psi"], wanted, "{of}");
        }
        for (how, micros) in [("waiting", some), ("stalled", full)] {
            let name = format!("container_pressure_{of}_{how}_seconds_total{labels} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&name));
            let value = line.and_then(|line| line.split(' ').next()).unwrap();
            let seconds: f64 = value.parse().unwrap();
            let told = std::time::Duration::from_secs_f64(seconds);
            assert_eq!(told.as_micros(), u128::from(micros), "{of} {how}: {value}");
        }
    }
}

#[test]
fn images_are_apart_if_their_device_is_another_and_only_what_runs_counts() {
    let on = |device| FileSystem {
        device,
        ..FileSystem::default()
    };
    let mut look = DiskLook::default();
    let mut ended = pod();
    ended.containers[0].state = ContainerState::Exited;
    for (images, root, apart) in [
        (Some(1), Some(1), Some(false)),
        (Some(1), Some(2), Some(true)),
        (None, Some(1), None),
        (Some(1), None, None),
    ] {
        look.images = images.map(|device| disks::Layer {
            on: Some(on(device)),
            ..disks::Layer::default()
        });
        let figures = look.figures(root.map(on), &[Arc::new(ended.clone())]);
        assert_eq!(figures.images_apart, apart, "{images:?} {root:?}");
        assert!(figures.pods.is_empty());
        let figures = look.figures(root.map(on), &[Arc::new(pod())]);
        assert_eq!(figures.pods.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_containers_that_nobody_tells_of() {
    let mut pod = pod();
    let unknown = ObservedContainer {
        id: "c2".to_owned(),
        name: "side".to_owned(),
        ..pod.containers[0].clone()
    };
    pod.containers.push(unknown.clone());
    let lonely = ObservedPod {
        containers: vec![unknown],
        ..pod.clone()
    };
    for (counted, whole_pods) in [(false, false), (false, true), (true, false)] {
        for (pod, wanted) in [(&pod, ["main"].as_slice()), (&lonely, &[])] {
            let scene = Scene::with(counted, whole_pods, pod.clone());
            let summary = scene.summary("only_cpu_and_memory=true").await;
            let pods = summary["pods"].as_array().unwrap();
            let containers = pods
                .iter()
                .flat_map(|pod| pod["containers"].as_array().unwrap());
            let names: Vec<_> = containers.map(|one| one["name"].as_str()).collect();
            assert_eq!(
                names,
                wanted.iter().map(|name| Some(*name)).collect::<Vec<_>>()
            );
            assert_eq!(pods.len(), wanted.len());
            let text = content(scene.stats.resource().await).await;
            let text = String::from_utf8(text).unwrap();
            let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
            assert!(!text.contains("side"), "{text}");
            assert_eq!(
                lines("pod_memory_working_set_bytes{"),
                wanted.len(),
                "{text}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn disks_are_looked_at_when_somebody_asks_and_not_too_often() {
    let scene = Scene::new(true, false);
    scene.clock.sleep(Duration::from_secs(1000)).await;
    let looks = || scene.runtime.asked.lock().unwrap().len();
    assert_eq!(looks(), 0, "nobody has asked");
    for _ in 0..5 {
        scene.summary("").await;
        // Else the same would be said again.
        scene.clock.sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(looks(), 1);
    scene.clock.sleep(Duration::from_secs(30)).await;
    scene.summary("").await;
    scene.clock.sleep(Duration::from_secs(1)).await;
    assert_eq!(looks(), 3, "those who asked meanwhile, and this one");
    drop(scene.tasks);
}

#[tokio::test(start_paused = true)]
async fn autoscalers_get_times_and_names_that_are_stable() {
    let scene = Scene::new(true, false);
    let answer = scene.stats.resource().await;
    assert_eq!(answer.headers()[CONTENT_TYPE], text::CONTENT_TYPE);
    let text = String::from_utf8(content(answer).await).unwrap();
    let millis = |clock: &SharedClock| {
        let since = clock.now().duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap().as_millis()
    };
    let now = millis(&scene.clock);
    for line in [
        format!("node_cpu_usage_seconds_total 2 {now}"),
        format!("node_memory_working_set_bytes 930 {now}"),
        format!("pod_cpu_usage_seconds_total{{pod=\"p\",namespace=\"ns\"}} 2 {now}"),
        format!(
            "container_memory_working_set_bytes{{container=\"main\",pod=\"p\",namespace=\"ns\"}} 930 {now}"
        ),
        format!(
            "container_swap_limit_bytes{{container=\"main\",pod=\"p\",namespace=\"ns\"}} 0 {now}"
        ),
        "container_start_time_seconds{container=\"main\",pod=\"p\",namespace=\"ns\"} 1690000000"
            .to_owned(),
        "# TYPE pod_memory_working_set_bytes gauge".to_owned(),
        "resource_scrape_error 0".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert_eq!(text.matches("# HELP").count(), 12);
}

#[tokio::test(start_paused = true)]
async fn dashboards_get_a_row_for_each_group() {
    let scene = Scene::new(true, false);
    let text = content(scene.stats.cadvisor().await).await;
    let text = String::from_utf8(text).unwrap();
    let group = format!("/{POD}/cri-containerd-c1.scope");
    for line in [
        format!(
            "container_memory_working_set_bytes{{container=\"main\",id=\"{group}\",image=\"busybox:1\",name=\"c1\",namespace=\"ns\",pod=\"p\"}} 930 "
        ),
        "container_cpu_usage_seconds_total{container=\"\",id=\"/kubepods\",image=\"\",name=\"\",namespace=\"\",pod=\"\",cpu=\"total\"} 2 ".to_owned(),
        format!(
            "container_network_receive_bytes_total{{container=\"\",id=\"/{POD}/cri-containerd-s1.scope\",image=\"pause:1\",name=\"s1\",namespace=\"ns\",pod=\"p\",interface=\"eth0\"}} 9 "
        ),
        format!("container_start_time_seconds{{container=\"main\",id=\"{group}\",image=\"busybox:1\",name=\"c1\",namespace=\"ns\",pod=\"p\"}} 1690000001\n"),
        "container_spec_memory_limit_bytes{container=\"\",id=\"/\",image=\"\",name=\"\",namespace=\"\",pod=\"\"} 1024000\n".to_owned(),
        "machine_memory_bytes{".to_owned(),
        "container_scrape_error 0\n".to_owned(),
    ] {
        assert!(text.contains(&line), "{line} in {text}");
    }
    let groups = text
        .lines()
        .filter(|line| line.starts_with("container_processes{"));
    assert_eq!(
        groups.count(),
        8,
        "each once, whatever the settings call it"
    );
    // A name once, with all of its lines below it.
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .collect();
    let unique: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    scene.stats.cadvisor().await;
    assert_eq!(
        *scene.runtime.asked.lock().unwrap(),
        ["sandbox"],
        "the runtime is asked for nothing but of which image each sandbox is, once"
    );
}

#[test]
fn only_cpu_and_memory_is_said_once_and_plainly() {
    for (query, wanted) in [
        ("only_cpu_and_memory=true", true),
        ("a=b&only_cpu_and_memory=tru%65", true),
        ("only_cpu_and_memory=1", false),
        ("only_cpu_and_memory=true&only_cpu_and_memory=true", false),
        ("", false),
    ] {
        assert_eq!(only_cpu_and_memory(query), wanted, "{query}");
    }
}

#[test]
fn the_own_group_is_one_for_cpu_and_memory() {
    for (text, wanted) in [
        (
            "0::/system.slice/a.service\n",
            Some("/system.slice/a.service"),
        ),
        ("2:cpu,cpuacct:/a\n1:memory:/a\n0::/\n", Some("/a")),
        ("2:cpu,cpuacct:/a\n1:memory:/b\n0::/\n", None),
        ("2:cpu:/a\n", None),
        ("", None),
    ] {
        assert_eq!(own_group(text), wanted, "{text}");
    }
}
