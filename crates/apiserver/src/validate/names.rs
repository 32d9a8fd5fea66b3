//! What upstream says of names that it does not take. Each function gives all that is
//! wrong with a text, or nothing.

const LABEL_FORM: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORM: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const SEARCH_FORM: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const SEARCH_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
const KEY_FORM: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const CONFIG_KEY_RULE: &str =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const ENV_RULE: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const C_RULE: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
const HEADER_RULE: &str = "a valid HTTP header must consist of alphanumeric characters or '-'";

pub type Findings = Vec<String>;

/// One of the functions below.
pub type Rule = fn(&str) -> Findings;

/// `rule (e.g. 'a',  or 'b', regex used for validation is 'form')`.
pub(super) fn form_rule(rule: &str, form: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{rule} (regex used for validation is '{form}')");
    }
    let examples: Vec<_> = examples
        .iter()
        .map(|example| format!("'{example}', "))
        .collect();
    format!(
        "{rule} (e.g. {}regex used for validation is '{form}')",
        examples.join(" or ")
    )
}

fn too_long(text: &str, limit: usize, unit: &str) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} {unit}"))
}

/// A part of a domain name, such as a namespace or a container's name.
pub fn dns_label(name: &str) -> Findings {
    let mut findings: Findings = too_long(name, 63, "characters").into_iter().collect();
    if !is_dns_label(name) {
        findings.push(if is_dns_subdomain(name) {
            "must not contain dots".to_owned()
        } else {
            form_rule(LABEL_RULE, LABEL_FORM, &["my-name", "123-abc"])
        });
    }
    findings
}

/// A domain name, such as a pod's name.
pub fn dns_subdomain(name: &str) -> Findings {
    let mut findings: Findings = too_long(name, 253, "characters").into_iter().collect();
    if !is_dns_subdomain(name) {
        findings.push(form_rule(SUBDOMAIN_RULE, SUBDOMAIN_FORM, &["example.com"]));
    }
    findings
}

/// A domain name in which underscores are forgiven, such as a search path.
pub fn dns_search(name: &str) -> Findings {
    let mut findings: Findings = too_long(name, 253, "characters").into_iter().collect();
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = |part: &str| is_made_of(part.strip_prefix('_').unwrap_or(part), outer, b"-_");
    if !name.split('.').all(fits) {
        findings.push(form_rule(SEARCH_RULE, SEARCH_FORM, &["example.com"]));
    }
    findings
}

/// The key of a label: a name, perhaps with a domain before it.
pub fn qualified_name(key: &str) -> Findings {
    let mut findings = Findings::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                findings.push("prefix part must be non-empty".to_owned());
            } else {
                if let Some(finding) = too_long(prefix, 253, "bytes") {
                    findings.push(format!("prefix part {finding}"));
                }
                if !is_dns_subdomain(prefix) {
                    findings.push(format!(
                        "prefix part {}",
                        form_rule(SUBDOMAIN_RULE, SUBDOMAIN_FORM, &["example.com"])
                    ));
                }
            }
            name
        }
        _ => {
            let rule = form_rule(KEY_RULE, KEY_FORM, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        findings.push("name part must be non-empty".to_owned());
    } else if let Some(finding) = too_long(name, 63, "bytes") {
        findings.push(format!("name part {finding}"));
    }
    if !is_name_part(name) {
        findings.push(format!(
            "name part {}",
            form_rule(KEY_RULE, KEY_FORM, &["MyName", "my.name", "123-abc"])
        ));
    }
    findings
}

pub fn label_value(value: &str) -> Findings {
    let mut findings: Findings = too_long(value, 63, "bytes").into_iter().collect();
    if !value.is_empty() && !is_name_part(value) {
        findings.push(form_rule(
            VALUE_RULE,
            &format!("({KEY_FORM})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    findings
}

/// The key of a configMap or a secret.
pub fn config_key(key: &str) -> Findings {
    let mut findings: Findings = too_long(key, 253, "characters").into_iter().collect();
    if key.is_empty()
        || !key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    {
        findings.push(form_rule(
            CONFIG_KEY_RULE,
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match key {
        "." => findings.push("must not be '.'".to_owned()),
        ".." => findings.push("must not be '..'".to_owned()),
        key if key.starts_with("..") => findings.push("must not start with '..'".to_owned()),
        _ => {}
    }
    findings
}

pub fn env_name(name: &str) -> Findings {
    if name.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if name
        .bytes()
        .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
    {
        return Findings::new();
    }
    vec![ENV_RULE.to_owned()]
}

pub fn c_identifier(name: &str) -> Findings {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !name.is_empty()
        && name.bytes().all(fine)
        && !name.starts_with(|first: char| first.is_ascii_digit())
    {
        return Findings::new();
    }
    vec![form_rule(
        C_RULE,
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

pub fn header_name(name: &str) -> Findings {
    if !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        return Findings::new();
    }
    vec![form_rule(HEADER_RULE, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

pub fn port_name(name: &str) -> Findings {
    let mut findings: Findings = too_long(name, 15, "characters").into_iter().collect();
    let mut check = |fine: bool, rule: &str| {
        if !fine {
            findings.push(rule.to_owned());
        }
    };
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    check(
        !name.is_empty() && name.bytes().all(allowed),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    check(
        name.bytes().any(|byte| byte.is_ascii_lowercase()),
        "must contain at least one letter (a-z)",
    );
    check(!name.contains("--"), "must not contain consecutive hyphens");
    check(
        !name.starts_with('-') && !name.ends_with('-'),
        "must not begin or end with a hyphen",
    );
    findings
}

pub fn port_number(port: i64) -> Findings {
    in_range(port, 1, 65535)
}

pub fn in_range(value: i64, least: i64, most: i64) -> Findings {
    if (least..=most).contains(&value) {
        return Findings::new();
    }
    vec![format!("must be between {least} and {most}, inclusive")]
}

/// A name that is part of a URL.
pub fn path_segment(name: &str) -> Findings {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let contains = ["/", "%"].into_iter().filter(|part| name.contains(part));
    contains
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// A name of a finalizer: one of Kubernetes' own, or with a domain.
pub fn finalizer(name: &str) -> Findings {
    if name.contains('/') || matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        return Findings::new();
    }
    vec!["name is neither a standard finalizer name nor is it fully qualified".to_owned()]
}

/// What a generated name begins with may end in a dash.
pub fn as_prefix(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut masked: String = rest.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => prefix.to_owned(),
    }
}

// Without the limits of length, which are findings of their own.
fn is_dns_label(name: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_made_of(name, outer, b"-")
}

fn is_dns_subdomain(name: &str) -> bool {
    name.split('.').all(is_dns_label)
}

fn is_name_part(name: &str) -> bool {
    is_made_of(name, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

/// Begins and ends with an outer character, and has only those and inner ones.
fn is_made_of(name: &str, outer: impl Fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|byte| outer(*byte))
        && bytes.last().is_some_and(|byte| outer(*byte))
        && bytes
            .iter()
            .all(|byte| outer(*byte) || inner.contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_in_upstreams_words() {
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        assert_eq!(dns_label("A_b"), [label]);
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns_label(&"a".repeat(64)),
            ["must be no more than 63 characters"]
        );
        assert_eq!(dns_label(&format!("{}-", "a".repeat(64))).len(), 2);
        assert!(dns_label("a-1").is_empty());
        assert_eq!(
            dns_subdomain(&"a".repeat(300)),
            ["must be no more than 253 characters"]
        );
        assert!(dns_subdomain("a.b-c.1").is_empty());
        assert_eq!(dns_subdomain("a..b").len(), 1);
        assert_eq!(dns_search("a b").len(), 1);
        assert!(dns_search("_ldap._tcp.a_b").is_empty());
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name("").len(), 2);
        assert!(qualified_name("a/b/c")[0].starts_with("a valid label key must consist"));
        assert!(qualified_name("example.com/A_b").is_empty());
        assert_eq!(
            label_value(&"a".repeat(64)),
            ["must be no more than 63 bytes"]
        );
        assert_eq!(label_value("a b").len(), 1);
        assert!(label_value("").is_empty());
        assert_eq!(config_key("..a"), ["must not start with '..'"]);
        assert_eq!(
            port_name("A"),
            [
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)"
            ]
        );
        assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
        assert_eq!(path_segment("a/b"), ["may not contain '/'"]);
        assert_eq!(as_prefix("web-"), "wea");
        assert_eq!(env_name("a=b"), [ENV_RULE]);
        assert!(env_name("a b").is_empty());
        assert_eq!(c_identifier("1a").len(), 1);
    }
}
