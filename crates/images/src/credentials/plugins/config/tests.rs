use super::*;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";

fn read_one(content: &str) -> Result<Vec<Provider>, ConfigError> {
    read(&[("a.yaml".to_owned(), content.into())], true)
}

/// A provider with these lines, and what no provider may lack.
fn provider(lines: &str) -> String {
    let name = if lines.contains("name:") {
        ""
    } else {
        "name: p, "
    };
    let version = if lines.contains("apiVersion:") {
        ""
    } else {
        "apiVersion: credentialprovider.kubelet.k8s.io/v1, "
    };
    let images = if lines.contains("matchImages:") {
        ""
    } else {
        "matchImages: [r.io], "
    };
    let duration = if lines.contains("defaultCacheDuration:") {
        ""
    } else {
        "defaultCacheDuration: 10m, "
    };
    format!("{HEAD}providers:\n- {{{name}{version}{images}{duration}{lines}}}\n")
}

fn refused(content: &str) -> String {
    read_one(content).unwrap_err().to_string()
}

#[test]
fn all_that_is_written_is_read() {
    let content = provider(
        "name: p, args: [--x], env: [{name: A, value: b}], defaultCacheDuration: 1h, \
         tokenAttributes: {serviceAccountTokenAudience: aud, cacheType: Token, \
         requireServiceAccount: true, requiredServiceAccountAnnotationKeys: [d.io/Key], \
         optionalServiceAccountAnnotationKeys: [other]}",
    );
    let wanted = Provider {
        name: "p".to_owned(),
        match_images: vec!["r.io".to_owned()],
        default_cache: Duration::from_secs(3600),
        api_version: V1.to_owned(),
        arguments: vec!["--x".to_owned()],
        environment: vec![("A".to_owned(), "b".to_owned())],
        token: Some(TokenAttributes {
            audience: "aud".to_owned(),
            cache_by_token: true,
            require_account: true,
            required_annotations: vec!["d.io/Key".to_owned()],
            optional_annotations: vec!["other".to_owned()],
        }),
    };
    assert_eq!(read_one(&content).unwrap(), [wanted]);
}

#[test]
fn files_are_put_together_in_their_order_and_a_name_occurs_once() {
    let file = |name: &str| {
        let content = provider(&format!("name: {name}"));
        (format!("{name}.yaml"), content.into_bytes())
    };
    let both = read(&[file("a"), file("b")], true).unwrap();
    let names: Vec<&str> = both.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let error = read(&[file("a"), file("a")], true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "duplicate provider name \"a\" found in configuration file(s)"
    );
}

#[test]
fn what_is_wrong_is_told_in_upstreams_words() {
    let invalid = "failed to validate credential provider config: ";
    let cases = [
        (
            HEAD.to_owned(),
            "providers: Required value: at least 1 item in plugins is required",
        ),
        (
            provider("name: a/b"),
            "providers.name: Invalid value: \"a/b\": provider name cannot contain '/'",
        ),
        (
            provider("name: ' '"),
            "providers.name: Invalid value: \" \": provider name cannot contain spaces",
        ),
        (
            provider("name: .."),
            "providers.name: Invalid value: \"..\": provider name cannot be '..'",
        ),
        (
            provider("apiVersion: ''"),
            "providers.apiVersion: Required value",
        ),
        (
            provider("apiVersion: v1"),
            "providers.apiVersion: Unsupported value: \"v1\": supported values: \
             \"credentialprovider.kubelet.k8s.io/v1\", \
             \"credentialprovider.kubelet.k8s.io/v1alpha1\", \
             \"credentialprovider.kubelet.k8s.io/v1beta1\"",
        ),
        (
            provider("matchImages: []"),
            "providers.matchImages: Required value: at least 1 item in matchImages is required",
        ),
        (
            provider("defaultCacheDuration: null"),
            "providers.defaultCacheDuration: Required value",
        ),
        (
            provider("defaultCacheDuration: -1m"),
            "providers.defaultCacheDuration: Invalid value: \"-1m0s\": must be greater than or equal to 0",
        ),
        (
            provider("name: a/b, apiVersion: ''"),
            "[providers.name: Invalid value: \"a/b\": provider name cannot contain '/', \
             providers.apiVersion: Required value]",
        ),
    ];
    for (content, wanted) in cases {
        assert_eq!(refused(&content), format!("{invalid}{wanted}"));
    }
}

#[test]
fn an_address_that_is_none_is_named() {
    let text = refused(&provider("matchImages: ['r.io:port']"));
    assert!(
        text.contains(
            "providers.matchImages: Invalid value: \"r.io:port\": match image is invalid"
        ),
        "{text}"
    );
}

#[test]
fn token_attributes_are_judged_in_upstreams_words() {
    let at = "failed to validate credential provider config: providers.tokenAttributes";
    let given = |more: &str| {
        let audience = if more.contains("Audience:") {
            ""
        } else {
            "serviceAccountTokenAudience: a, "
        };
        let cache = if more.contains("cacheType:") {
            ""
        } else {
            "cacheType: Token, "
        };
        let require = if more.contains("requireServiceAccount:") {
            ""
        } else {
            "requireServiceAccount: true, "
        };
        provider(&format!(
            "tokenAttributes: {{{audience}{cache}{require}{more}}}"
        ))
    };
    let cases = [
        (
            given("serviceAccountTokenAudience: ''"),
            ".serviceAccountTokenAudience: Required value",
        ),
        (
            given("requireServiceAccount: null"),
            ".requireServiceAccount: Required value",
        ),
        (
            given("requireServiceAccount: false, requiredServiceAccountAnnotationKeys: [a]"),
            ".requiredServiceAccountAnnotationKeys: Forbidden: requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set",
        ),
        (
            given("optionalServiceAccountAnnotationKeys: [a, a]"),
            ".optionalServiceAccountAnnotationKeys: Duplicate value: \"a\"",
        ),
        (
            given(
                "requiredServiceAccountAnnotationKeys: [b, a], optionalServiceAccountAnnotationKeys: [a, b, c]",
            ),
            ": Invalid value: [\"a\",\"b\"]: annotation keys cannot be both required and optional",
        ),
        (
            given("cacheType: ''"),
            ".cacheType: Required value: cacheType is required to be set when tokenAttributes is specified. Supported values are: ServiceAccount, Token",
        ),
        (
            given("cacheType: Pod"),
            ".cacheType: Unsupported value: \"Pod\": supported values: \"ServiceAccount\", \"Token\"",
        ),
    ];
    for (content, wanted) in cases {
        assert_eq!(refused(&content), format!("{at}{wanted}"));
    }
    let off = read(&[("a".to_owned(), given("").into_bytes())], false).unwrap_err();
    assert_eq!(
        off.to_string(),
        format!(
            "{at}: Forbidden: tokenAttributes is not supported when KubeletServiceAccountTokenForCredentialProviders feature gate is disabled"
        )
    );
    let bad = refused(&given("requiredServiceAccountAnnotationKeys: ['a b']"));
    let wanted = ".requiredServiceAccountAnnotationKeys: Invalid value: \"a b\": ";
    assert!(bad.starts_with(&format!("{at}{wanted}")), "{bad}");
}

#[test]
fn a_file_that_is_no_configuration_is_named_with_what_is_wrong() {
    let old = HEAD.replace("/v1", "/v1beta1");
    let cases = [
        ("{", ""),
        ("", "it does not begin as it has to"),
        (
            "kind: CredentialProviderConfig",
            "it does not begin as it has to",
        ),
        (
            "apiVersion: kubelet.config.k8s.io/v1\nkind: Pod",
            "failed to decode \"Pod\" (wrong Kind)",
        ),
        (
            "apiVersion: v1\nkind: CredentialProviderConfig",
            "failed to decode CredentialProviderConfig, unexpected Group: ",
        ),
        (
            "apiVersion: kubelet.config.k8s.io/v2\nkind: CredentialProviderConfig",
            "no kind \"CredentialProviderConfig\" is registered for version",
        ),
        (
            &format!("{HEAD}providers: [{{nane: x}}]"),
            "strict decoding error: unknown field `nane`",
        ),
        (&format!("{HEAD}providers: []\nproviders: []"), ""),
        (
            &format!("{HEAD}providers: [{{defaultCacheDuration: soon}}]"),
            "defaultCacheDuration: ",
        ),
        (
            &format!("{old}providers: [{{tokenAttributes: {{}}}}]"),
            "strict decoding error: unknown field \"providers[].tokenAttributes\"",
        ),
    ];
    for (content, wanted) in cases {
        let text = refused(content);
        let start = format!("error decoding config \"a.yaml\": {wanted}");
        assert!(text.starts_with(&start), "{content}: {text}");
    }
    let beta = provider("").replace(HEAD, &old);
    assert!(read_one(&beta).is_ok());
}
