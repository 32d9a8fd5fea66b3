//! Pods with users of their own (`hostUsers: false`): root inside is nobody outside, and
//! what a pod is given is its root's all the same.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::lab::Runtime;
use testkit::wait;

use super::stage::{SOON, Stage, identity, main_of, shell};

/// The handler of the lab's nodes that can map the ids of mounts.
const HANDLER: &str = "upstream-runc";
const PODS: &str = "/var/lib/kubelet/pods";
const LENGTH: u32 = 65_536;

const SLEEPER: &str = "echo begun; trap 'exit 0' TERM; while :; do sleep 0.2; done";

/// Owner, group and mode of all that a pod is given.
const LOOK: &str = "\
cd /var/run/secrets/kubernetes.io/serviceaccount
stat -L -c '%n %u:%g %a' /room /memory /map /map/word /secret /secret/word \
    /all/note ./token /etc/hosts /dev/termination-log /etc/hostname /etc/resolv.conf /bin/busybox /proc/1";

/// What root may do with them, and what not.
const USE: &str = "\
for place in /room /memory /; do echo x > $place/made && stat -c '%n %u:%g' $place/made; done
cat /map/word /secret/word; echo
test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo a token
chown 7:8 /room/made && stat -c '%n %u:%g' /room/made
echo 10.1.2.3 more >> /etc/hosts && tail -n 1 /etc/hosts
echo last words > /dev/termination-log && cat /dev/termination-log
for place in /map /secret; do touch $place/x 2>/dev/null || echo \"$place is read-only\"; done
mount -t tmpfs none /room 2>/dev/null || echo no mounts
echo 1 2>/dev/null > /proc/sys/kernel/panic || echo no kernel parameters";

/// The ids of the machine that a pod's stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    first: u32,
    length: u32,
}

impl Mapping {
    fn overlaps(self, other: Self) -> bool {
        self.first < other.first + other.length && other.first < self.first + self.length
    }
}

/// A pod that runs, and where the machine has it.
struct Inmate<'a> {
    stage: &'a Stage,
    name: &'a str,
    uid: String,
}

impl<'a> Inmate<'a> {
    fn ready(stage: &'a Stage, name: &'a str) -> Result<Self> {
        let pod = stage.wait_ready(name)?;
        let uid = pod["metadata"]["uid"].as_str().context("no uid")?;
        let uid = uid.to_owned();
        Ok(Self { stage, name, uid })
    }

    /// What a script says in it.
    fn inside(&self, script: &str) -> Result<String> {
        let words = ["exec", self.name, "--", "sh", "-c", script];
        self.stage.run(&words)
    }

    /// What a script says on the node: the pod's directory is `$pod`, its container's first
    /// process `$process`.
    fn outside(&self, script: &str) -> Result<String> {
        let running = self.stage.running()?;
        let id = running.get(self.name).and_then(|ids| ids.first());
        let id = id.context("it has no container")?;
        let told = self.stage.node.crictl(["inspect", id])?;
        let told: Value = serde_json::from_str(&told)?;
        let process = told["info"]["pid"].as_u64().context("no pid")?;
        let (uid, script) = (&self.uid, script.trim());
        let script = format!("pod={PODS}/{uid}\nprocess={process}\n{script}");
        self.stage.node.machine().run("sh", ["-c", &script])
    }

    /// What is noted for whoever runs the node next, which is what the kernel has.
    fn mapping(&self) -> Result<Mapping> {
        let noted: Value = serde_json::from_str(&self.outside("cat $pod/userns")?)?;
        let uids = &noted["uidMappings"];
        ensure!(*uids == noted["gidMappings"], "{noted}");
        ensure!(uids.as_array().map(Vec::len) == Some(1), "{noted}");
        ensure!(uids[0]["containerId"] == 0, "{noted}");
        let number = |key: &str| {
            let number = uids[0][key].as_u64().and_then(|it| u32::try_from(it).ok());
            number.with_context(|| format!("{key} in {noted}"))
        };
        let (first, length) = (number("hostId")?, number("length")?);
        let kernel = format!("0 {first} {length}");
        let inside = self.inside("cat /proc/self/uid_map /proc/self/gid_map")?;
        let outside = self.outside("cat /proc/$process/uid_map /proc/$process/gid_map")?;
        for line in inside.lines().chain(outside.lines()) {
            let line: Vec<&str> = line.split_whitespace().collect();
            ensure!(line.join(" ") == kernel, "{line:?}, noted is {kernel}");
        }
        ensure!(inside.lines().count() == 2 && outside.lines().count() == 2);
        Ok(Mapping { first, length })
    }
}

fn make_class(stage: &Stage) -> Result<()> {
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": { "name": stage.namespace() }, "handler": HANDLER,
    });
    stage.kubectl().apply(&class.to_string())?;
    Ok(())
}

fn volumes() -> Value {
    let note = json!({"path": "note", "fieldRef": {"fieldPath": "metadata.name"}});
    json!([
        {"name": "room", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "map", "configMap": {"name": "told"}},
        {"name": "secret", "secret": {"secretName": "hidden", "defaultMode": 0o400}},
        {"name": "all", "projected": {"sources": [{"downwardAPI": {"items": [note]}}]}},
    ])
}

/// A pod with users of its own and a volume of each kind.
fn create(stage: &Stage, name: &str, context: &Value) -> Result<()> {
    let volumes = volumes();
    let mut main = shell(SLEEPER);
    let names = volumes.as_array().into_iter().flatten();
    let mount = |volume: &Value| {
        let path = format!("/{}", volume["name"].as_str().unwrap_or_default());
        json!({"name": volume["name"], "mountPath": path})
    };
    main["volumeMounts"] = Value::Array(names.map(mount).collect());
    let more = json!({
        "hostUsers": false, "runtimeClassName": stage.namespace(),
        "securityContext": context, "volumes": volumes,
    });
    // Admission may not know the class yet.
    wait::until(&format!("pod {name} to be taken"), SOON, || {
        stage.create_pod(name, main.clone(), more.clone())
    })
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

fn same(what: &str, found: &str, expected: &[&str]) -> Result<()> {
    let found = lines(found);
    ensure!(found == expected, "{what}: {found:#?}, not {expected:#?}");
    Ok(())
}

fn as_root(root: &Inmate<'_>) -> Result<()> {
    let expected = [
        "/room 0:0 777",
        "/memory 0:0 1777",
        "/map 0:0 777",
        "/map/word 0:0 644",
        "/secret 0:0 1777",
        "/secret/word 0:0 400",
        "/all/note 0:0 644",
        "./token 0:0 644",
        "/etc/hosts 0:0 644",
        "/dev/termination-log 0:0 666",
        "/etc/hostname 0:0 644",
        "/etc/resolv.conf 0:0 644",
        "/bin/busybox 0:0 755",
        "/proc/1 0:0 555",
    ];
    same("inside", &root.inside(LOOK)?, &expected)?;
    let expected = [
        "/room/made 0:0",
        "/memory/made 0:0",
        "//made 0:0",
        "onetwo",
        "a token",
        "/room/made 7:8",
        "10.1.2.3 more",
        "last words",
        "/map is read-only",
        "/secret is read-only",
        "no mounts",
        "no kernel parameters",
    ];
    same("what root may", &root.inside(USE)?, &expected)
}

/// Its processes are nobody's outside; its files have the ids that they have inside.
fn from_outside(root: &Inmate<'_>, mapping: Mapping) -> Result<()> {
    let first = mapping.first;
    let found = root.outside(
        "grep -E '^[UG]id:' /proc/$process/status
         stat -c '%u:%g' /proc/$process
         cd $pod/volumes
         stat -c '%u:%g' kubernetes.io~empty-dir/room kubernetes.io~empty-dir/room/made
         stat -L -c '%u:%g' kubernetes.io~secret/secret/word $pod/etc-hosts
         readlink /proc/$process/ns/user | grep -c -v -F $(readlink /proc/self/ns/user)",
    )?;
    let ids = format!("\t{first}").repeat(4);
    let (uids, gids) = (format!("Uid:{ids}"), format!("Gid:{ids}"));
    let process = format!("{first}:{first}");
    let expected = [&uids, &gids, &process, "0:0", "7:8", "0:0", "0:0", "1"];
    same("outside", &found, &expected)
}

/// One who is not root has the same ids on the disk, and the group of its volumes.
fn as_somebody(somebody: &Inmate<'_>, mapping: Mapping) -> Result<()> {
    let found = somebody.inside(
        "id -u; id -g; id -G; stat -c '%u:%g %a' /room
         echo x > /room/mine; stat -c '%u:%g' /room/mine
         cat /map/word /secret/word; echo
         stat -L -c '%u:%g %a' /secret/word
         test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo a token",
    )?;
    let expected = [
        "1000",
        "3000",
        "3000 2000",
        "0:2000 2777",
        "1000:2000",
        "onetwo",
        "0:2000 440",
        "a token",
    ];
    same("inside, as somebody", &found, &expected)?;
    let found = somebody.outside(
        "stat -c '%u:%g' /proc/$process
         stat -c '%u:%g' $pod/volumes/kubernetes.io~empty-dir/room/mine",
    )?;
    let process = format!("{}:{}", mapping.first + 1000, mapping.first + 3000);
    same(
        "outside, as somebody",
        &found,
        &[process.as_str(), "1000:2000"],
    )
}

/// Waits until the machine has nothing of a pod any more.
fn wait_no_trace(stage: &Stage, uid: &str) -> Result<()> {
    let script = format!(
        "grep -F {uid} /proc/mounts
         find {PODS} /var/log/pods /sys/fs/cgroup -name '*{uid}*' -prune"
    );
    wait::until("the machine to have nothing of the pod", SOON, || {
        let script = format!("{script}; true");
        let left = stage.node.machine().run("sh", ["-c", &script])?;
        ensure!(left.is_empty(), "left: {left}");
        Ok(())
    })
}

#[test]
fn pods_with_users_of_their_own_are_root_inside_and_nobody_outside() -> Result<()> {
    let stage = Stage::ours("pods-users", Runtime::Containerd2)?;
    make_class(&stage)?;
    stage.run(&["create", "configmap", "told", "--from-literal=word=one"])?;
    let word = "--from-literal=word=two";
    stage.run(&["create", "secret", "generic", "hidden", word])?;
    create(&stage, "root", &json!({}))?;
    let context = json!({"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000});
    create(&stage, "somebody", &context)?;

    let root = Inmate::ready(&stage, "root")?;
    let somebody = Inmate::ready(&stage, "somebody")?;
    let (first, second) = (root.mapping()?, somebody.mapping()?);
    for mapping in [first, second] {
        ensure!(mapping.length == LENGTH, "{mapping:?}");
        ensure!(mapping.first >= LENGTH, "{mapping:?}");
    }
    ensure!(!first.overlaps(second), "{first:?} and {second:?}");
    as_root(&root)?;
    from_outside(&root, first)?;
    as_somebody(&somebody, second)?;
    ensure!(stage.run(&["logs", "root"])? == "begun\n");

    // Neither an agent that comes back nor a container that is started again changes that.
    let before = identity(&stage.pod("root")?);
    stage.node.kubelet().kill()?;
    stage.node.kubelet().start_again()?;
    wait::until("the agent to answer", SOON, || somebody.inside("true"))?;
    // Its word may end with its container; what has become of that is seen below.
    let _ = somebody.inside("kill 1");
    let pod = stage.wait_pod("somebody", "started again", |pod| {
        main_of(pod)["restartCount"] == 1 && main_of(pod)["ready"] == true
    })?;
    let ended = &main_of(&pod)["lastState"]["terminated"];
    ensure!(ended["exitCode"] == 0, "{ended}");
    ensure!(somebody.mapping()? == second);
    let now = identity(&stage.pod("root")?);
    ensure!(now == before, "{before} became {now}");
    ensure!(root.mapping()? == first);
    // What it has said before it ended is read by the agent.
    let _ = root.inside("kill 1");
    let pod = stage.wait_pod("root", "started again", |pod| {
        main_of(pod)["restartCount"] == 1 && main_of(pod)["ready"] == true
    })?;
    let ended = &main_of(&pod)["lastState"]["terminated"];
    ensure!(ended["message"] == "last words\n", "{ended}");

    for gone in [root, somebody] {
        stage.run(&["delete", "pod", gone.name])?;
        stage.wait_gone(gone.name)?;
        wait_no_trace(&stage, &gone.uid)?;
    }
    stage
        .kubectl()
        .run(["delete", "runtimeclass", stage.namespace()])?;
    stage.end()
}
