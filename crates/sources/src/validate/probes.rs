//! Probes and hooks: one thing to do each, and numbers that make sense.

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Problems;

pub(super) fn check(container: &Container, field: &str, problems: &mut Problems) {
    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    for (name, found) in probes {
        if let Some(found) = found {
            probe(
                found,
                name == "readinessProbe",
                &format!("{field}.{name}"),
                problems,
            );
        }
    }
    let Some(lifecycle) = &container.lifecycle else {
        return;
    };
    for (name, found) in [
        ("postStart", &lifecycle.post_start),
        ("preStop", &lifecycle.pre_stop),
    ] {
        if let Some(found) = found {
            hook(found, &format!("{field}.lifecycle.{name}"), problems);
        }
    }
}

fn probe(probe: &Probe, readiness: bool, field: &str, problems: &mut Problems) {
    let handlers = [
        probe.exec.is_some(),
        probe.http_get.is_some(),
        probe.tcp_socket.is_some(),
        probe.grpc.is_some(),
    ];
    one_of(
        &handlers,
        "exec, httpGet, tcpSocket or grpc",
        field,
        problems,
    );
    let numbers = [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ];
    for (name, number) in numbers {
        if number.is_some_and(|number| number < 0) {
            problems.add(format!("{field}.{name}"), "it must not be negative");
        }
    }
    if !readiness && probe.success_threshold.is_some_and(|number| number > 1) {
        problems.add(format!("{field}.successThreshold"), "it must be 1");
    }
    match probe.termination_grace_period_seconds {
        Some(_) if readiness => problems.add(
            format!("{field}.terminationGracePeriodSeconds"),
            "a readiness probe ends nothing: remove it",
        ),
        Some(seconds) if seconds < 1 => problems.add(
            format!("{field}.terminationGracePeriodSeconds"),
            "it must be 1 or more",
        ),
        _ => {}
    }
    if let Some(action) = &probe.http_get {
        http_get(action, &format!("{field}.httpGet"), problems);
    }
    if let Some(action) = &probe.tcp_socket {
        port(&action.port, &format!("{field}.tcpSocket.port"), problems);
    }
    if let Some(action) = &probe.grpc {
        let number = IntOrString::Int(action.port);
        port(&number, &format!("{field}.grpc.port"), problems);
    }
}

fn hook(hook: &LifecycleHandler, field: &str, problems: &mut Problems) {
    let handlers = [
        hook.exec.is_some(),
        hook.http_get.is_some(),
        hook.tcp_socket.is_some(),
        hook.sleep.is_some(),
    ];
    one_of(&handlers, "exec, httpGet or sleep", field, problems);
    if let Some(action) = &hook.http_get {
        http_get(action, &format!("{field}.httpGet"), problems);
    }
    if hook.sleep.as_ref().is_some_and(|sleep| sleep.seconds < 0) {
        problems.add(format!("{field}.sleep.seconds"), "it must not be negative");
    }
}

fn one_of(there: &[bool], names: &str, field: &str, problems: &mut Problems) {
    if there.iter().filter(|there| **there).count() != 1 {
        problems.add(field, format!("it needs exactly one of {names}"));
    }
}

fn http_get(action: &HTTPGetAction, field: &str, problems: &mut Problems) {
    port(&action.port, &format!("{field}.port"), problems);
    let scheme = action.scheme.as_deref();
    problems.choice(format!("{field}.scheme"), scheme, &["HTTP", "HTTPS"]);
}

fn port(port: &IntOrString, field: &str, problems: &mut Problems) {
    match port {
        IntOrString::Int(number) if !(1..=65535).contains(number) => {
            problems.add(field, "it must be between 1 and 65535");
        }
        IntOrString::String(name) if !super::containers::is_port_name(name) => {
            problems.add(field, super::containers::PORT_NAME_RULE);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::validate::tests::{check, problems, with_container};

    #[test]
    fn probes_and_hooks_do_one_thing_with_numbers_that_make_sense() {
        let probe =
            |kind: &str, fields: &str| with_container(&format!("{kind}Probe: {{{fields}}}"));
        let at = |fields: &str| probe("liveness", &format!("tcpSocket: {{port: 80}}, {fields}"));
        check(&[
            (
                probe("liveness", "periodSeconds: 1"),
                "spec.containers[0].livenessProbe: it needs exactly one",
            ),
            (
                at("exec: {command: [a]}"),
                "spec.containers[0].livenessProbe: it needs exactly one",
            ),
            (
                at("timeoutSeconds: -1"),
                "spec.containers[0].livenessProbe.timeoutSeconds: ",
            ),
            (
                at("successThreshold: 2"),
                "spec.containers[0].livenessProbe.successThreshold: it must be 1",
            ),
            (
                at("terminationGracePeriodSeconds: 0"),
                "spec.containers[0].livenessProbe.terminationGracePeriodSeconds: it must be 1",
            ),
            (
                probe(
                    "readiness",
                    "tcpSocket: {port: 80}, terminationGracePeriodSeconds: 5",
                ),
                "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: ",
            ),
            (
                probe("startup", "tcpSocket: {port: 0}"),
                "spec.containers[0].startupProbe.tcpSocket.port: ",
            ),
            (
                probe("startup", "grpc: {port: 70000}"),
                "spec.containers[0].startupProbe.grpc.port: ",
            ),
            (
                probe("liveness", "httpGet: {port: 80, scheme: FTP}"),
                "spec.containers[0].livenessProbe.httpGet.scheme: ",
            ),
            (
                probe("liveness", "httpGet: {port: A}"),
                "spec.containers[0].livenessProbe.httpGet.port: ",
            ),
            (
                with_container("lifecycle: {preStop: {}}"),
                "spec.containers[0].lifecycle.preStop: ",
            ),
            (
                with_container("lifecycle: {preStop: {sleep: {seconds: -1}}}"),
                "spec.containers[0].lifecycle.preStop.sleep.seconds: ",
            ),
        ]);
        let fine = probe("readiness", "tcpSocket: {port: web}, successThreshold: 2");
        assert!(problems(&fine).is_empty());
    }
}
