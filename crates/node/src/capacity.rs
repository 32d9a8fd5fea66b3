//! What the machine has: CPUs, memory, huge pages, room for files, places for
//! pods, devices.

use seams::host::MachineFacts;
use types::Quantity;
use types::quantity::Format;

use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, huge_pages, saturated};

/// How many pods a node takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodLimit {
    /// `maxPods`.
    pub most: u32,
    /// `podsPerCore`; 0: no limit by cores.
    pub per_core: u32,
}

impl PodLimit {
    fn on(self, cpus: u32) -> i64 {
        let most = i64::from(self.most);
        match self.per_core {
            0 => most,
            per_core => most.min(i64::from(per_core) * i64::from(cpus)),
        }
    }
}

/// What device plugins offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// Healthy ones and others.
    pub capacity: Resources,
    /// Healthy ones.
    pub allocatable: Resources,
    /// Those whose plugin went away: told of as none.
    pub removed: Vec<String>,
}

/// What the machine itself has. `storage` is the size of the file system with
/// the node's files, where that is told of.
pub fn of_machine(machine: &MachineFacts, pods: PodLimit, storage: Option<u64>) -> Resources {
    let bytes = |amount: u64| Quantity::new(saturated(amount), Format::BinarySi);
    let cpus = Quantity::from_milli(i64::from(machine.cpus) * 1000, Format::DecimalSi);
    let mut capacity = Resources::from([
        (CPU.to_owned(), cpus),
        (MEMORY.to_owned(), bytes(machine.memory)),
        (
            PODS.to_owned(),
            Quantity::new(pods.on(machine.cpus), Format::DecimalSi),
        ),
    ]);
    for pages in &machine.huge_pages {
        let amount = bytes(pages.size.saturating_mul(pages.count));
        capacity.insert(huge_pages(pages.size), amount);
    }
    if let Some(storage) = storage {
        capacity.insert(EPHEMERAL_STORAGE.to_owned(), bytes(storage));
    }
    capacity
}

/// What is told of a machine that cannot be looked at.
pub fn of_unknown_machine(pods: PodLimit) -> Resources {
    Resources::from([
        (CPU.to_owned(), Quantity::new(0, Format::DecimalSi)),
        (MEMORY.to_owned(), Quantity::new(0, Format::BinarySi)),
        (
            PODS.to_owned(),
            Quantity::new(i64::from(pods.most), Format::DecimalSi),
        ),
    ])
}

impl Devices {
    pub(crate) fn add_to(&self, capacity: &mut Resources) {
        let offered = self.capacity.iter();
        capacity.extend(offered.map(|(name, amount)| (name.clone(), amount.clone())));
        let none = Quantity::new(0, Format::DecimalSi);
        let removed = self.removed.iter();
        capacity.extend(removed.map(|name| (name.clone(), none.clone())));
    }
}

#[cfg(test)]
mod tests {
    use seams::host::HugePages;

    use super::*;
    use crate::testdata::{machine, printed};

    const PODS_110: PodLimit = PodLimit {
        most: 110,
        per_core: 0,
    };

    #[test]
    fn a_machine_is_told_of_as_upstream_tells_of_it() {
        let capacity = of_machine(&machine(), PODS_110, Some(264_212_084 * 1024));
        assert_eq!(
            printed(&capacity),
            "cpu=2 ephemeral-storage=264212084Ki hugepages-1Gi=0 hugepages-2Mi=0 \
             memory=24684100Ki pods=110"
        );
    }

    #[test]
    fn huge_pages_count_their_bytes_and_storage_may_be_left_out() {
        let mut machine = machine();
        machine.huge_pages = vec![HugePages {
            size: 2 << 20,
            count: 512,
        }];
        let capacity = of_machine(&machine, PODS_110, None);
        assert_eq!(
            printed(&capacity),
            "cpu=2 hugepages-2Mi=1Gi memory=24684100Ki pods=110"
        );
    }

    #[test]
    fn pods_are_limited_by_cores_and_over_all() {
        for (most, per_core, cpus, expected) in [
            (110, 0, 2, 110),
            (110, 10, 2, 20),
            (110, 60, 2, 110),
            (0, 10, 2, 0),
        ] {
            let limit = PodLimit { most, per_core };
            assert_eq!(limit.on(cpus), expected, "{limit:?}");
        }
    }

    #[test]
    fn a_machine_that_cannot_be_looked_at_has_nothing_but_places() {
        assert_eq!(
            printed(&of_unknown_machine(PODS_110)),
            "cpu=0 memory=0 pods=110"
        );
    }

    #[test]
    fn devices_of_a_plugin_that_went_away_are_told_of_as_none() {
        let devices = Devices {
            capacity: Resources::from([("example.com/gpu".to_owned(), "4".parse().unwrap())]),
            removed: vec!["example.com/nic".to_owned()],
            ..Devices::default()
        };
        let mut capacity = Resources::new();
        devices.add_to(&mut capacity);
        assert_eq!(printed(&capacity), "example.com/gpu=4 example.com/nic=0");
    }
}
