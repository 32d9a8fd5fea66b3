//! What is asked of a container seldom: kept as it goes over the wire, which takes
//! a third of the memory. There are hundreds of thousands of containers.

use prost::Message as _;
use seams::cri;

/// The mounts, the limits and the user of a container.
#[derive(Clone, Debug)]
pub(super) struct Details(Box<[u8]>);

impl Details {
    pub(super) fn new(mounts: Vec<cri::Mount>, linux: cri::LinuxContainerConfig) -> Self {
        let context = linux.security_context.unwrap_or_default();
        let user = cri::LinuxContainerUser {
            uid: context.run_as_user.map_or(0, |user| user.value),
            gid: context.run_as_group.map_or(0, |group| group.value),
            supplemental_groups: context.supplemental_groups,
        };
        Self::pack(&cri::ContainerStatus {
            mounts,
            resources: linux.resources.map(|linux| cri::ContainerResources {
                linux: Some(linux),
                windows: None,
            }),
            user: Some(cri::ContainerUser { linux: Some(user) }),
            ..cri::ContainerStatus::default()
        })
    }

    fn pack(status: &cri::ContainerStatus) -> Self {
        Self(status.encode_to_vec().into())
    }

    /// A status that says this, and nothing else.
    pub(super) fn open(&self) -> cri::ContainerStatus {
        // It was packed here: it can be opened.
        cri::ContainerStatus::decode(&*self.0).unwrap_or_default()
    }

    /// Bytes; nothing if there is no limit.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        let limit = self.open().resources?.linux?.memory_limit_in_bytes;
        u64::try_from(limit).ok().filter(|limit| *limit > 0)
    }

    /// Takes up those limits that say something, as containerd does.
    pub(super) fn limit(&mut self, update: cri::LinuxContainerResources) {
        let mut status = self.open();
        let resources = status.resources.get_or_insert_default();
        take_up(resources.linux.get_or_insert_default(), update);
        *self = Self::pack(&status);
    }
}

fn take_up(resources: &mut cri::LinuxContainerResources, update: cri::LinuxContainerResources) {
    let numbers = [
        (&mut resources.cpu_period, update.cpu_period),
        (&mut resources.cpu_quota, update.cpu_quota),
        (&mut resources.cpu_shares, update.cpu_shares),
        (
            &mut resources.memory_limit_in_bytes,
            update.memory_limit_in_bytes,
        ),
        (
            &mut resources.memory_swap_limit_in_bytes,
            update.memory_swap_limit_in_bytes,
        ),
        (&mut resources.oom_score_adj, update.oom_score_adj),
    ];
    for (kept, new) in numbers {
        if new != 0 {
            *kept = new;
        }
    }
    let texts = [
        (&mut resources.cpuset_cpus, update.cpuset_cpus),
        (&mut resources.cpuset_mems, update.cpuset_mems),
    ];
    for (kept, new) in texts {
        if !new.is_empty() {
            *kept = new;
        }
    }
    if !update.hugepage_limits.is_empty() {
        resources.hugepage_limits = update.hugepage_limits;
    }
    resources.unified.extend(update.unified);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(memory: i64, shares: i64) -> cri::LinuxContainerResources {
        cri::LinuxContainerResources {
            memory_limit_in_bytes: memory,
            cpu_shares: shares,
            ..cri::LinuxContainerResources::default()
        }
    }

    #[test]
    fn what_was_given_comes_back() {
        let mount = cri::Mount {
            container_path: "/etc/hosts".to_owned(),
            readonly: true,
            ..cri::Mount::default()
        };
        let linux = cri::LinuxContainerConfig {
            resources: Some(limits(1 << 30, 2)),
            security_context: Some(cri::LinuxContainerSecurityContext {
                run_as_user: Some(cri::Int64Value { value: 1000 }),
                supplemental_groups: vec![5, 6],
                ..cri::LinuxContainerSecurityContext::default()
            }),
        };
        let details = Details::new(vec![mount.clone()], linux);
        let status = details.open();
        assert_eq!(status.mounts, [mount]);
        assert_eq!(status.resources.unwrap().linux, Some(limits(1 << 30, 2)));
        let user = status.user.unwrap().linux.unwrap();
        assert_eq!((user.uid, user.gid), (1000, 0));
        assert_eq!(user.supplemental_groups, [5, 6]);
        assert_eq!(details.memory_limit(), Some(1 << 30));
    }

    #[test]
    fn limits_that_say_nothing_leave_those_that_are_there() {
        let mut details = Details::new(Vec::new(), cri::LinuxContainerConfig::default());
        assert_eq!(details.memory_limit(), None);
        details.limit(limits(4096, 0));
        details.limit(cri::LinuxContainerResources {
            cpuset_cpus: "0-1".to_owned(),
            ..limits(0, 7)
        });
        let linux = details.open().resources.unwrap().linux.unwrap();
        assert_eq!((linux.memory_limit_in_bytes, linux.cpu_shares), (4096, 7));
        assert_eq!(linux.cpuset_cpus, "0-1");
    }
}
