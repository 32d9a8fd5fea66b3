//! Whether a pod has to show a registry that it may use an image, though the
//! machine has it: `imagePullCredentialsVerificationPolicy`.

use super::format::{PullCredentials, PulledRecord, PulledSecret, PulledServiceAccount};
use crate::reference;

/// So many secrets of one image are recorded in passing; those beyond have to
/// pull.
const MOST_LEARNED: usize = 100;

/// For which images a pod has to show its credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    NeverVerify,
    /// All but those that were not pulled here.
    NeverVerifyPreloadedImages,
    /// All but those that are listed.
    NeverVerifyAllowlistedImages(Allowlist),
    AlwaysVerify,
}

/// Names without tag and digest, and beginnings of names that end in a slash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist {
    names: Vec<String>,
    prefixes: Vec<String>,
}

impl Allowlist {
    /// The patterns as configured: `r.io/app` or `r.io/team/*`. What the
    /// configuration's validation lets pass and is neither, is for no image.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let mut list = Self::default();
        for pattern in patterns {
            match pattern.strip_suffix('*') {
                Some(prefix) if prefix.ends_with('/') => list.prefixes.push(prefix.to_owned()),
                _ => list.names.push(pattern.to_owned()),
            }
        }
        list
    }

    fn has(&self, image: &str) -> bool {
        let name = reference::without_tag(image).unwrap_or(image);
        self.names.iter().any(|it| it == name)
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

impl Verification {
    /// Whether a pod has to show anything for an image of which this is known.
    pub(crate) fn is_needed(&self, image: &str, known: &Known) -> bool {
        match self {
            Self::NeverVerify => false,
            // Not what was put on the machine by somebody else.
            Self::NeverVerifyPreloadedImages => *known != Known::Nothing,
            Self::NeverVerifyAllowlistedImages(list) => !list.has(image),
            Self::AlwaysVerify => true,
        }
    }
}

/// What is known of an image that is on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// It was not pulled here.
    Nothing,
    /// A pull was begun, and its end is not recorded.
    Intended,
    Pulled(PulledRecord),
}

/// Whether the pod may use what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Use,
    /// It may, and this secret should be recorded: it is as good as one that is.
    UseAndLearn(PulledSecret),
    PullAgain,
}

/// What a pod can show for an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub secrets: Vec<PulledSecret>,
    /// Its service account, if a credential provider plugin knows it.
    pub account: Option<PulledServiceAccount>,
}

/// What can be said before a pod has shown anything. To look for what it has takes its
/// time, and what cannot be read is no hindrance where none is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement<'a> {
    Known(Verdict),
    /// It has to show one of these.
    Ask(&'a PullCredentials),
}

/// Judges it for `image` as the pod names it.
pub fn judge<'a>(verification: &Verification, image: &str, known: &'a Known) -> Judgement<'a> {
    if !verification.is_needed(image, known) {
        return Judgement::Known(Verdict::Use);
    }
    let again = Judgement::Known(Verdict::PullAgain);
    let Known::Pulled(record) = known else {
        return again;
    };
    let name = reference::without_tag(image).ok();
    match name.and_then(|name| record.credentials.get(name)) {
        None => again,
        Some(held) if held.node_pods_accessible => Judgement::Known(Verdict::Use),
        Some(held) if held.is_empty() => again,
        Some(held) => Judgement::Ask(held),
    }
}

/// A login that was good is good in any secret; and a secret that was good is
/// good with a new login. An account that was good is good.
pub fn compare(held: &PullCredentials, shown: Shown) -> Verdict {
    let room = held.kubernetes_secrets.len() < MOST_LEARNED;
    let accounts = &held.kubernetes_service_accounts;
    let has_account = shown.account.is_some_and(|it| accounts.contains(&it));
    for secret in shown.secrets {
        for known in &held.kubernetes_secrets {
            let same_login = !known.credential_hash.is_empty()
                && known.credential_hash == secret.credential_hash;
            match (same_login, known.is_same_secret(&secret)) {
                (true, false) | (false, true) if room => return Verdict::UseAndLearn(secret),
                (true, _) => return Verdict::Use,
                (false, _) => {}
            }
        }
    }
    if has_account {
        Verdict::Use
    } else {
        Verdict::PullAgain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, hash: &str) -> PulledSecret {
        PulledSecret {
            uid: format!("uid-{name}"),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            credential_hash: hash.to_owned(),
        }
    }

    fn pulled(credentials: PullCredentials) -> Known {
        let mut record = PulledRecord::default();
        record.merge("r.io/app", credentials);
        Known::Pulled(record)
    }

    fn verdict(verification: &Verification, known: &Known, shown: &[PulledSecret]) -> Verdict {
        let shown = Shown {
            secrets: shown.to_vec(),
            account: None,
        };
        match judge(verification, "r.io/app:1", known) {
            Judgement::Known(verdict) => verdict,
            Judgement::Ask(held) => compare(held, shown),
        }
    }

    #[test]
    fn the_policy_says_whose_images_are_looked_at() {
        let listed =
            |pattern: &str| Verification::NeverVerifyAllowlistedImages(Allowlist::new([pattern]));
        let here = pulled(PullCredentials::of_secret(secret("a", "1")));
        let (used, again) = (Verdict::Use, Verdict::PullAgain);
        let preloaded = Verification::NeverVerifyPreloadedImages;
        for (verification, known, expected) in [
            (Verification::NeverVerify, &here, &used),
            (preloaded.clone(), &Known::Nothing, &used),
            (preloaded.clone(), &Known::Intended, &again),
            (preloaded, &here, &again),
            (listed("r.io/app"), &here, &used),
            (listed("r.io/*"), &here, &used),
            (listed("r.io/ap*"), &here, &again),
            (listed("r.io/a"), &here, &again),
            (listed("q.io/*"), &Known::Nothing, &again),
            (Verification::AlwaysVerify, &Known::Nothing, &again),
            (Verification::AlwaysVerify, &here, &again),
        ] {
            assert_eq!(
                verdict(&verification, known, &[]),
                *expected,
                "{verification:?}, {known:?}"
            );
        }
    }

    #[test]
    fn what_a_pod_shows_is_compared_with_what_the_image_was_pulled_with() {
        let learned = |name: &str, hash: &str| Verdict::UseAndLearn(secret(name, hash));
        for (what, held, shown, expected) in [
            ("the same", secret("a", "1"), secret("a", "1"), Verdict::Use),
            (
                "same login, other secret",
                secret("a", "1"),
                secret("b", "1"),
                learned("b", "1"),
            ),
            (
                "same secret, new login",
                secret("a", "1"),
                secret("a", "2"),
                learned("a", "2"),
            ),
            (
                "neither",
                secret("a", "1"),
                secret("b", "2"),
                Verdict::PullAgain,
            ),
            (
                "no hash is no match",
                secret("a", ""),
                secret("b", ""),
                Verdict::PullAgain,
            ),
        ] {
            let known = pulled(PullCredentials::of_secret(held));
            let verdict = verdict(&Verification::AlwaysVerify, &known, &[shown]);
            assert_eq!(verdict, expected, "{what}");
        }
    }

    #[test]
    fn an_image_that_everybody_may_pull_everybody_may_use() {
        let known = pulled(PullCredentials::everybody());
        assert_eq!(
            verdict(&Verification::AlwaysVerify, &known, &[]),
            Verdict::Use
        );
        let elsewhere = judge(&Verification::AlwaysVerify, "q.io/app", &known);
        let again = Judgement::Known(Verdict::PullAgain);
        assert_eq!(elsewhere, again, "under another name");
    }

    #[test]
    fn pods_are_asked_what_they_have_only_where_it_matters() {
        let verification = Verification::AlwaysVerify;
        let everybody = pulled(PullCredentials::everybody());
        let judged = judge(&verification, "r.io/app", &everybody);
        assert_eq!(judged, Judgement::Known(Verdict::Use));
        let nobody = pulled(PullCredentials::default());
        let judged = judge(&verification, "r.io/app", &nobody);
        assert_eq!(judged, Judgement::Known(Verdict::PullAgain));
        for held in [
            PullCredentials::of_secret(secret("a", "1")),
            PullCredentials::of_account(account("a")),
        ] {
            let known = pulled(held.clone());
            let judged = judge(&verification, "r.io/app", &known);
            assert_eq!(judged, Judgement::Ask(&held));
        }
    }

    fn account(name: &str) -> PulledServiceAccount {
        PulledServiceAccount {
            uid: format!("uid-{name}"),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn an_account_that_was_good_is_good_and_another_is_not() {
        let held = PullCredentials::of_account(account("a"));
        let of = |account| {
            let secrets = vec![secret("a", "1")];
            compare(&held, Shown { secrets, account })
        };
        assert_eq!(of(Some(account("a"))), Verdict::Use);
        assert_eq!(of(Some(account("b"))), Verdict::PullAgain);
        let anew = PulledServiceAccount {
            uid: "another".to_owned(),
            ..account("a")
        };
        assert_eq!(of(Some(anew)), Verdict::PullAgain);
        assert_eq!(of(None), Verdict::PullAgain);
    }

    #[test]
    fn a_record_does_not_grow_without_end() {
        let many = (0..MOST_LEARNED).map(|it| secret(&it.to_string(), &it.to_string()));
        let known = pulled(PullCredentials {
            kubernetes_secrets: many.collect(),
            ..PullCredentials::default()
        });
        let of = |shown: PulledSecret| verdict(&Verification::AlwaysVerify, &known, &[shown]);
        assert_eq!(of(secret("new", "7")), Verdict::Use);
        assert_eq!(of(secret("7", "new")), Verdict::PullAgain);
    }
}
