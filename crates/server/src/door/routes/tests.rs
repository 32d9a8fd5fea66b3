use super::*;

const ALL: Handlers = Handlers {
    debugging: true,
    system_logs: true,
    system_log_query: true,
    profiling: true,
    debug_flags: true,
    checkpoint: true,
    flagz: true,
    statusz: true,
    split_streams: true,
};

fn with(handlers: Handlers, method: &str, path: &str) -> Place {
    find((Side::ReadWrite, handlers), method, path, None)
}

fn inside(place: Place) -> Target {
    match place {
        Place::Inside { target, .. } => target,
        other => panic!("{other:?}"),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn every_path_leads_where_upstreams_does() {
    let found = |endpoint| Target::Endpoint(endpoint, Vec::new());
    let open = |endpoint, rest: &[&str]| Target::Endpoint(endpoint, words(rest));
    for (method, path, wanted) in [
        ("GET", "/healthz", found(Endpoint::Health)),
        ("DELETE", "/healthz", found(Endpoint::Health)),
        ("GET", "/healthz/log", found(Endpoint::HealthOf("log"))),
        ("GET", "/pods", found(Endpoint::Pods)),
        ("GET", "/pods/", found(Endpoint::Pods)),
        ("GET", "/%70ods", found(Endpoint::Pods)),
        ("GET", "/pods/web", Target::NotFound),
        ("HEAD", "/pods", Target::MethodNotAllowed("GET")),
        ("GET", "/runningpods/", found(Endpoint::RunningPods)),
        (
            "POST",
            "/stats/summary",
            open(Endpoint::Summary, &["summary"]),
        ),
        (
            "PUT",
            "/stats/summary",
            Target::MethodNotAllowed("GET, POST"),
        ),
        ("GET", "/stats/", Target::NotFound),
        ("GET", "/stats/container", Target::NotFound),
        ("PUT", "/metrics", found(Endpoint::Metrics)),
        ("GET", "/metrics/cadvisor", found(Endpoint::MetricsCadvisor)),
        ("GET", "/logs/", found(Endpoint::Logs)),
        ("GET", "/logs/a/b", open(Endpoint::Logs, &["a", "b"])),
        ("GET", "/logs/a%2fb", open(Endpoint::Logs, &["a/b"])),
        (
            "GET",
            "/containerLogs/n/p/c",
            open(Endpoint::ContainerLogs, &["n", "p", "c"]),
        ),
        ("GET", "/containerLogs/n/p", Target::NotFound),
        ("GET", "/containerLogs/n/p/c/d", Target::NotFound),
        (
            "POST",
            "/containerLogs/n/p/c",
            Target::MethodNotAllowed("GET"),
        ),
        (
            "POST",
            "/exec/n/p/c",
            open(Endpoint::Exec, &["n", "p", "c"]),
        ),
        (
            "GET",
            "/exec/n/p/u/c",
            open(Endpoint::Exec, &["n", "p", "u", "c"]),
        ),
        (
            "GET",
            "/portForward/n/p",
            open(Endpoint::PortForward, &["n", "p"]),
        ),
        ("GET", "/run/n/p/c", Target::MethodNotAllowed("POST")),
        (
            "POST",
            "/checkpoint/n/p/c",
            open(Endpoint::Checkpoint, &["n", "p", "c"]),
        ),
        ("GET", "/debug/pprof/", found(Endpoint::Profiles)),
        (
            "GET",
            "/debug/pprof/heap",
            open(Endpoint::Profiles, &["heap"]),
        ),
        ("PUT", "/debug/flags/v", found(Endpoint::Verbosity)),
        ("GET", "/statusz", found(Endpoint::Statusz)),
    ] {
        assert_eq!(inside(with(ALL, method, path)), wanted, "{method} {path}");
    }
}

#[test]
fn who_asks_for_nothing_is_told_so_without_being_asked_who_they_are() {
    for path in [
        "/",
        "/nope",
        "/metrics/",
        "/metrics/foo",
        "/healthz/",
        "/healthz/nope",
        "/configz/",
        "/podsx",
        "/debug",
        "/debug/",
        "/debug/flags",
        "/statusz/",
        "/pods%2f",
        "/spec",
    ] {
        assert_eq!(with(ALL, "GET", path), Place::Outside, "{path}");
    }
    for (path, place) in [
        ("/runningpods", "/runningpods/"),
        ("/stats", "/stats/"),
        ("/logs", "/logs/"),
        ("/debug/pprof", "/debug/pprof/"),
        ("//pods", "/pods"),
        ("/logs/../pods", "/pods"),
        ("/./exec//n/p/", "/exec/n/p/"),
        ("/../..", "/"),
    ] {
        assert_eq!(
            with(ALL, "GET", path),
            Place::Moved(place.to_owned()),
            "{path}"
        );
    }
}

#[test]
fn each_path_has_its_sub_resources_in_their_order() {
    for (path, wanted) in [
        ("/healthz", &["healthz", "proxy"][..]),
        ("/healthz/ping", &["healthz", "proxy"]),
        ("/pods", &["pods", "proxy"]),
        ("/runningpods/", &["pods", "proxy"]),
        ("/configz", &["configz", "proxy"]),
        ("/stats/summary", &["stats"]),
        ("/stats/nope", &["stats"]),
        ("/metrics", &["metrics"]),
        ("/metrics/resource", &["metrics"]),
        ("/logs/a", &["log"]),
        ("/checkpoint/n/p/c", &["checkpoint"]),
        ("/statusz", &["statusz"]),
        ("/flagz", &["configz"]),
        ("/containerLogs/n/p/c", &["proxy"]),
        ("/exec/n/p/c", &["proxy"]),
        ("/run/n/p/c", &["proxy"]),
        ("/debug/pprof/heap", &["proxy"]),
        ("/debug/flags/v", &["proxy"]),
    ] {
        let Place::Inside { subresources, .. } = with(ALL, "GET", path) else {
            panic!("{path}");
        };
        assert_eq!(subresources, wanted, "{path}");
    }
    let verbs = [
        "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "get",
    ]
    .map(verb);
    assert_eq!(
        verbs,
        ["get", "create", "update", "patch", "delete", "", "", ""]
    );
}

#[test]
fn what_is_turned_off_says_so_or_is_not_there() {
    let off = Handlers {
        debugging: false,
        ..ALL
    };
    let debugging = Target::Disabled(DEBUGGING_OFF);
    for side in [(Side::ReadWrite, off), (Side::ReadOnly, ALL)] {
        for path in [
            "/run/n/p/c",
            "/exec/",
            "/attach/x",
            "/portForward/n/p",
            "/containerLogs/n/p/c",
            "/runningpods/",
            "/debug/pprof/",
            "/logs/a",
        ] {
            assert_eq!(inside(find(side, "GET", path, None)), debugging, "{path}");
        }
        let moved = Place::Moved("/exec/".to_owned());
        assert_eq!(find(side, "GET", "/exec", None), moved);
        for path in [
            "/configz",
            "/checkpoint/n/p/c",
            "/flagz",
            "/statusz",
            "/debug/flags/v",
        ] {
            assert_eq!(find(side, "GET", path, None), Place::Outside, "{path}");
        }
        let pods = Target::Endpoint(Endpoint::Pods, Vec::new());
        assert_eq!(inside(find(side, "GET", "/pods", None)), pods);
    }
    for (handlers, path, words) in [
        (
            Handlers {
                system_logs: false,
                ..ALL
            },
            "/logs/a",
            "logs endpoint is disabled.",
        ),
        (
            Handlers {
                profiling: false,
                ..ALL
            },
            "/debug/pprof/heap",
            "profiling endpoint is disabled.",
        ),
        (
            Handlers {
                debug_flags: false,
                ..ALL
            },
            "/debug/flags/v",
            "flags endpoint is disabled.",
        ),
    ] {
        let target = inside(with(handlers, "GET", path));
        assert_eq!(target, Target::Disabled(words), "{path}");
    }
}

#[test]
fn who_wants_no_json_is_told_that_there_is_nothing_else() {
    let accepting = |accept| inside(find((Side::ReadWrite, ALL), "GET", "/pods", Some(accept)));
    for accept in [
        "",
        "*/*",
        "application/json",
        "text/html, application/json;q=0.1",
    ] {
        let pods = Target::Endpoint(Endpoint::Pods, Vec::new());
        assert_eq!(accepting(accept), pods, "{accept}");
    }
    assert_eq!(accepting("text/html"), Target::NotAcceptable);
}

#[test]
fn figures_know_paths_by_their_first_words() {
    let name = |path| bucket((Side::ReadWrite, ALL), path);
    for (path, wanted) in [
        ("/pods", "pods"),
        ("/metrics", "metrics"),
        ("/metrics/cadvisor", "metrics/cadvisor"),
        ("/metrics/slis", "other"),
        ("/exec/n/p/c", "exec"),
        ("/debug/pprof/heap", "debug"),
        ("/nope", "other"),
        ("/", "other"),
    ] {
        assert_eq!(name(path), wanted, "{path}");
    }
    assert_eq!(bucket((Side::ReadOnly, ALL), "/configz"), "other");
}
