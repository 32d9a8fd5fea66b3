use serde_json::{Value, json};

use super::files::EnvFile;
use super::*;
use crate::spec::testing;

/// What an environment is made of, owned.
#[derive(Default)]
struct World {
    services: Option<Vec<Service>>,
    config_maps: BTreeMap<String, ConfigMap>,
    secrets: BTreeMap<String, Secret>,
    unanswered: Unanswered,
    has_api: bool,
    files: Option<EnvFiles>,
    surroundings: Surroundings,
}

fn world() -> World {
    let config_map = json!({ "data": { "COLOR": "red", "a.b-c": "odd", "1ST": "digit" } });
    // "hidden", and a byte that is no text.
    let secret = json!({ "data": { "PASSWORD": "aGlkZGVu", "RAW": "/w==" } });
    World {
        services: Some(Vec::new()),
        config_maps: [(
            "config".to_owned(),
            serde_json::from_value(config_map).unwrap(),
        )]
        .into(),
        secrets: [("secret".to_owned(), serde_json::from_value(secret).unwrap())].into(),
        unanswered: Unanswered::new(),
        has_api: true,
        files: Some(EnvFiles::new()),
        surroundings: Surroundings {
            pod_ips: vec!["10.0.0.5".to_owned()],
            ..Surroundings::default()
        },
    }
}

fn service(namespace: &str, name: &str, ip: &str, ports: &Value) -> Service {
    serde_json::from_value(json!({
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "clusterIP": ip, "ports": ports },
    }))
    .unwrap()
}

impl World {
    fn environment(&self, pod: &Pod, fields: &Value) -> Result<Environment, String> {
        let sources = Sources {
            services: self.services.as_deref(),
            config_maps: &self.config_maps,
            secrets: &self.secrets,
            unanswered: &self.unanswered,
            has_api: self.has_api,
            files: self.files.as_ref(),
            surroundings: &self.surroundings,
        };
        let container = testing::container(fields);
        Environment::of(pod, &container, &sources).map_err(|error| error.to_string())
    }

    fn lines(&self, fields: &Value) -> Result<Vec<String>, String> {
        let pod = testing::pod(&json!({ "enableServiceLinks": true }));
        Ok(lines(&self.environment(&pod, fields)?))
    }
}

fn lines(environment: &Environment) -> Vec<String> {
    let line = |variable: KeyValue| {
        format!(
            "{}={}",
            variable.key,
            String::from_utf8_lossy(&variable.value)
        )
    };
    environment.variables().into_iter().map(line).collect()
}

#[test]
fn values_see_what_was_declared_before_them() {
    let env = json!([
        { "name": "A", "value": "a" },
        { "name": "B", "value": "$(A)-$(C)-$$(A)" },
        { "name": "C", "value": "c" },
        { "name": "A", "value": "$(A)$(A)" },
        { "name": "EMPTY" },
        { "name": "D", "value": "$(EMPTY)$(A)" },
    ]);
    let found = world().lines(&json!({ "env": env })).unwrap();
    assert_eq!(found, ["A=aa", "B=a-$(C)-$(A)", "C=c", "EMPTY=", "D=aa"]);
}

#[test]
fn whole_objects_come_first_and_later_ones_win() {
    let fields = json!({
        "envFrom": [
            { "configMapRef": { "name": "config" } },
            { "prefix": "S_", "secretRef": { "name": "secret" } },
            { "prefix": "S_", "configMapRef": { "name": "config" } },
            { "configMapRef": { "name": "absent", "optional": true } },
            { "secretRef": { "name": "absent", "optional": true } },
        ],
        "env": [{ "name": "COLOR", "value": "dark $(COLOR)" }],
    });
    let found = world().lines(&fields).unwrap();
    let expected = [
        "1ST=digit",
        "COLOR=dark red",
        "a.b-c=odd",
        "S_PASSWORD=hidden",
        "S_RAW=\u{fffd}",
        "S_1ST=digit",
        "S_COLOR=red",
        "S_a.b-c=odd",
    ];
    assert_eq!(found, expected);
}

#[test]
fn single_values_come_from_everywhere() {
    let env = json!([
        { "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
        { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
        { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "requests.cpu", "divisor": "1m" } } },
        { "name": "KEY", "valueFrom": { "configMapKeyRef": { "name": "config", "key": "COLOR" } } },
        { "name": "RAW", "valueFrom": { "secretKeyRef": { "name": "secret", "key": "RAW" } } },
        { "name": "COPY", "value": "$(RAW)" },
        // A value comes before a source.
        { "name": "BOTH", "value": "own", "valueFrom": { "fieldRef": { "fieldPath": "nonsense" } } },
    ]);
    let fields = json!({ "env": env, "resources": { "requests": { "cpu": "5m" } } });
    let pod = testing::pod(&json!({ "enableServiceLinks": true }));
    let environment = world().environment(&pod, &fields).unwrap();
    for (name, value) in [
        ("NAME", &b"web"[..]),
        ("IP", b"10.0.0.5"),
        ("CPU", b"5"),
        ("KEY", b"red"),
        ("RAW", b"\xff"),
        ("COPY", b"\xff"),
        ("BOTH", b"own"),
    ] {
        assert_eq!(environment.get(name), Some(value), "{name}");
    }
}

#[test]
fn what_is_not_there_is_an_error_unless_it_is_optional() {
    let key = |kind: &str, name: &str, key: &str, optional: bool| {
        let selector = json!({ "name": name, "key": key, "optional": optional });
        json!({ "env": [{ "name": "X", "valueFrom": { kind: selector } }] })
    };
    let all = |kind: &str| json!({ "envFrom": [{ kind: { "name": "absent" } }] });
    for (fields, expected) in [
        (
            key("configMapKeyRef", "absent", "k", false),
            "configmap \"absent\" not found",
        ),
        (
            key("secretKeyRef", "absent", "k", false),
            "secret \"absent\" not found",
        ),
        (
            key("configMapKeyRef", "config", "k", false),
            "couldn't find key k in ConfigMap shop/config",
        ),
        (
            key("secretKeyRef", "secret", "k", false),
            "couldn't find key k in Secret shop/secret",
        ),
        (all("configMapRef"), "configmap \"absent\" not found"),
        (all("secretRef"), "secret \"absent\" not found"),
    ] {
        assert_eq!(world().lines(&fields), Err(expected.to_owned()), "{fields}");
    }
    for fields in [
        key("configMapKeyRef", "absent", "k", true),
        key("secretKeyRef", "absent", "k", true),
        key("configMapKeyRef", "config", "k", true),
        key("secretKeyRef", "secret", "k", true),
    ] {
        assert_eq!(world().lines(&fields), Ok(Vec::new()), "{fields}");
    }
}

#[test]
fn references_that_lead_nowhere_are_told_in_upstreams_words() {
    let field = json!({ "fieldRef": { "fieldPath": "spec.volumes" } });
    let fields = json!({ "env": [{ "name": "X", "valueFrom": field }] });
    let expected = Err("field label not supported: spec.volumes".to_owned());
    assert_eq!(world().lines(&fields), expected);
}

#[test]
fn a_variable_can_come_from_a_file_of_a_volume() {
    let file = |content: Option<&str>| EnvFile {
        path: "/pods/v/a.env".into(),
        content: content.map(|content| content.as_bytes().to_vec()),
    };
    let at = |path: &str| ("v".to_owned(), path.to_owned());
    let world = World {
        files: Some(
            [
                (at("a.env"), file(Some("K='one'\nEMPTY=''\n"))),
                (at("bad.env"), file(Some("K=one\n"))),
                (at("absent.env"), file(None)),
            ]
            .into(),
        ),
        ..world()
    };
    let lines = |volume: &str, path: &str, key: &str, optional: bool| {
        let file = json!({ "volumeName": volume, "path": path, "key": key, "optional": optional });
        world.lines(&json!({ "env": [
            { "name": "X", "valueFrom": { "fileKeyRef": file } },
            { "name": "Y", "value": "-$(X)-" },
        ] }))
    };
    let found = |variables: &[&str]| Ok(variables.iter().map(|&text| text.to_owned()).collect());
    let missing = |key: &str| {
        Err(format!(
            "environment variable key {key:?} not found in file \"/pods/v/a.env\""
        ))
    };
    let unreadable = || Err("couldn't parse env file".to_owned());
    for (volume, path, key, optional, expected) in [
        ("v", "a.env", "K", false, found(&["X=one", "Y=-one-"])),
        ("v", "a.env", "NO", false, missing("NO")),
        ("v", "a.env", "NO", true, found(&["Y=-$(X)-"])),
        // An empty value is none.
        ("v", "a.env", "EMPTY", false, missing("EMPTY")),
        ("v", "bad.env", "K", false, unreadable()),
        // Optional is the key, not the file.
        ("v", "absent.env", "K", true, unreadable()),
        (
            "other",
            "a.env",
            "K",
            true,
            Err("cannot find the volume \"other\" referenced by FileKeyRef".to_owned()),
        ),
    ] {
        assert_eq!(lines(volume, path, key, optional), expected, "{path} {key}");
    }
}

#[test]
fn without_its_gate_a_variable_of_a_file_is_empty() {
    let world = World {
        files: None,
        ..world()
    };
    let file = json!({ "key": "k", "path": "p", "volumeName": "v" });
    let fields = json!({ "env": [{ "name": "X", "valueFrom": { "fileKeyRef": file } }] });
    assert_eq!(world.lines(&fields), Ok(vec!["X=".to_owned()]));
}

#[test]
fn what_nobody_has_told_of_yet_is_waited_for_though_it_is_optional() {
    let why = "failed to sync configmap cache: timed out waiting for the condition";
    let mut world = world();
    let late = (Kind::ConfigMap, "late".to_owned());
    world.unanswered.insert(late, why.to_owned());
    let all =
        |name: &str| json!({ "envFrom": [{ "configMapRef": { "name": name, "optional": true } }] });
    let key = json!({ "name": "late", "key": "k", "optional": true });
    let one = json!({ "env": [{ "name": "A", "valueFrom": { "configMapKeyRef": key } }] });
    assert_eq!(world.lines(&all("late")), Err(why.to_owned()));
    assert_eq!(world.lines(&one), Err(why.to_owned()));
    assert_eq!(world.lines(&all("absent")), Ok(Vec::new()));
    // A secret of that name is another object.
    let secret = json!({ "envFrom": [{ "secretRef": { "name": "late", "optional": true } }] });
    assert_eq!(world.lines(&secret), Ok(Vec::new()));
}

#[test]
fn without_an_api_server_there_are_no_objects_not_even_optional_ones() {
    let world = World {
        has_api: false,
        ..world()
    };
    for (fields, text) in [
        (
            json!({ "envFrom": [{ "configMapRef": { "name": "config", "optional": true } }] }),
            "couldn't get configMap shop/config, no kubeClient defined",
        ),
        (
            json!({ "env": [{ "name": "X", "valueFrom": {
                "secretKeyRef": { "name": "secret", "key": "k" },
            } }] }),
            "couldn't get secret shop/secret, no kubeClient defined",
        ),
    ] {
        assert_eq!(world.lines(&fields), Err(text.to_owned()));
    }
}

#[test]
fn services_are_told_in_both_of_the_old_ways() {
    let ports = json!([
        { "name": "http", "port": 80, "protocol": "TCP" },
        { "name": "dns-udp", "port": 53, "protocol": "UDP" },
    ]);
    let services = [service("shop", "my-db", "10.96.0.7", &ports)];
    let found = services::variables(&services, "shop", true);
    let found: BTreeMap<&str, &str> = found
        .iter()
        .map(|(name, value)| (name.as_str(), str::from_utf8(value).unwrap()))
        .collect();
    let expected = BTreeMap::from([
        ("MY_DB_SERVICE_HOST", "10.96.0.7"),
        ("MY_DB_SERVICE_PORT", "80"),
        ("MY_DB_SERVICE_PORT_HTTP", "80"),
        ("MY_DB_SERVICE_PORT_DNS_UDP", "53"),
        ("MY_DB_PORT", "tcp://10.96.0.7:80"),
        ("MY_DB_PORT_80_TCP", "tcp://10.96.0.7:80"),
        ("MY_DB_PORT_80_TCP_PROTO", "tcp"),
        ("MY_DB_PORT_80_TCP_PORT", "80"),
        ("MY_DB_PORT_80_TCP_ADDR", "10.96.0.7"),
        ("MY_DB_PORT_53_UDP", "udp://10.96.0.7:53"),
        ("MY_DB_PORT_53_UDP_PROTO", "udp"),
        ("MY_DB_PORT_53_UDP_PORT", "53"),
        ("MY_DB_PORT_53_UDP_ADDR", "10.96.0.7"),
    ]);
    assert_eq!(found, expected);
    let services = [service("shop", "six", "fd00::7", &json!([{ "port": 1 }]))];
    let found = services::variables(&services, "shop", true);
    assert_eq!(found["SIX_PORT"], b"tcp://[fd00::7]:1");
}

#[test]
fn a_pod_sees_the_api_server_and_with_links_its_own_namespace() {
    let port = json!([{ "port": 443 }]);
    let services = vec![
        service("default", "kubernetes", "10.96.0.1", &port),
        service("default", "other", "10.96.0.2", &port),
        service("shop", "db", "10.96.0.3", &port),
        service("shop", "headless", "None", &port),
        service("shop", "outside", "", &port),
        service("bank", "vault", "10.96.0.4", &port),
    ];
    let hosts = |namespace: &str, links: bool| -> Vec<String> {
        let found = services::variables(&services, namespace, links);
        found
            .into_keys()
            .filter(|name| name.ends_with("_SERVICE_HOST"))
            .collect()
    };
    assert_eq!(
        hosts("shop", true),
        ["DB_SERVICE_HOST", "KUBERNETES_SERVICE_HOST"]
    );
    assert_eq!(hosts("shop", false), ["KUBERNETES_SERVICE_HOST"]);
    assert_eq!(
        hosts("default", true),
        ["KUBERNETES_SERVICE_HOST", "OTHER_SERVICE_HOST"]
    );
    assert_eq!(hosts("default", false), ["KUBERNETES_SERVICE_HOST"]);
    let namesake = service("shop", "kubernetes", "10.96.0.9", &port);
    for services in [
        [services[0].clone(), namesake.clone()],
        [namesake.clone(), services[0].clone()],
    ] {
        let found = services::variables(&services, "shop", true);
        assert_eq!(found["KUBERNETES_SERVICE_HOST"], b"10.96.0.9");
    }
}

#[test]
fn services_can_be_referred_to_and_overridden() {
    let world = World {
        services: Some(vec![service(
            "shop",
            "db",
            "10.96.0.3",
            &json!([{ "port": 5 }]),
        )]),
        ..world()
    };
    let env = json!([
        { "name": "URL", "value": "http://$(DB_SERVICE_HOST)/" },
        { "name": "DB_SERVICE_PORT", "value": "own" },
        { "name": "SEEN", "value": "$(DB_SERVICE_PORT)" },
    ]);
    let found = world.lines(&json!({ "env": env })).unwrap();
    assert_eq!(found[..2], ["URL=http://10.96.0.3/", "DB_SERVICE_PORT=own"]);
    assert!(found.contains(&"DB_SERVICE_HOST=10.96.0.3".to_owned()));
    assert!(found.contains(&"SEEN=own".to_owned()));
    let ports = found
        .iter()
        .filter(|line| line.starts_with("DB_SERVICE_PORT="));
    assert_eq!(ports.count(), 1);
}

#[test]
fn pods_wait_for_services_unless_they_are_static() {
    let world = World {
        services: None,
        ..world()
    };
    let mut pod = testing::pod(&json!({ "enableServiceLinks": true }));
    let error = world.environment(&pod, &json!({})).unwrap_err();
    let text = "services have not yet been read at least once, cannot construct envvars";
    assert_eq!(error, text);
    let source = ("kubernetes.io/config.source".to_owned(), "file".to_owned());
    pod.metadata.annotations = Some([source].into());
    assert_eq!(
        lines(&world.environment(&pod, &json!({})).unwrap()),
        [""; 0]
    );
    let error = world
        .environment(&testing::pod(&json!({})), &json!({}))
        .unwrap_err();
    let text = "nil pod.spec.enableServiceLinks encountered, cannot construct envvars";
    assert_eq!(error, text);
}
