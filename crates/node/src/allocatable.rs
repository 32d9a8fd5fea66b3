//! What pods can have: what the machine has, less what is reserved for the system
//! and for Kubernetes, and less what eviction keeps free.

use thiserror::Error;
use types::Quantity;
use types::quantity::Format;

use crate::capacity::Devices;
use crate::resources::{
    CPU, EPHEMERAL_STORAGE, MEMORY, Resources, is_extended, is_huge_pages, less,
};

/// What is kept from pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    /// `systemReserved`.
    pub system: Resources,
    /// `kubeReserved`.
    pub kube: Resources,
    /// `evictionHard` of `memory.available`.
    pub memory_threshold: Option<Threshold>,
    /// `evictionHard` of `nodefs.available`.
    pub storage_threshold: Option<Threshold>,
}

/// What must stay free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Threshold {
    Amount(Quantity),
    Share(Share),
}

/// A part of what there is. Upstream holds it in 32 bits, and prints sums that
/// only come out equal if we do, too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f32);

// A share is never NaN: it is made of text that names a number from 0 to 100.
impl Eq for Share {}

/// Why a machine cannot keep what it is told to keep.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{resource} has a reservation of {reserved} but capacity of {capacity}: lower systemReserved, kubeReserved or evictionHard"
)]
pub struct OverReserved {
    pub resource: String,
    pub reserved: String,
    pub capacity: String,
}

impl Threshold {
    /// Reads a value of `evictionHard`. `None`: a share of nothing or everything,
    /// which is no threshold, or no value that validation would have passed.
    pub fn read(text: &str) -> Option<Self> {
        let Some(share) = text.strip_suffix('%') else {
            return text.parse().ok().map(Self::Amount);
        };
        if ["0", "100"].contains(&share) {
            return None;
        }
        let share: f32 = share.parse().ok()?;
        (0.0..=100.0)
            .contains(&share)
            .then(|| Self::Share(Share(share / 100.0)))
    }

    /// What stays free of so much.
    pub fn of(&self, capacity: &Quantity) -> Quantity {
        match self {
            Self::Amount(amount) => amount.clone(),
            Self::Share(Share(share)) => {
                // To float and back is what upstream does with it.
                #[expect(
                    clippy::cast_precision_loss,
                    clippy::cast_possible_truncation,
                    reason = "upstream's own rounding, which users see in the last digits"
                )]
                let bytes = (capacity.value() as f64 * f64::from(*share)) as i64;
                Quantity::new(bytes, Format::BinarySi)
            }
        }
    }
}

impl Reservations {
    /// The reserved amount of each resource that the machine has.
    pub fn of(&self, capacity: &Resources) -> Resources {
        let names = capacity.keys().filter(|name| is_reservable(name));
        let reserved = names.filter_map(|name| {
            let sum = self.parts(name, capacity).into_iter().flatten();
            let sum = sum.fold(Quantity::new(0, Format::DecimalSi), |sum, part| {
                sum.checked_add(&part).unwrap_or(sum)
            });
            (!sum.is_zero()).then(|| (name.clone(), sum))
        });
        reserved.collect()
    }

    fn parts(&self, name: &str, capacity: &Resources) -> [Option<Quantity>; 3] {
        let threshold = match name {
            MEMORY => self.memory_threshold.as_ref(),
            EPHEMERAL_STORAGE => self.storage_threshold.as_ref(),
            _ => None,
        };
        let kept_free = threshold
            .zip(capacity.get(name))
            .map(|(threshold, all)| threshold.of(all));
        [
            self.system.get(name).cloned(),
            self.kube.get(name).cloned(),
            kept_free,
        ]
    }

    /// Whether the machine has what it is told to reserve. To be asked once, at
    /// the start: upstream does not start with such a configuration.
    pub fn check(&self, capacity: &Resources) -> Result<(), OverReserved> {
        for (resource, reserved) in self.of(capacity) {
            let Some(all) = capacity.get(&resource).filter(|all| **all < reserved) else {
                continue;
            };
            return Err(OverReserved {
                capacity: all.to_string(),
                reserved: reserved.to_string(),
                resource,
            });
        }
        Ok(())
    }
}

/// Only what the machine itself has can be reserved.
fn is_reservable(name: &str) -> bool {
    [CPU, MEMORY, EPHEMERAL_STORAGE].contains(&name) || is_huge_pages(name)
}

/// What pods can have of `capacity`. `before` is what the object says now: names
/// that nobody speaks of any more stay as they are, unless they are of devices.
pub fn of(
    capacity: &Resources,
    reservations: &Reservations,
    devices: &Devices,
    before: Resources,
) -> Resources {
    let mut allocatable = before;
    allocatable.retain(|name, _| capacity.contains_key(name) || !is_extended(name));
    let reserved = reservations.of(capacity);
    for (name, all) in capacity {
        let left = reserved.get(name).map(|reserved| less(all, reserved));
        allocatable.insert(name.clone(), left.unwrap_or_else(|| all.clone()));
    }
    let healthy = devices.allocatable.iter();
    allocatable.extend(healthy.map(|(name, amount)| (name.clone(), amount.clone())));
    // Memory in huge pages is no memory for anything else.
    for (_, pages) in capacity.iter().filter(|(name, _)| is_huge_pages(name)) {
        if let Some(memory) = allocatable.get_mut(MEMORY) {
            *memory = less(memory, pages);
        }
    }
    allocatable
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata::{printed, resources};

    fn defaults() -> Reservations {
        Reservations {
            memory_threshold: Threshold::read("100Mi"),
            storage_threshold: Threshold::read("10%"),
            ..Reservations::default()
        }
    }

    fn left(capacity: &str, reservations: &Reservations) -> String {
        let capacity = resources(capacity);
        let left = of(
            &capacity,
            reservations,
            &Devices::default(),
            Resources::new(),
        );
        printed(&left)
    }

    #[test]
    fn what_is_left_is_what_upstream_leaves_to_the_byte() {
        let capacity = "cpu=2 ephemeral-storage=264212084Ki hugepages-1Gi=0 hugepages-2Mi=0 \
                        memory=24684100Ki pods=110";
        // The first as a real node printed it, the second by upstream's rule.
        for (share, storage) in [("1%", "267847642337"), ("10%", "243497856212")] {
            let reservations = Reservations {
                storage_threshold: Threshold::read(share),
                ..defaults()
            };
            let expected = format!(
                "cpu=2 ephemeral-storage={storage} hugepages-1Gi=0 hugepages-2Mi=0 \
                 memory=24581700Ki pods=110"
            );
            assert_eq!(left(capacity, &reservations), expected);
        }
    }

    #[test]
    fn reservations_add_up_and_never_leave_less_than_nothing() {
        let reservations = Reservations {
            system: resources("cpu=500m memory=1Gi pid=1000"),
            kube: resources("cpu=250m memory=1Gi ephemeral-storage=1Gi"),
            ..defaults()
        };
        for (capacity, expected) in [
            (
                "cpu=2 memory=4Gi pods=110",
                "cpu=1250m memory=1948Mi pods=110",
            ),
            ("cpu=500m memory=1Gi", "cpu=0 memory=0"),
        ] {
            assert_eq!(left(capacity, &reservations), expected);
        }
    }

    #[test]
    fn huge_pages_are_taken_from_memory() {
        let capacity = "hugepages-1Gi=1Gi hugepages-2Mi=512Mi memory=4Gi";
        assert_eq!(
            left(capacity, &defaults()),
            "hugepages-1Gi=1Gi hugepages-2Mi=512Mi memory=2460Mi"
        );
        assert_eq!(
            left("hugepages-1Gi=8Gi memory=4Gi", &defaults()),
            "hugepages-1Gi=8Gi memory=0"
        );
    }

    #[test]
    fn devices_that_are_gone_are_dropped_and_healthy_ones_counted() {
        let devices = Devices {
            allocatable: resources("example.com/gpu=3"),
            ..Devices::default()
        };
        let before = resources("example.com/gpu=4 example.com/old=1 attachable-volumes-x=9");
        let capacity = resources("example.com/gpu=4");
        let left = of(&capacity, &Reservations::default(), &devices, before);
        assert_eq!(printed(&left), "attachable-volumes-x=9 example.com/gpu=3");
    }

    #[test]
    fn thresholds_are_amounts_or_shares_in_32_bits() {
        for (text, capacity, expected) in [
            ("100Mi", "1Gi", Some("100Mi")),
            ("10%", "264212084Ki", Some("27055317804")),
            ("12.5%", "1000", Some("125")),
            ("0%", "1000", None),
            ("100%", "1000", None),
            ("x", "1000", None),
        ] {
            let capacity = capacity.parse().unwrap();
            let kept = Threshold::read(text).map(|threshold| threshold.of(&capacity).to_string());
            assert_eq!(kept.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_machine_that_is_too_small_for_its_reservations_is_refused() {
        let reservations = Reservations {
            system: resources("memory=2Gi"),
            kube: resources("memory=2Gi"),
            ..defaults()
        };
        assert_eq!(reservations.check(&resources("cpu=1 memory=5Gi")), Ok(()));
        let error = reservations.check(&resources("cpu=1 memory=4Gi"));
        assert_eq!(
            error.unwrap_err().to_string(),
            "memory has a reservation of 4196Mi but capacity of 4Gi: lower systemReserved, \
             kubeReserved or evictionHard"
        );
    }
}
