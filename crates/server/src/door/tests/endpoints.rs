//! Everything that answers, on a node that has no pods and whose runtime does nothing.

use ::config::gates::FeatureGates;
use seams::Runtime;
use testkit::host::LinuxHost;
use tokio::sync::watch;
use types::PodBook;
use types::figures::Boards;
use types::served::Fixed;

use super::*;
use crate::figures::{About, Figures, Slis};
use crate::logs::{ContainerLogs, ContainerLogsConfig, NodeLogs};
use crate::small::configz::Configz;
use crate::small::debug::Debugging;
use crate::small::health::Health;
use crate::small::pods::PodLists;
use crate::small::zpages::ZPages;
use crate::stats::{Directories, Sources, Stats, SystemGroups};
use crate::streams::{StreamParts, Streams};

#[derive(Debug)]
struct Idle;

impl Runtime for Idle {}

impl seams::Net for Idle {
    fn dial<'a>(&'a self, _: seams::net::Destination<'a>) -> seams::net::Dialing<'a> {
        unreachable!()
    }
}

pub(super) fn of_no_pods(config: &DoorConfig, clock: &SharedClock) -> Endpoints {
    let (process, slis) = (config.process.clone(), Slis::default());
    let book = PodBook::new(Fixed::default());
    Endpoints {
        health: Health {
            checks: vec![("ping", Arc::new(|| Ok(())))],
            notes: Arc::new(Vec::new),
            slis: slis.clone(),
        },
        pods: PodLists::new(book.clone()),
        configz: Configz(config.configz.clone()),
        zpages: ZPages::new(process.clone(), clock.clone()),
        debugging: Debugging {
            process: process.clone(),
            running: Arc::new(Vec::new),
            clock: clock.clone(),
        },
        container_logs: ContainerLogs::new(ContainerLogsConfig {
            book: book.clone(),
            host: Arc::new(Files),
            runtime: Arc::new(Idle),
            clock: clock.clone(),
            split_streams: config.handlers.split_streams,
        }),
        node_logs: NodeLogs {
            host: Arc::new(Files),
            clock: clock.clone(),
            queries: config.handlers.system_log_query,
        },
        streams: streams(book, config, clock),
        stats: stats(clock),
        figures: Figures {
            boards: Boards::default(),
            registry: Registry::new(),
            about: About {
                node_name: "n1".to_owned(),
                version: process.version,
                gates: FeatureGates::resolve([]).unwrap(),
            },
            host: Arc::new(Files),
            slis,
        },
    }
}

fn streams(pods: PodBook, config: &DoorConfig, clock: &SharedClock) -> Streams {
    let parts = StreamParts {
        pods,
        runtime: Arc::new(Idle),
        net: Arc::new(Idle),
        clock: clock.clone(),
        websockets: config.websockets,
        checkpoints: "/var/lib/kubelet/checkpoints".into(),
    };
    Streams::new(parts, &Registry::new()).unwrap()
}

fn stats(clock: &SharedClock) -> Stats {
    let sources = Sources {
        node_name: "n1".to_owned(),
        host: Arc::new(Files),
        storage: Arc::new(LinuxHost::new("/".into())),
        runtime: Arc::new(Idle),
        clock: clock.clone(),
        pods: Arc::new(Vec::new),
        places: watch::channel(None).1,
        directories: Directories {
            root: "/var/lib/kubelet".into(),
            logs: "/var/log/pods".into(),
        },
        system: SystemGroups::default(),
        volumes: watch::channel(Arc::default()).1,
        asked: watch::channel(()).0,
        disks: watch::channel(Arc::default()).0,
    };
    Stats::new(sources).0
}
