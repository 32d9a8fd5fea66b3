//! `/metrics/cadvisor`: everything that the kernel tells of groups, under the names that
//! dashboards and alerts know.
//!
//! The answer is written family by family while it is sent, from one look: a thousand
//! groups have a hundred thousand lines, and they are never in memory together.

mod families;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http_body::{Body, Frame};
use seams::host::{InterfaceFigures, MachineFacts, MachineFigures};

use super::look::{Look, Row};
use super::text::{Family, Kind, Named, Value, labels};
use families::FAMILIES;

/// So much is written before it is handed on.
const PIECE: usize = 64 * 1024;

/// A group, with what its lines have in common.
#[derive(Debug)]
struct Entry {
    labels: String,
    row: Row,
    started: Option<SystemTime>,
    network: Vec<InterfaceFigures>,
    /// The group of all others: the machine.
    is_root: bool,
    /// A container's or a sandbox's, not one that holds others.
    is_container: bool,
}

/// What a scrape tells of.
#[derive(Debug)]
pub(super) struct Scrape {
    entries: Vec<Entry>,
    machine: MachineFigures,
    facts: MachineFacts,
    failed: bool,
    now: SystemTime,
}

impl Scrape {
    /// `failed`: the look is not whole.
    pub(super) fn new(
        look: Look,
        machine: MachineFigures,
        facts: MachineFacts,
        failed: bool,
        now: SystemTime,
    ) -> Self {
        Self {
            entries: entries(look, &facts),
            machine,
            facts,
            failed,
            now,
        }
    }

    /// The piece of a number; `None` after the last.
    fn piece(&self, next: &mut usize) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(2 * PIECE);
        if *next == 0 {
            self.machine(&mut out);
        }
        while out.len() < PIECE {
            let Some((named, write)) = FAMILIES.get(*next) else {
                break;
            };
            *next += 1;
            let mut family = Family::new(&mut out, *named);
            for entry in &self.entries {
                write(&mut family, entry, self);
            }
        }
        (!out.is_empty()).then_some(out)
    }

    fn machine(&self, out: &mut Vec<u8>) {
        let gauge = |name, help| Named {
            name,
            help,
            kind: Kind::Gauge,
        };
        let facts = &self.facts;
        let version = [
            ("cadvisorRevision", ""),
            ("cadvisorVersion", ""),
            ("dockerVersion", ""),
            ("kernelVersion", &*facts.kernel_release),
            ("osVersion", &*facts.os_image),
        ];
        let version_info = gauge("cadvisor_version_info", "Always 1, with what runs here.");
        Family::new(out, version_info).put("", &version, Value::Count(1), None);
        let own = labels(&[
            ("boot_id", &*facts.boot_id),
            ("machine_id", &*facts.machine_id),
            ("system_uuid", &*facts.system_uuid),
        ]);
        let amounts = [
            (
                gauge("machine_cpu_cores", "Logical CPUs."),
                u64::from(facts.cpus),
            ),
            (
                gauge("machine_cpu_physical_cores", "CPU cores."),
                u64::from(self.machine.physical_cores),
            ),
            (
                gauge("machine_cpu_sockets", "Sockets that CPUs are in."),
                u64::from(self.machine.sockets),
            ),
            (gauge("machine_memory_bytes", "Memory."), facts.memory),
            (gauge("machine_swap_bytes", "Swap."), facts.swap),
        ];
        for (named, amount) in amounts {
            Family::new(out, named).put(&own, &[], Value::Count(amount), None);
        }
        let failed = Value::Count(u64::from(self.failed));
        let of_groups = gauge(
            "container_scrape_error",
            "1 if groups could not be looked at, else 0.",
        );
        Family::new(out, of_groups).put("", &[], failed, None);
        let of_machine = gauge(
            "machine_scrape_error",
            "1 if the machine could not be looked at, else 0.",
        );
        Family::new(out, of_machine).put("", &[], Value::Count(0), None);
    }
}

fn entries(look: Look, facts: &MachineFacts) -> Vec<Entry> {
    let mut entries = Vec::new();
    let plain = |row: Row| Entry {
        labels: group_labels(&row.id, Whose::default()),
        started: row.figures.created,
        network: Vec::new(),
        is_root: false,
        is_container: false,
        row,
    };
    if let Some(mut root) = look.node {
        root.figures.limits.memory = facts.memory;
        root.figures.limits.swap = facts.swap;
        entries.push(Entry {
            network: look.network.unwrap_or_default(),
            is_root: true,
            ..plain(root)
        });
    }
    entries.extend(look.above.into_iter().map(plain));
    for (_, row) in look.system {
        // Several settings may name one group, and none of its series may come twice.
        if entries.iter().all(|entry| entry.row.id != row.id) {
            entries.push(plain(row));
        }
    }
    for mut pod in look.pods {
        let observed = std::sync::Arc::clone(&pod.pod);
        let whose = Whose {
            namespace: &observed.pod.name.namespace,
            pod: &observed.pod.name.name,
            ..Whose::default()
        };
        let network = pod.network.take().unwrap_or_default();
        // Without a group of the sandbox's own, the pod's tells of the network.
        let (of_sandbox, of_pod) = match pod.sandbox {
            Some(_) => (network, Vec::new()),
            None => (Vec::new(), network),
        };
        if let Some(row) = pod.own.take() {
            entries.push(Entry {
                labels: group_labels(&row.id, whose),
                network: of_pod,
                ..plain(row)
            });
        }
        let sandbox = pod.ready_sandbox().map(|sandbox| sandbox.id.clone());
        if let (Some(row), Some(id)) = (pod.sandbox.take(), sandbox) {
            let whose = Whose {
                image: &pod.image,
                name: &id,
                ..whose
            };
            entries.push(Entry {
                labels: group_labels(&row.id, whose),
                network: of_sandbox,
                is_container: true,
                ..plain(row)
            });
        }
        for (running, row) in pod.containers {
            let Some(row) = row else {
                continue;
            };
            let container = running.of(&observed);
            let whose = Whose {
                container: &container.name,
                image: &container.image,
                name: &container.id,
                ..whose
            };
            let started = super::from_runtime::time(container.started_at);
            entries.push(Entry {
                labels: group_labels(&row.id, whose),
                is_container: true,
                started: started.or(row.figures.created),
                ..plain(row)
            });
        }
    }
    entries
}

/// Whose group it is; what does not apply is empty.
#[derive(Clone, Copy, Debug, Default)]
struct Whose<'a> {
    container: &'a str,
    image: &'a str,
    name: &'a str,
    namespace: &'a str,
    pod: &'a str,
}

fn group_labels(id: &str, whose: Whose<'_>) -> String {
    labels(&[
        ("container", whose.container),
        ("id", id),
        ("image", whose.image),
        ("name", whose.name),
        ("namespace", whose.namespace),
        ("pod", whose.pod),
    ])
}

/// The answer, written as it is sent.
#[derive(Debug)]
pub(super) struct Pieces {
    scrape: Scrape,
    next: usize,
}

impl Pieces {
    pub(super) fn new(scrape: Scrape) -> Self {
        Self { scrape, next: 0 }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        let piece = this.scrape.piece(&mut this.next);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}
