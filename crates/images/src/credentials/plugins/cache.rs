//! Answers that are kept. Times are the clock's uptime.

use std::collections::BTreeMap;
use std::time::Duration;

use super::protocol::Reach;
use crate::credentials::Login;

/// How often answers that nobody asks for any more are looked for.
const SWEEP: Duration = Duration::from_secs(15 * 60);

/// Whose answer it is: a program that is told of the pod's account may answer each
/// account, or each token, differently.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Asker {
    pub(super) namespace: String,
    pub(super) account: String,
    pub(super) account_uid: String,
    pub(super) annotations: Vec<(String, String)>,
    /// Of the token, where each has answers of its own.
    pub(super) token_hash: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Image(String),
    Registry(String),
    Global,
}

/// The answers of one program.
#[derive(Debug, Default)]
pub(super) struct Cache {
    kept: BTreeMap<(Scope, Asker), Kept>,
    swept: Duration,
}

#[derive(Debug)]
struct Kept {
    logins: Vec<(String, Login)>,
    until: Duration,
}

impl Cache {
    /// The closest that holds for the image.
    pub(super) fn get(
        &mut self,
        image: &str,
        asker: &Asker,
        now: Duration,
    ) -> Option<Vec<(String, Login)>> {
        if now > self.swept + SWEEP {
            self.kept.retain(|_, kept| now <= kept.until);
            self.swept = now;
        }
        let scopes = [Reach::Image, Reach::Registry, Reach::Global];
        let mut found = scopes.iter().filter_map(|reach| {
            let key = (scope(*reach, image), asker.clone());
            self.kept.get(&key).filter(|kept| now <= kept.until)
        });
        found.next().map(|kept| kept.logins.clone())
    }

    pub(super) fn put(
        &mut self,
        image: &str,
        reach: Reach,
        asker: Asker,
        logins: Vec<(String, Login)>,
        until: Duration,
    ) {
        let kept = Kept { logins, until };
        self.kept.insert((scope(reach, image), asker), kept);
    }
}

fn scope(reach: Reach, image: &str) -> Scope {
    match reach {
        Reach::Image => Scope::Image(image.to_owned()),
        Reach::Registry => {
            let registry = image.split('/').next().unwrap_or_default();
            Scope::Registry(registry.to_owned())
        }
        Reach::Global => Scope::Global,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::LoginFields;

    fn logins(name: &str) -> Vec<(String, Login)> {
        vec![(name.to_owned(), Login::new(LoginFields::default()))]
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_holds_for_what_it_says_and_the_closest_counts() {
        let nobody = Asker::default();
        let mut cache = Cache::default();
        let put = |cache: &mut Cache, reach, name: &str| {
            cache.put("r.io/a", reach, Asker::default(), logins(name), seconds(10));
        };
        let get = |cache: &mut Cache, image: &str| {
            let found = cache.get(image, &nobody, seconds(10));
            found.map(|logins| logins[0].0.clone())
        };
        put(&mut cache, Reach::Global, "global");
        assert_eq!(get(&mut cache, "q.io/x").as_deref(), Some("global"));
        put(&mut cache, Reach::Registry, "registry");
        put(&mut cache, Reach::Image, "image");
        assert_eq!(get(&mut cache, "r.io/a").as_deref(), Some("image"));
        assert_eq!(get(&mut cache, "r.io/b").as_deref(), Some("registry"));
        assert_eq!(get(&mut cache, "r.io:5000/b").as_deref(), Some("global"));
        assert_eq!(cache.get("r.io/a", &nobody, seconds(11)), None);
    }

    #[test]
    fn another_account_has_answers_of_its_own() {
        let asker = |uid: &str, token: &str| Asker {
            account_uid: uid.to_owned(),
            token_hash: token.to_owned(),
            ..Asker::default()
        };
        let mut cache = Cache::default();
        let one = asker("1", "");
        cache.put(
            "r.io/a",
            Reach::Global,
            one.clone(),
            logins("x"),
            seconds(9),
        );
        assert!(cache.get("r.io/a", &one, seconds(1)).is_some());
        for other in [asker("2", ""), asker("1", "t"), Asker::default()] {
            assert!(cache.get("r.io/a", &other, seconds(1)).is_none());
        }
    }

    #[test]
    fn what_nobody_asks_for_is_let_go_of() {
        let mut cache = Cache::default();
        for number in 0..100 {
            let image = format!("r.io/{number}");
            cache.put(
                &image,
                Reach::Image,
                Asker::default(),
                Vec::new(),
                seconds(60),
            );
        }
        cache.get("r.io/x", &Asker::default(), SWEEP);
        assert_eq!(cache.kept.len(), 100);
        cache.get("r.io/x", &Asker::default(), SWEEP + seconds(1));
        assert_eq!(cache.kept.len(), 0);
    }
}
