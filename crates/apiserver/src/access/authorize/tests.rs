use super::*;

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|&group| group.to_owned());
    User::authenticated(name, groups.collect())
}

/// `verb /path` or `verb group/resource[/subresource] [namespace/]name`.
fn asked(text: &str) -> Attributes {
    let mut words = text.split(' ');
    let verb = words.next().unwrap().to_owned();
    let what = words.next().unwrap();
    if let Some(path) = what.strip_prefix("path:") {
        return Attributes {
            verb,
            path: path.to_owned(),
            ..Attributes::default()
        };
    }
    let (group, resource) = what.split_once('/').unwrap();
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let object = words.next().unwrap_or_default();
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    Attributes {
        verb,
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    }
}

fn allowed(user: &User, text: &str) -> bool {
    decide(user, &asked(text), &References::default()).allowed
}

#[test]
fn each_rule_has_two_sides() {
    let admin = user("kubernetes-admin", &["system:masters"]);
    let mary = user("mary", &["team"]);
    let nobody = User::anonymous();
    let bootstrapper = user("system:bootstrap:abcdef", &["system:bootstrappers"]);
    let account = user(
        "system:serviceaccount:a:b",
        &["system:serviceaccounts", "system:serviceaccounts:a"],
    );
    let node = user("system:node:one", &["system:nodes"]);
    let kubelet_client = user("kube-apiserver-kubelet-client", &[]);
    let monitor = user("prometheus", &["system:monitoring"]);
    for (user, text, expected) in [
        (&admin, "deletecollection /secrets kube-system/", true),
        (&admin, "get path:/anything", true),
        (&mary, "get /secrets default/a", false),
        (&mary, "get path:/anything", false),
        (&mary, "get path:/api", true),
        (&mary, "get path:/apis/certificates.k8s.io/v1", true),
        (&mary, "get path:/openapi/v3", true),
        (&mary, "post path:/api", false),
        (
            &mary,
            "create authorization.k8s.io/selfsubjectaccessreviews",
            true,
        ),
        (
            &mary,
            "create authorization.k8s.io/selfsubjectrulesreviews",
            true,
        ),
        (
            &mary,
            "create authentication.k8s.io/selfsubjectreviews",
            true,
        ),
        (
            &mary,
            "create authorization.k8s.io/subjectaccessreviews",
            false,
        ),
        (&mary, "create authentication.k8s.io/tokenreviews", false),
        (&mary, "get /configmaps kube-public/cluster-info", false),
        (&nobody, "get path:/healthz", true),
        (&nobody, "get path:/livez", true),
        (&nobody, "get path:/readyz", true),
        (&nobody, "get path:/version", true),
        (&nobody, "get path:/livez/ping", false),
        (&nobody, "get path:/api", false),
        (&nobody, "get path:/metrics", false),
        (&nobody, "get /configmaps kube-public/cluster-info", true),
        (&nobody, "get /configmaps kube-public/other", false),
        (&nobody, "get /configmaps default/cluster-info", false),
        (&nobody, "list /configmaps kube-public/", false),
        (
            &nobody,
            "create authentication.k8s.io/selfsubjectreviews",
            false,
        ),
        (
            &bootstrapper,
            "create certificates.k8s.io/certificatesigningrequests",
            true,
        ),
        (
            &bootstrapper,
            "watch certificates.k8s.io/certificatesigningrequests",
            true,
        ),
        (
            &bootstrapper,
            "create certificates.k8s.io/certificatesigningrequests/nodeclient",
            true,
        ),
        (
            &bootstrapper,
            "create certificates.k8s.io/certificatesigningrequests/selfnodeclient",
            false,
        ),
        (
            &bootstrapper,
            "update certificates.k8s.io/certificatesigningrequests/approval",
            false,
        ),
        (
            &bootstrapper,
            "delete certificates.k8s.io/certificatesigningrequests a",
            false,
        ),
        (&bootstrapper, "get /nodes one", true),
        (&bootstrapper, "list /nodes", false),
        (&account, "get path:/openid/v1/jwks", true),
        (&account, "get path:/api/v1", true),
        (
            &account,
            "create authorization.k8s.io/selfsubjectaccessreviews",
            true,
        ),
        (&account, "list /pods a/", false),
        (&mary, "get path:/openid/v1/jwks", false),
        (
            &node,
            "create certificates.k8s.io/certificatesigningrequests/selfnodeclient",
            true,
        ),
        (
            &node,
            "create certificates.k8s.io/certificatesigningrequests/nodeclient",
            false,
        ),
        (&node, "get /nodes one", true),
        (&node, "get /nodes two", false),
        (&node, "get path:/api", true),
        (&kubelet_client, "create /nodes/proxy one", true),
        (&kubelet_client, "get /nodes/stats one", true),
        (&kubelet_client, "get /nodes one", true),
        (&kubelet_client, "delete /nodes one", false),
        (&monitor, "get path:/metrics", true),
        (&monitor, "get path:/livez/ping", true),
        (&mary, "get path:/metrics", false),
    ] {
        assert_eq!(allowed(user, text), expected, "{}: {text}", user.name);
    }
}

#[test]
fn what_is_forbidden_is_told_in_upstreams_words() {
    let authorizer = Authorizer::default();
    let message =
        |user: &User, text: &str| authorizer.check(user, &asked(text)).unwrap_err().message;
    let mary = user("mary", &[]);
    assert_eq!(
        message(&mary, "list /pods default/"),
        r#"pods is forbidden: User "mary" cannot list resource "pods" in API group "" in the namespace "default""#
    );
    assert_eq!(
        message(
            &mary,
            "update certificates.k8s.io/certificatesigningrequests/approval a"
        ),
        "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: User \"mary\" cannot update resource \
         \"certificatesigningrequests/approval\" in API group \"certificates.k8s.io\" at the cluster scope"
    );
    assert_eq!(
        message(&User::anonymous(), "get path:/"),
        r#"forbidden: User "system:anonymous" cannot get path "/""#
    );
    let node = user("system:node:one", &["system:nodes"]);
    assert_eq!(
        message(&node, "get /secrets default/a"),
        "secrets \"a\" is forbidden: User \"system:node:one\" cannot get resource \"secrets\" in API group \"\" \
         in the namespace \"default\": no relationship found between node 'one' and this object"
    );
}
