use std::fs;

use tempfile::TempDir;

use super::super::testing::{Pair, pair};
use super::*;

/// A directory with the files that the tables name.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let Pair { certificate, key } = pair(2030);
    for (name, content) in [
        ("c.crt", certificate),
        ("c.key", key),
        ("token", "read\n".to_owned()),
        ("empty", String::new()),
    ] {
        fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}

fn resolve(directory: &TempDir, text: &str) -> Result<ClientConfig, ResolveError> {
    Kubeconfig::parse(text.as_bytes(), &directory.path().join("kubeconfig"))
        .unwrap()
        .resolve(None)
}

/// In one line: the trust, the certificate, the header or the plugin. `DIR` is the directory.
fn identity(cluster: &str, user: &str) -> String {
    let directory = directory();
    let summary = match resolve(&directory, &kubeconfig(cluster, user)) {
        Err(error) => error.problem.to_string(),
        Ok(config) => summary(&config),
    };
    summary.replace(directory.path().to_str().unwrap(), "DIR")
}

fn summary(config: &ClientConfig) -> String {
    let mut words = vec![match config.tls.as_ref().map(|tls| &tls.trust) {
        None => "plain".to_owned(),
        Some(Trust::System) => "system".to_owned(),
        Some(Trust::Unverified) => "unverified".to_owned(),
        Some(Trust::Authority(authority)) => format!("ca={}", authority.0),
    }];
    match &config.identity {
        Identity::Exec(plugin) => words.push(format!(
            "exec={} {:?}",
            plugin.command.display(),
            plugin.interactive
        )),
        Identity::Given(given) => {
            if let Some(source) = &given.certificate {
                words.push(format!("cert={}+{}", source.certificate, source.key));
            }
            words.extend(
                given
                    .authorization
                    .as_ref()
                    .map(|authorization| match authorization {
                        Authorization::Token(token) => format!("token={}", token.expose()),
                        Authorization::TokenFile { path, fallback } => {
                            format!(
                                "tokenFile={}/{}",
                                path.display(),
                                fallback.as_ref().unwrap().expose()
                            )
                        }
                        Authorization::Basic { username, password } => {
                            format!("basic={username}:{}", password.expose())
                        }
                    }),
            );
        }
    }
    words.join(" ")
}

const SERVER: &str = "server: 'https://a:1'";

/// What client-go v0.36.4 makes of the same files, but for the words of the errors.
#[test]
fn credentials_have_upstreams_precedence() {
    let exec =
        "exec: {command: p, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}";
    let pair = "client-certificate: c.crt, client-key: c.key";
    let cases = [
        ("", "system"),
        ("token: t", "system token=t"),
        ("tokenFile: token", "system tokenFile=DIR/token/read"),
        ("token: t, tokenFile: token", "system tokenFile=DIR/token/t"),
        ("token: t, tokenFile: gone", "system tokenFile=DIR/gone/t"),
        (
            "tokenFile: gone",
            "user \"u\": token file DIR/gone: No such file or directory (os error 2)",
        ),
        (
            "tokenFile: empty",
            "user \"u\": token file DIR/empty is empty",
        ),
        ("username: me, password: pw", "system basic=me:pw"),
        ("username: me", "system basic=me:"),
        ("password: pw", "system"),
        (
            "token: t, username: me",
            "user \"u\" has both a token and a user name; remove one",
        ),
        (
            "token: t, password: pw",
            "user \"u\" has both a token and a user name; remove one",
        ),
        (
            "tokenFile: token, username: me",
            "user \"u\" has both a token and a user name; remove one",
        ),
        (
            "tokenFile: token, password: pw",
            "system tokenFile=DIR/token/read",
        ),
        (pair, "system cert=DIR/c.crt+DIR/c.key"),
        (
            &format!("{pair}, token: t"),
            "system cert=DIR/c.crt+DIR/c.key token=t",
        ),
        (
            &format!("{pair}, username: me"),
            "system cert=DIR/c.crt+DIR/c.key basic=me:",
        ),
        (
            "client-certificate: c.crt, client-key-data: a2V5",
            "system cert=DIR/c.crt+client-key-data",
        ),
        ("client-key: gone", "system"),
        (
            "client-certificate: c.crt",
            "user \"u\" has a client-certificate and no client-key",
        ),
        (
            "client-certificate: gone, client-key: c.key",
            "client-certificate of user \"u\": DIR/gone: No such file or directory (os error 2)",
        ),
        (
            "client-certificate: c.crt, client-key: gone",
            "client-key of user \"u\": DIR/gone: No such file or directory (os error 2)",
        ),
        (
            &format!("{pair}, client-certificate-data: YQ=="),
            "user \"u\" has both client-certificate and client-certificate-data; remove one",
        ),
        (
            &format!("{pair}, client-key-data: YQ=="),
            "user \"u\" has both client-key and client-key-data; remove one",
        ),
        (exec, "system exec=p Never"),
        (&format!("{exec}, password: pw"), "system exec=p Never"),
        (&format!("{exec}, token: t"), "system token=t"),
        (
            &format!("{exec}, tokenFile: token"),
            "system tokenFile=DIR/token/read",
        ),
        (&format!("{exec}, username: me"), "system basic=me:"),
        (
            &format!("{exec}, {pair}"),
            "system cert=DIR/c.crt+DIR/c.key",
        ),
        (
            &format!("{exec}, auth-provider: {{name: oidc}}"),
            "user \"u\" has both auth-provider and exec; remove auth-provider",
        ),
        (
            "auth-provider: {name: oidc}",
            "user \"u\" uses auth-provider \"oidc\", which is not supported; use an exec plugin",
        ),
        ("auth-provider: null, exec: null", "system"),
        (
            "as-uid: '7'",
            "user \"u\" has as-uid, as-groups or as-user-extra, and no user to impersonate (as)",
        ),
    ];
    for (user, expected) in cases {
        assert_eq!(identity(SERVER, user), expected, "{user}");
    }
}

#[test]
fn the_fields_of_a_plugin_are_checked_as_upstream_checks_them() {
    let v1 = "apiVersion: client.authentication.k8s.io/v1";
    let cases = [
        (
            "command: p, apiVersion: client.authentication.k8s.io/v1beta1",
            "system exec=p IfAvailable",
        ),
        (
            &format!("command: ./b/../p, {v1}, interactiveMode: Always"),
            "system exec=DIR/p Always",
        ),
        (
            &format!("command: /b/../p, {v1}, interactiveMode: Never"),
            "system exec=/p Never",
        ),
        (
            &format!("command: p, {v1}"),
            "exec of user \"u\": interactiveMode is missing",
        ),
        (
            &format!("command: p, {v1}, interactiveMode: Often"),
            "exec of user \"u\": interactiveMode \"Often\" is none of Never, IfAvailable, Always",
        ),
        (
            &format!("{v1}, interactiveMode: Never"),
            "exec of user \"u\": command is missing",
        ),
        (
            "command: p, interactiveMode: Never",
            "exec of user \"u\": apiVersion is missing",
        ),
        (
            &format!("command: p, {v1}, interactiveMode: Never, env: [{{value: x}}]"),
            "exec of user \"u\": the name of an env entry is missing",
        ),
        (
            "command: p, apiVersion: client.authentication.k8s.io/v1alpha1",
            "exec of user \"u\": apiVersion \"client.authentication.k8s.io/v1alpha1\" is not supported; client.authentication.k8s.io/v1 and v1beta1 are",
        ),
    ];
    for (exec, expected) in cases {
        assert_eq!(
            identity(SERVER, &format!("exec: {{{exec}}}")),
            expected,
            "{exec}"
        );
    }
}

#[test]
fn a_cluster_says_whom_to_trust() {
    let cases = [
        (
            "server: 'https://a', certificate-authority: ./c.crt",
            "ca=DIR/c.crt",
        ),
        (
            "server: 'https://a', certificate-authority-data: Q0E=",
            "ca=certificate-authority-data",
        ),
        (
            "server: 'https://a', insecure-skip-tls-verify: yes",
            "unverified",
        ),
        (
            "server: 'https://a', certificate-authority: c.crt, insecure-skip-tls-verify: true",
            "cluster \"c\" has a CA and insecure-skip-tls-verify; remove one",
        ),
        (
            "server: 'https://a', certificate-authority: c.crt, certificate-authority-data: Q0E=",
            "cluster \"c\" has both certificate-authority and certificate-authority-data; remove one",
        ),
        (
            "server: 'https://a', certificate-authority: gone",
            "certificate-authority of cluster \"c\": DIR/gone: No such file or directory (os error 2)",
        ),
        (
            "server: 'https://a b'",
            "server of cluster \"c\": it is no address; write https://HOST:PORT",
        ),
        (
            "server: 'https://a', proxy-url: 'ftp://p'",
            "proxy-url of cluster \"c\": only http, https and socks5 proxies are spoken to; write http://HOST:PORT",
        ),
        ("tls-server-name: a", "cluster \"c\" has no server"),
        ("", "cluster \"c\" has no server"),
    ];
    for (cluster, expected) in cases {
        assert_eq!(identity(cluster, ""), expected, "{cluster}");
    }
}

#[test]
fn no_credential_goes_over_plain_http() {
    for server in ["http://a", "a:6443", "a"] {
        let cluster = format!(
            "server: '{server}', certificate-authority: c.crt, insecure-skip-tls-verify: true"
        );
        let user =
            "client-certificate: c.crt, client-key: c.key, token: t, auth-provider: {name: oidc}";
        assert_eq!(identity(&cluster, user), "plain", "{server}");
    }
    // What is checked in any case is checked here as well.
    assert!(identity("server: 'http://a', certificate-authority: gone", "").contains("DIR/gone"));
}

#[test]
fn contexts_are_found_as_upstream_finds_them() {
    let directory = directory();
    let base = kubeconfig(SERVER, "token: t");
    let without = base.replace("current-context: x\n", "");
    let cases = [
        (
            without.clone(),
            "current-context is not set; choose one: kubectl config use-context NAME",
        ),
        (
            String::new(),
            "current-context is not set; choose one: kubectl config use-context NAME",
        ),
        (
            without.clone() + "current-context: z\n",
            "there is no context \"z\"",
        ),
        (
            base.replace("cluster: c, user", "cluster: d, user"),
            "there is no cluster \"d\", which context \"x\" names",
        ),
        (
            base.replace("cluster: c, user: u", "user: u"),
            "there is no cluster \"\", which context \"x\" names",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(
            resolve(&directory, &text).unwrap_err().problem.to_string(),
            expected,
            "{text}"
        );
    }
    // Entries without a name belong together without a context.
    let nameless = "clusters: [{cluster: {server: 'https://a'}}]\nusers: [{user: {token: t}}]\n";
    assert_eq!(
        summary(&resolve(&directory, nameless).unwrap()),
        "system token=t"
    );
    // A user that is not there is nobody.
    let config = resolve(&directory, &base.replace("user: u}", "user: v}")).unwrap();
    assert_eq!(
        (summary(&config).as_str(), config.missing_user.as_deref()),
        ("system", Some("v"))
    );

    let chosen = Kubeconfig::parse(without.as_bytes(), Path::new("/k")).unwrap();
    assert_eq!(
        summary(&chosen.resolve(Some("x")).unwrap()),
        "system token=t"
    );
    let error = chosen.resolve(Some("z")).unwrap_err().to_string();
    assert_eq!(error, "kubeconfig /k: there is no context \"z\"");
}

#[test]
fn the_rest_of_a_context_is_carried_over() {
    let directory = directory();
    let text = kubeconfig(
        "server: 'https://a/p?q', tls-server-name: name, proxy-url: 'socks5://p', disable-compression: true",
        "as: me, as-uid: '7', as-groups: [g], as-user-extra: {k: [v]}, token: hunter2",
    )
    .replace("user: u}", "user: u, namespace: kube-system}");
    let config = resolve(&directory, &text).unwrap();
    assert_eq!(config.namespace, "kube-system");
    assert_eq!(
        config.tls.as_ref().unwrap().server_name.as_deref(),
        Some("name")
    );
    assert_eq!(
        config.proxy.as_ref().unwrap().to_string(),
        "socks5://p:1080"
    );
    assert!(config.disable_compression);
    let expected = Impersonation {
        user: "me".to_owned(),
        uid: Some("7".to_owned()),
        groups: vec!["g".to_owned()],
        extra: vec![("k".to_owned(), vec!["v".to_owned()])],
    };
    assert_eq!(config.impersonation, Some(expected));
    assert!(!format!("{config:?}").contains("hunter2"));

    let anonymous = config.anonymous();
    assert_eq!(summary(&anonymous), "system");
    assert!(anonymous.impersonation.is_none() && anonymous.proxy.is_some());
    assert_eq!(
        resolve(&directory, &kubeconfig(SERVER, ""))
            .unwrap()
            .namespace,
        "default"
    );
}
