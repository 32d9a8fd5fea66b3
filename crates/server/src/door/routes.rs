//! What can be asked for: a table, and how a request finds its row. As with upstream there
//! are two steps. First the path decides whether anything is there at all; who asks for
//! nothing is told so without being asked who they are. Then, once they may, the row says
//! whether path, method and form are right.

use percent_encoding::percent_decode_str;

use super::config::Handlers;

/// Everything that the node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Health,
    /// One check alone, by its name.
    HealthOf(&'static str),
    Pods,
    RunningPods,
    Configz,
    Flagz,
    Statusz,
    Summary,
    Metrics,
    MetricsCadvisor,
    MetricsResource,
    MetricsProbes,
    MetricsSlis,
    Logs,
    ContainerLogs,
    Exec,
    Attach,
    PortForward,
    Run,
    Checkpoint,
    Profiles,
    Verbosity,
}

/// Which of the two ports was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The port that asks who comes.
    ReadWrite,
    ReadOnly,
}

/// Where a request leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// There is nothing, for anybody.
    Outside,
    /// The path is to be written otherwise.
    Moved(String),
    /// Who comes in has to be allowed one of these sub-resources of the node.
    Inside {
        subresources: &'static [&'static str],
        target: Target,
    },
}

/// What is found inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// With the words of the path that its row leaves open.
    Endpoint(Endpoint, Vec<String>),
    /// Turned off by the configuration.
    Disabled(&'static str),
    NotFound,
    /// With the methods that are.
    MethodNotAllowed(&'static str),
    /// With the form that there is.
    NotAcceptable,
}

/// The end of a path, after its row's root.
#[derive(Clone, Copy, Debug)]
enum Rest {
    /// Nothing may follow, not even a slash.
    None,
    /// A slash may follow.
    Slash,
    /// This word follows.
    Word(&'static str),
    /// So many words follow.
    Words(&'static [usize]),
    /// Anything follows.
    Any,
}

/// One thing that can be asked for.
struct Row {
    /// The first words of the path.
    root: &'static [&'static str],
    /// The root alone is not enough: it ends with a slash.
    slash: bool,
    rest: Rest,
    /// None: all.
    methods: &'static [&'static str],
    endpoint: Endpoint,
    /// JSON, and who wants something else is told so.
    json: bool,
    /// On the port that asks nobody, too, and without the debugging handlers.
    plain: bool,
}

const fn row(root: &'static [&'static str], rest: Rest, endpoint: Endpoint) -> Row {
    Row {
        root,
        slash: false,
        rest,
        methods: &[],
        endpoint,
        json: false,
        plain: false,
    }
}

impl Row {
    const fn methods(self, methods: &'static [&'static str]) -> Self {
        Self { methods, ..self }
    }

    const fn slash(self) -> Self {
        Self {
            slash: true,
            ..self
        }
    }

    const fn json(self) -> Self {
        Self { json: true, ..self }
    }

    const fn plain(self) -> Self {
        Self {
            plain: true,
            ..self
        }
    }
}

const GET: &[&str] = &["GET"];
const POST: &[&str] = &["POST"];
const GET_POST: &[&str] = &["GET", "POST"];

const ROWS: &[Row] = &[
    row(&["healthz"], Rest::None, Endpoint::Health).plain(),
    row(&["healthz", "ping"], Rest::None, Endpoint::HealthOf("ping")).plain(),
    row(&["healthz", "log"], Rest::None, Endpoint::HealthOf("log")).plain(),
    row(
        &["healthz", "syncloop"],
        Rest::None,
        Endpoint::HealthOf("syncloop"),
    )
    .plain(),
    row(&["pods"], Rest::Slash, Endpoint::Pods)
        .methods(GET)
        .json()
        .plain(),
    row(&["stats"], Rest::Word("summary"), Endpoint::Summary)
        .slash()
        .methods(GET_POST)
        .json()
        .plain(),
    row(&["metrics"], Rest::None, Endpoint::Metrics).plain(),
    row(
        &["metrics", "cadvisor"],
        Rest::None,
        Endpoint::MetricsCadvisor,
    )
    .plain(),
    row(
        &["metrics", "resource"],
        Rest::None,
        Endpoint::MetricsResource,
    )
    .plain(),
    row(&["metrics", "probes"], Rest::None, Endpoint::MetricsProbes).plain(),
    row(&["metrics", "slis"], Rest::None, Endpoint::MetricsSlis).plain(),
    row(&["runningpods"], Rest::Slash, Endpoint::RunningPods)
        .slash()
        .methods(GET)
        .json(),
    row(&["configz"], Rest::None, Endpoint::Configz),
    row(&["logs"], Rest::Any, Endpoint::Logs)
        .slash()
        .methods(GET),
    row(
        &["containerLogs"],
        Rest::Words(&[3]),
        Endpoint::ContainerLogs,
    )
    .methods(GET),
    row(&["exec"], Rest::Words(&[3, 4]), Endpoint::Exec).methods(GET_POST),
    row(&["attach"], Rest::Words(&[3, 4]), Endpoint::Attach).methods(GET_POST),
    row(
        &["portForward"],
        Rest::Words(&[2, 3]),
        Endpoint::PortForward,
    )
    .methods(GET_POST),
    row(&["run"], Rest::Words(&[3, 4]), Endpoint::Run).methods(POST),
    row(&["checkpoint"], Rest::Words(&[3]), Endpoint::Checkpoint)
        .methods(POST)
        .json(),
    row(&["debug", "pprof"], Rest::Any, Endpoint::Profiles)
        .slash()
        .methods(GET),
    row(&["debug", "flags", "v"], Rest::None, Endpoint::Verbosity),
    row(&["flagz"], Rest::None, Endpoint::Flagz),
    row(&["statusz"], Rest::None, Endpoint::Statusz),
];

/// What is told without the debugging handlers to who asks for these.
const DEBUGGING_OFF: &str = "Debug endpoints are disabled.";
const WITH_DEBUGGING: [Endpoint; 8] = [
    Endpoint::Run,
    Endpoint::Exec,
    Endpoint::Attach,
    Endpoint::PortForward,
    Endpoint::ContainerLogs,
    Endpoint::RunningPods,
    Endpoint::Profiles,
    Endpoint::Logs,
];

/// What a row is on this port of this node.
enum Standing {
    Open,
    Off(&'static str),
    Absent,
}

fn standing(row: &Row, side: Side, handlers: Handlers) -> Standing {
    if row.plain {
        return Standing::Open;
    }
    if side == Side::ReadOnly || !handlers.debugging {
        return if WITH_DEBUGGING.contains(&row.endpoint) {
            Standing::Off(DEBUGGING_OFF)
        } else {
            Standing::Absent
        };
    }
    match row.endpoint {
        Endpoint::Logs if !handlers.system_logs => Standing::Off("logs endpoint is disabled."),
        Endpoint::Profiles if !handlers.profiling => {
            Standing::Off("profiling endpoint is disabled.")
        }
        Endpoint::Verbosity if !handlers.debug_flags => {
            Standing::Off("flags endpoint is disabled.")
        }
        Endpoint::Checkpoint if !handlers.checkpoint => Standing::Absent,
        Endpoint::Flagz if !handlers.flagz => Standing::Absent,
        Endpoint::Statusz if !handlers.statusz => Standing::Absent,
        _ => Standing::Open,
    }
}

/// Where a request leads that has this method, this path as it was sent, and accepts this.
pub(crate) fn find(
    (side, handlers): (Side, Handlers),
    method: &str,
    path: &str,
    accept: Option<&str>,
) -> Place {
    let cleaned = cleaned(path);
    let words: Vec<String> = words(&cleaned);
    let ends_with_slash = cleaned.ends_with('/');
    let mut found = None;
    for row in ROWS {
        let is_off = match standing(row, side, handlers) {
            Standing::Absent => continue,
            Standing::Open => None,
            Standing::Off(text) => Some(text),
        };
        let starts = words.len() >= row.root.len()
            && row.root.iter().zip(&words).all(|(root, word)| root == word);
        if !starts {
            continue;
        }
        let rest = &words[row.root.len()..];
        let is_root = rest.is_empty() && !ends_with_slash;
        let exact = matches!(row.rest, Rest::None);
        if exact && !is_root {
            continue;
        }
        // What is off is off below its root.
        if is_root && !exact && (row.slash || is_off.is_some()) {
            return Place::Moved(format!("{cleaned}/"));
        }
        // The longest root counts, and it comes last in the table.
        found = Some((row, is_off, rest));
    }
    if cleaned != path && method != "CONNECT" {
        return Place::Moved(cleaned);
    }
    let Some((row, is_off, rest)) = found else {
        return Place::Outside;
    };
    let target = match is_off {
        Some(text) => Target::Disabled(text),
        None => target(row, rest, method, accept),
    };
    Place::Inside {
        subresources: subresources(row.root[0]),
        target,
    }
}

fn target(row: &Row, rest: &[String], method: &str, accept: Option<&str>) -> Target {
    let fits = match row.rest {
        Rest::None | Rest::Any => true,
        Rest::Slash => rest.is_empty(),
        Rest::Word(word) => rest == [word],
        Rest::Words(counts) => counts.contains(&rest.len()),
    };
    if !fits {
        return Target::NotFound;
    }
    if !row.methods.is_empty() && !row.methods.contains(&method) {
        return Target::MethodNotAllowed(match row.methods {
            ["GET"] => "GET",
            ["POST"] => "POST",
            _ => "GET, POST",
        });
    }
    if row.json && !accepts_json(accept) {
        return Target::NotAcceptable;
    }
    Target::Endpoint(row.endpoint, rest.to_vec())
}

fn accepts_json(accept: Option<&str>) -> bool {
    let accept = accept.unwrap_or_default();
    if accept.is_empty() {
        return true;
    }
    let kinds = accept.split(',').map(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim()
    });
    kinds
        .into_iter()
        .any(|kind| matches!(kind, "*/*" | "application/json"))
}

/// What of the node somebody has to be allowed who asks for something below this word; the
/// second counts where the first is not allowed.
fn subresources(first: &str) -> &'static [&'static str] {
    match first {
        "pods" | "runningpods" => &["pods", "proxy"],
        "healthz" => &["healthz", "proxy"],
        "configz" => &["configz", "proxy"],
        "stats" => &["stats"],
        "metrics" => &["metrics"],
        "logs" => &["log"],
        "checkpoint" => &["checkpoint"],
        "statusz" => &["statusz"],
        "flagz" => &["configz"],
        _ => &["proxy"],
    }
}

/// What a method is to the API's authorizers; most are nothing to them.
pub(crate) fn verb(method: &str) -> &'static str {
    match method {
        "GET" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// Without double slashes, `.` and `..`; a slash at the end stays.
pub(crate) fn cleaned(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for word in path.split('/') {
        match word {
            "" | "." => {}
            ".." => drop(kept.pop()),
            word => kept.push(word),
        }
    }
    let mut cleaned = format!("/{}", kept.join("/"));
    if path.ends_with('/') && !cleaned.ends_with('/') {
        cleaned.push('/');
    }
    cleaned
}

/// Each word of a path as it is meant.
pub(crate) fn words(path: &str) -> Vec<String> {
    let words = path.split('/').filter(|word| !word.is_empty());
    words
        .map(|word| percent_decode_str(word).decode_utf8_lossy().into_owned())
        .collect()
}

/// What figures call the path, by the words that it begins with: a row's, or `other`.
pub(crate) fn bucket((side, handlers): (Side, Handlers), path: &str) -> &'static str {
    let mut words = path.trim_start_matches('/').split('/');
    let first = words.next().unwrap_or_default();
    let second = words.next();
    let with_debugging = side == Side::ReadWrite && handlers.debugging;
    match (first, second) {
        ("metrics", Some("cadvisor")) => "metrics/cadvisor",
        ("metrics", Some("probes")) => "metrics/probes",
        ("metrics", Some("resource")) => "metrics/resource",
        ("metrics", None) => "metrics",
        ("healthz", _) => "healthz",
        ("pods", _) => "pods",
        ("stats", _) => "stats",
        ("run", _) => "run",
        ("exec", _) => "exec",
        ("attach", _) => "attach",
        ("portForward", _) => "portForward",
        ("containerLogs", _) => "containerLogs",
        ("runningpods", _) => "runningpods",
        ("logs", _) => "logs",
        ("pprof", _) if !with_debugging => "pprof",
        ("debug", _) if with_debugging => "debug",
        ("configz", _) if with_debugging => "configz",
        ("checkpoint", _) if with_debugging && handlers.checkpoint => "checkpoint",
        ("flagz", _) if with_debugging && handlers.flagz => "flagz",
        ("statusz", _) if with_debugging && handlers.statusz => "statusz",
        _ => "other",
    }
}

#[cfg(test)]
mod tests;
