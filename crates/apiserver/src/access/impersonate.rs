//! Users who act as others (`kubectl --as`): allowed to whoever may impersonate every
//! part of the other.

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::authorize::Authorizer;
use super::user::{
    ANONYMOUS, AUTHENTICATED, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS, UNAUTHENTICATED, User,
};
use crate::failure::Failure;
use crate::front::Attributes;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The user as whom a request is made: the one who asks, unless its headers name another.
pub fn acting_user(
    user: User,
    headers: &HeaderMap,
    authorizer: &Authorizer,
) -> Result<User, Failure> {
    let Some(other) = named(headers)? else {
        return Ok(user);
    };
    for asked in asked_for(&other) {
        authorizer.check(&user, &asked)?;
    }
    Ok(complete(other))
}

/// Whom the headers name; `None` only where there are none of these headers: who asks for less
/// than its own rights is never given them.
fn named(headers: &HeaderMap) -> Result<Option<User>, Failure> {
    if !headers.keys().any(|name| names_somebody(name.as_str())) {
        return Ok(None);
    }
    let first = |name: &str| Ok(texts(headers, name)?.into_iter().next().unwrap_or_default());
    let mut other = User {
        name: first(USER)?,
        uid: first(UID)?,
        groups: texts(headers, GROUP)?,
        ..User::default()
    };
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            other.extra.insert(key, texts(headers, name.as_str())?);
        }
    }
    if !other.name.is_empty() {
        return Ok(Some(other));
    }
    let message = format!(
        "requested [{:?} {:?} {:?}] without impersonating a user",
        other.groups, other.extra, other.uid
    );
    Err(Failure::internal(message))
}

fn names_somebody(header: &str) -> bool {
    [USER, GROUP, UID].contains(&header) || header.starts_with(EXTRA)
}

/// The values of a header. They are UTF-8, as clients send names that are not English: http's own
/// texts are ASCII only.
fn texts(headers: &HeaderMap, name: &str) -> Result<Vec<String>, Failure> {
    let unreadable = |_| {
        Failure::bad_request(format!(
            "the header {name} is not UTF-8: send the name that is to be impersonated as UTF-8"
        ))
    };
    let values = headers.get_all(name).iter();
    values
        .map(|value| String::from_utf8(value.as_bytes().to_vec()).map_err(unreadable))
        .collect()
}

/// What has to be allowed.
fn asked_for(other: &User) -> Vec<Attributes> {
    let asked =
        |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| Attributes {
            verb: "impersonate".to_owned(),
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
    let authentication = "authentication.k8s.io";
    let mut all = vec![match service_account(&other.name) {
        Some((namespace, name)) => asked("", "serviceaccounts", "", namespace, name),
        None => asked("", "users", "", "", &other.name),
    }];
    all.extend(
        other
            .groups
            .iter()
            .map(|group| asked("", "groups", "", "", group)),
    );
    if !other.uid.is_empty() {
        all.push(asked(authentication, "uids", "", "", &other.uid));
    }
    for (key, values) in &other.extra {
        all.extend(
            values
                .iter()
                .map(|value| asked(authentication, "userextras", key, "", value)),
        );
    }
    all
}

/// With the groups that such a user has when it comes by itself.
fn complete(mut other: User) -> User {
    if let Some((namespace, _)) = service_account(&other.name)
        && other.groups.is_empty()
    {
        other.groups = vec![
            SERVICE_ACCOUNTS.to_owned(),
            format!("{SERVICE_ACCOUNTS}:{namespace}"),
        ];
    }
    let everyone = if other.name == ANONYMOUS {
        UNAUTHENTICATED
    } else {
        AUTHENTICATED
    };
    if !other.is_in(AUTHENTICATED) && !other.is_in(UNAUTHENTICATED) {
        other.groups.push(everyone.to_owned());
    }
    other
}

fn service_account(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn acting(
        groups: &[&str],
        headers: &[(&'static str, impl AsRef<[u8]>)],
    ) -> Result<User, String> {
        let groups = groups.iter().map(|&group| group.to_owned());
        let user = User::authenticated("asker", groups.collect());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value.as_ref()).unwrap());
        }
        acting_user(user, &map, &Authorizer::default()).map_err(|failure| failure.message)
    }

    #[test]
    fn whom_a_header_names_is_never_passed_over() {
        let named = |header: &'static str, value: &[u8]| {
            let headers = [(USER, &b"jane"[..]), (header, value)];
            let skipped = usize::from(header == USER);
            let headers = &headers[skipped..];
            acting(&["system:masters"], headers)
        };
        let name = "müller".as_bytes();
        assert_eq!(named(USER, name).unwrap().name, "müller");
        assert_eq!(named(UID, name).unwrap().uid, "müller");
        assert_eq!(named(GROUP, name).unwrap().groups[0], "müller");
        let extra = "impersonate-extra-team";
        assert_eq!(named(extra, name).unwrap().extra["team"], ["müller"]);
        for header in [USER, UID, GROUP, extra] {
            let words = named(header, b"m\xfcller").unwrap_err();
            assert!(words.contains(&format!("{header} is not UTF-8")), "{words}");
        }
        // One who may do little does not come by without being asked.
        assert!(acting(&["dev"], &[(USER, name)]).is_err());
        for header in [USER, UID] {
            assert!(acting(&["dev"], &[(header, b"")]).is_err(), "{header}");
        }
    }

    #[test]
    fn an_admin_acts_as_others_with_the_groups_that_those_have() {
        let admin = &["system:masters"];
        assert_eq!(acting(admin, &[] as &[(&str, &str)]).unwrap().name, "asker");
        let jane = acting(
            admin,
            &[
                (USER, "jane"),
                (GROUP, "dev"),
                (GROUP, "ops"),
                (UID, "1"),
                ("impersonate-extra-a%2fb", "x"),
            ],
        )
        .unwrap();
        assert_eq!(jane.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!((jane.name.as_str(), jane.uid.as_str()), ("jane", "1"));
        assert_eq!(jane.extra["a/b"], ["x"]);
        let account = acting(admin, &[(USER, "system:serviceaccount:team:a")]).unwrap();
        assert_eq!(
            account.groups,
            [
                "system:serviceaccounts",
                "system:serviceaccounts:team",
                "system:authenticated"
            ]
        );
        let nobody = acting(admin, &[(USER, "system:anonymous")]).unwrap();
        assert_eq!(nobody.groups, ["system:unauthenticated"]);
    }

    #[test]
    fn others_may_not_and_half_a_user_is_none() {
        assert_eq!(
            acting(&["dev"], &[(USER, "jane")]).unwrap_err(),
            r#"users "jane" is forbidden: User "asker" cannot impersonate resource "users" in API group "" at the cluster scope"#
        );
        let message = acting(&["dev"], &[(USER, "system:serviceaccount:team:a")]).unwrap_err();
        assert!(
            message
                .contains(r#"resource "serviceaccounts" in API group "" in the namespace "team""#),
            "{message}"
        );
        assert!(acting(&["system:masters"], &[(GROUP, "dev")]).is_err());
    }
}
