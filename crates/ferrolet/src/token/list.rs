//! `ferrolet token list`.

use std::time::SystemTime;

use cluster::token::{BrokenToken, Expiry, ListedToken, StoredToken};
use serde::Serialize;

use crate::cluster_access::{self, ClusterArguments};
use crate::kubelet::say;
use crate::output::{Failure, Format, ListFormat, Table, lines, print, rendered_list, rest};

pub(super) fn run(cluster: &ClusterArguments, output: Option<ListFormat>) -> Result<(), Failure> {
    cluster_access::run(cluster, async |access| {
        let tokens = cluster::token::list(&access.client).await?;
        let (listed, broken) = sorted_out(&tokens);
        let shown = match output {
            None => table(&listed, access.now()),
            Some(ListFormat::Json) => rendered_list(Format::Json, &objects(&listed))?,
            Some(ListFormat::Yaml) => rendered_list(Format::Yaml, &objects(&listed))?,
            Some(ListFormat::Name) => {
                lines(tokens.iter().map(|token| format!("secret/{}", token.name)))
            }
        };
        print(&shown)?;
        for (name, why) in broken {
            say(&format!("warning: the Secret {name} is no token: {why}"));
        }
        Ok(())
    })
}

type Broken<'a> = (&'a str, &'a BrokenToken);

fn sorted_out(tokens: &[StoredToken]) -> (Vec<&ListedToken>, Vec<Broken<'_>>) {
    let mut listed = Vec::new();
    let mut broken = Vec::new();
    for token in tokens {
        match &token.content {
            Ok(content) => listed.push(content),
            Err(why) => broken.push((token.name.as_str(), why)),
        }
    }
    (listed, broken)
}

/// As `kubeadm token list` shows them.
fn table(tokens: &[&ListedToken], now: SystemTime) -> String {
    let mut table = Table::new([
        "TOKEN",
        "TTL",
        "EXPIRES",
        "USAGES",
        "DESCRIPTION",
        "EXTRA GROUPS",
    ]);
    for token in tokens {
        let (ttl, expires) = match (token.expiry, token.expiry.left(now)) {
            (Expiry::At(end), Some(left)) if left.is_zero() => {
                ("<expired>".to_owned(), end.to_string())
            }
            (Expiry::At(end), left) => (rest(left.unwrap_or_default()), end.to_string()),
            (Expiry::Never, _) => ("<forever>".to_owned(), "<never>".to_owned()),
        };
        table.add([
            token.token.expose(),
            ttl,
            expires,
            token.usages.join(","),
            token.description.clone(),
            token.groups.join(","),
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    table.to_string()
}

/// kubeadm's form of a token.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    kind: &'a str,
    api_version: &'a str,
    token: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    usages: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
}

fn objects<'a>(tokens: &[&'a ListedToken]) -> Vec<Object<'a>> {
    let object = |token: &&'a ListedToken| Object {
        kind: "BootstrapToken",
        api_version: "output.kubeadm.k8s.io/v1alpha3",
        token: token.token.expose(),
        description: &token.description,
        expires: match token.expiry {
            Expiry::Never => None,
            Expiry::At(end) => Some(end.to_string()),
        },
        usages: &token.usages,
        groups: &token.groups,
    };
    tokens.iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn token(expiry: Expiry) -> ListedToken {
        ListedToken {
            token: "abcdef.0123456789abcdef".parse().unwrap(),
            expiry,
            usages: vec!["authentication".to_owned(), "signing".to_owned()],
            description: String::new(),
            groups: vec!["system:bootstrappers:x".to_owned()],
        }
    }

    #[test]
    fn the_table_reads_like_kubeadms() {
        let end: jiff::Timestamp = "2026-05-02T00:00:00Z".parse().unwrap();
        let now = SystemTime::from(end) - Duration::from_secs(7_300);
        let shown = table(&[&token(Expiry::At(end)), &token(Expiry::Never)], now);
        let expected = "\
TOKEN                     TTL         EXPIRES                USAGES                   DESCRIPTION   EXTRA GROUPS
abcdef.0123456789abcdef   2h          2026-05-02T00:00:00Z   authentication,signing   <none>        system:bootstrappers:x
abcdef.0123456789abcdef   <forever>   <never>                authentication,signing   <none>        system:bootstrappers:x
";
        assert_eq!(shown, expected);
        let later = SystemTime::from(end) + Duration::from_secs(1);
        assert!(table(&[&token(Expiry::At(end))], later).contains("<expired>"));
    }
}
