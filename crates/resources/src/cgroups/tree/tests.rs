use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use seams::Host;
use seams::host::{
    Answer, CgroupValue, CgroupVersion, DefaultRoute, DiskFigures, Hint, Interface, Listing,
    MachineFacts,
};
use serde_json::{Value, json};
use testkit::clock::TokioClock;

use super::*;
use crate::cgroups::CgroupDriver;
use crate::linux::Swap;
use crate::testing::container;

type Groups = BTreeMap<PathBuf, BTreeMap<String, String>>;

/// A machine that has cgroups and nothing else.
#[derive(Debug, Default)]
struct Machine {
    groups: Mutex<Groups>,
    /// How often the dead of a group are still there.
    busy: AtomicU32,
}

impl Machine {
    fn groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap()
    }
}

impl Host for Machine {
    fn machine(&self) -> Result<MachineFacts, HostError> {
        Ok(MachineFacts::default())
    }

    fn disk(&self, _: &Path) -> Result<DiskFigures, HostError> {
        Ok(DiskFigures::default())
    }

    fn interfaces(&self) -> Result<Vec<Interface>, HostError> {
        Ok(Vec::new())
    }

    fn default_routes(&self) -> Result<Option<Vec<DefaultRoute>>, HostError> {
        Ok(None)
    }

    fn resolve<'a>(&'a self, _: &'a str) -> Answer<'a, Vec<IpAddr>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn read(&self, _: &Path) -> Result<Option<Vec<u8>>, HostError> {
        Ok(None)
    }

    fn list(&self, _: &Path) -> Result<Option<Listing>, HostError> {
        Ok(None)
    }

    fn hint(&self, _: &Path) -> Hint {
        Box::pin(std::future::pending())
    }

    fn write(&self, path: &Path, _: &[u8], _: u32) -> Result<(), HostError> {
        Err(HostError::at(path, io::ErrorKind::Unsupported.into()))
    }

    fn cgroup_facts(&self) -> Result<CgroupFacts, HostError> {
        Ok(CgroupFacts {
            version: CgroupVersion::V2,
            controllers: ["cpu", "memory", "pids"].map(str::to_owned).into(),
            swap: false,
        })
    }

    fn make_cgroup(&self, path: &Path) -> Result<(), HostError> {
        for group in path.ancestors() {
            self.groups().entry(group.to_owned()).or_default();
        }
        Ok(())
    }

    fn has_cgroup(&self, path: &Path) -> Result<bool, HostError> {
        Ok(self.groups().contains_key(path))
    }

    fn write_cgroup(&self, path: &Path, values: &[CgroupValue]) -> Result<(), HostError> {
        let mut groups = self.groups();
        let group = groups.get_mut(path);
        let group = group.ok_or_else(|| HostError::at(path, io::ErrorKind::NotFound.into()))?;
        group.extend(
            values
                .iter()
                .map(|value| (value.file.clone(), value.value.clone())),
        );
        Ok(())
    }

    fn remove_cgroup(&self, path: &Path) -> Result<(), HostError> {
        let less = |busy: u32| busy.checked_sub(1);
        if self
            .busy
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
        {
            return Err(HostError::at(path, io::ErrorKind::ResourceBusy.into()));
        }
        self.groups().retain(|group, _| !group.starts_with(path));
        Ok(())
    }

    fn cgroups_in(&self, path: &Path) -> Result<Vec<String>, HostError> {
        let groups = self.groups();
        let children = groups.keys().filter(|group| group.parent() == Some(path));
        let name = |group: &PathBuf| group.file_name().unwrap().to_str().unwrap().to_owned();
        Ok(children.map(name).collect())
    }
}

fn machine() -> Arc<Machine> {
    Arc::default()
}

fn clock() -> SharedClock {
    Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH))
}

fn cgroups(host: SharedHost) -> PodCgroups {
    let layout = Layout::new(CgroupDriver::Cgroupfs, &CgroupName::default());
    let enforcement = Enforcement {
        version: CgroupVersion::V2,
        cpu_quota: true,
        quota_period: 100_000,
        kill_single_process: false,
        swap: Swap::Uncontrolled,
        memory: 1 << 33,
        huge_page_sizes: Vec::new(),
        memory_qos: None,
    };
    PodCgroups::new(host, clock(), layout, enforcement, 64, Arc::default()).unwrap()
}

fn pod(uid: &str, requests: &Value) -> Pod {
    let spec = json!({ "containers": [container("c", requests, &json!(null))] });
    serde_json::from_value(json!({ "metadata": { "uid": uid }, "spec": spec })).unwrap()
}

fn value(machine: &Machine, path: &str, file: &str) -> Option<String> {
    machine.groups().get(Path::new(path))?.get(file).cloned()
}

#[tokio::test(start_paused = true)]
async fn the_groups_above_the_pods_are_made_at_the_start_and_kept_up() {
    let machine = machine();
    let cgroups = cgroups(machine.clone());
    let allocatable = Amounts::from([("cpu".to_owned(), "2".parse().unwrap())]);
    cgroups.set_up(&allocatable).unwrap();
    let weight = |path| value(&machine, path, "cpu.weight");
    assert_eq!(weight("/kubepods").as_deref(), Some("79"));
    assert_eq!(weight("/kubepods/burstable").as_deref(), Some("1"));
    cgroups.share(1000, Asked::default()).unwrap();
    assert_eq!(weight("/kubepods/burstable").as_deref(), Some("39"));
    assert_eq!(weight("/kubepods/besteffort").as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_a_group_until_it_is_removed() {
    let machine = machine();
    let cgroups = cgroups(machine.clone());
    let (burstable, idle) = (pod("b-1", &json!({ "cpu": "1" })), pod("i-1", &json!(null)));
    assert!(!cgroups.has(&burstable).unwrap());
    for pod in [&burstable, &idle] {
        cgroups.ensure(pod).unwrap();
    }
    assert!(cgroups.has(&burstable).unwrap());
    let path = "/kubepods/burstable/podb-1";
    assert_eq!(cgroups.parent_of(&burstable), path);
    assert_eq!(value(&machine, path, "cpu.weight").as_deref(), Some("39"));
    assert_eq!(value(&machine, path, "pids.max").as_deref(), Some("64"));
    machine.make_cgroup(Path::new("/kubepods/other")).unwrap();

    let found = cgroups.list().unwrap();
    let uids: Vec<&str> = found.keys().map(PodUid::as_str).collect();
    assert_eq!(uids, ["b-1", "i-1"]);
    assert_eq!(found[&PodUid::new("i-1")].class, QosClass::BestEffort);
    let name = &found[&PodUid::new("b-1")].name;
    assert_eq!(name, &cgroups.name_of(&burstable));

    cgroups.starve(name).unwrap();
    assert_eq!(value(&machine, path, "cpu.weight").as_deref(), Some("1"));
    cgroups.remove(name).await.unwrap();
    cgroups.remove(name).await.unwrap();
    assert!(!cgroups.has(&burstable).unwrap());
    assert_eq!(cgroups.list().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_there_keeps_its_values() {
    let machine = machine();
    let cgroups = cgroups(machine.clone());
    let pod = pod("b-1", &json!({ "cpu": "1" }));
    cgroups.ensure(&pod).unwrap();
    cgroups.starve(&cgroups.name_of(&pod)).unwrap();
    cgroups.ensure(&pod).unwrap();
    let weight = value(&machine, "/kubepods/burstable/podb-1", "cpu.weight");
    assert_eq!(weight.as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_busy_group_is_tried_again_a_few_times() {
    for (busy, removed) in [(4, true), (5, false)] {
        let machine = machine();
        machine.busy.store(busy, Ordering::Relaxed);
        let cgroups = cgroups(machine.clone());
        let outcome = cgroups.remove(&CgroupName::parse("/pod").unwrap()).await;
        assert_eq!(outcome.is_ok(), removed, "{outcome:?}");
        assert_eq!(machine.busy.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_is_told_with_the_group() {
    let cgroups = cgroups(machine());
    let error = cgroups.share(5, Asked::default()).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot set the limits of cgroup /kubepods: "),
        "{error}"
    );
}
