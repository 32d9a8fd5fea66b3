//! `/metrics/resource`: what autoscalers and `kubectl top` live on.

use super::from_runtime::time;
use super::look::{Look, Row};
use super::summary::left;
use super::text::{Family, Kind, Named, Value, labels, seconds_of};

const fn counter(name: &'static str, help: &'static str) -> Named {
    Named {
        name,
        help,
        kind: Kind::Counter,
    }
}

const fn gauge(name: &'static str, help: &'static str) -> Named {
    Named {
        name,
        help,
        kind: Kind::Gauge,
    }
}

const NODE: [Named; 3] = [
    counter(
        "node_cpu_usage_seconds_total",
        "[STABLE] CPU time that the node has used, of all cores together",
    ),
    gauge(
        "node_memory_working_set_bytes",
        "[STABLE] Memory of the node that is in use and cannot be had back at once",
    ),
    gauge(
        "node_swap_usage_bytes",
        "[ALPHA] Swap of the node that is in use",
    ),
];

const POD: [Named; 3] = [
    counter(
        "pod_cpu_usage_seconds_total",
        "[STABLE] CPU time that the pod has used, of all cores together",
    ),
    gauge(
        "pod_memory_working_set_bytes",
        "[STABLE] Memory of the pod that is in use and cannot be had back at once",
    ),
    gauge(
        "pod_swap_usage_bytes",
        "[ALPHA] Swap of the pod that is in use",
    ),
];

const CONTAINER: [Named; 3] = [
    counter(
        "container_cpu_usage_seconds_total",
        "[STABLE] CPU time that the container has used, of all cores together",
    ),
    gauge(
        "container_memory_working_set_bytes",
        "[STABLE] Memory of the container that is in use and cannot be had back at once",
    ),
    gauge(
        "container_swap_usage_bytes",
        "[ALPHA] Swap of the container that is in use",
    ),
];

const SWAP_LIMIT: Named = gauge(
    "container_swap_limit_bytes",
    "[ALPHA] Swap that the container may use",
);

const STARTED: Named = gauge(
    "container_start_time_seconds",
    "[STABLE] When the container was made, in seconds since 1970",
);

const FAILED: Named = gauge(
    "resource_scrape_error",
    "[STABLE] 1 if pods or containers could not be looked at, else 0",
);

/// `failed`: the look is not whole.
pub(super) fn write(look: &Look, failed: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024 * (1 + look.pods.len()));
    let pods = look.pods.iter().filter(|pod| pod.is_told());
    let mut of_pods = Vec::new();
    let mut of_containers = Vec::new();
    for pod in pods {
        let name = &pod.pod.pod.name;
        let own = [("pod", &*name.name), ("namespace", &*name.namespace)];
        for (running, row) in &pod.containers {
            let Some(row) = row else {
                continue;
            };
            let container = pod.container(*running);
            let labels = labels(&[("container", &*container.name), own[0], own[1]]);
            of_containers.push((labels, container, row));
        }
        of_pods.extend(pod.own.as_ref().map(|row| (labels(&own), row)));
    }
    let rows = of_containers.iter();
    let rows: Vec<_> = rows.map(|(labels, _, row)| (&**labels, *row)).collect();
    usage(&mut out, &CONTAINER, &rows);
    let mut limits = Family::new(&mut out, SWAP_LIMIT);
    for (labels, row) in &rows {
        let (limit, used) = (row.figures.limits.swap, row.figures.memory.swap);
        if let Some(left) = left(limit, used) {
            limits.put(labels, &[], Value::Count(left + used), row.at);
        }
    }
    let mut started = Family::new(&mut out, STARTED);
    for (labels, container, _) in &of_containers {
        if let Some(created) = time(container.created_at) {
            started.put(labels, &[], seconds_of(created), None);
        }
    }
    let node: Vec<_> = look.node.iter().map(|row| ("", row)).collect();
    usage(&mut out, &NODE, &node);
    let pods = of_pods.iter().map(|(labels, row)| (&**labels, *row));
    usage(&mut out, &POD, &pods.collect::<Vec<_>>());
    let failed = Value::Count(u64::from(failed));
    Family::new(&mut out, FAILED).put("", &[], failed, None);
    out
}

/// CPU, memory and swap.
fn usage(out: &mut Vec<u8>, [cpu, memory, swap]: &[Named; 3], rows: &[(&str, &Row)]) {
    let mut write = |named: &Named, value: fn(&Row) -> Value| {
        let mut family = Family::new(out, *named);
        for (labels, row) in rows {
            family.put(labels, &[], value(row), row.at);
        }
    };
    write(cpu, |row| Value::Nanos(row.figures.cpu.total));
    write(memory, |row| Value::Count(row.figures.memory.working_set()));
    write(swap, |row| Value::Count(row.figures.memory.swap));
}
