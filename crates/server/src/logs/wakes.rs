//! Who follows which logs, and the one task that listens to the machine for all of
//! them. While nobody follows, there is nothing to listen to.
//!
//! A log is told of once for each time that it is listened to: however much is
//! written, a follower hears of it when it has read what was there before.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seams::SharedHost;
use seams::host::Growth;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The followers of a node's logs.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    // Held for a lookup or a call to the kernel, never over a wait.
    followed: Mutex<Followed>,
    /// Somebody came, went, or wants to hear more.
    asked: Notify,
}

#[derive(Debug, Default)]
struct Followed {
    by_path: HashMap<PathBuf, Log>,
    /// What is to be looked at by who listens.
    asked: Vec<PathBuf>,
}

#[derive(Debug)]
struct Log {
    followers: usize,
    ear: Ear,
    changed: watch::Sender<()>,
}

/// Whether the machine will tell of the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ear {
    Shut,
    Asked,
    Open,
}

impl Wakes {
    pub(super) fn follow(self: &Arc<Self>, path: &Path) -> Follower {
        let mut followed = self.followed();
        let log = followed.by_path.entry(path.to_owned());
        let log = log.or_insert_with(|| Log {
            followers: 0,
            ear: Ear::Shut,
            changed: watch::Sender::new(()),
        });
        log.followers += 1;
        let changed = log.changed.subscribe();
        drop(followed);
        Follower {
            wakes: Arc::clone(self),
            path: path.to_owned(),
            changed,
        }
    }

    /// Listens to the machine until told to end. Who follows without it looks from time
    /// to time.
    pub(super) async fn listen(&self, host: &SharedHost, shutdown: &CancellationToken) {
        let mut growth: Option<Box<dyn Growth>> = None;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.asked.notified() => self.heed(&mut growth, host),
                grown = grown(&mut growth) => self.tell(&grown),
            }
        }
    }

    fn heed(&self, growth: &mut Option<Box<dyn Growth>>, host: &SharedHost) {
        let mut followed = self.followed();
        for path in std::mem::take(&mut followed.asked) {
            match followed.by_path.get_mut(&path) {
                Some(log) if log.ear == Ear::Asked => {
                    let growth = growth.get_or_insert_with(|| host.changes());
                    growth.watch(&path);
                    log.ear = Ear::Open;
                    // It may have been written to before: one more look.
                    log.changed.send_replace(());
                }
                Some(_) => {}
                None => {
                    if let Some(growth) = growth {
                        growth.forget(&path);
                    }
                }
            }
        }
        if followed.by_path.is_empty() {
            *growth = None;
        }
    }

    fn tell(&self, grown: &[PathBuf]) {
        let mut followed = self.followed();
        for path in grown {
            if let Some(log) = followed.by_path.get_mut(path) {
                log.ear = Ear::Shut;
                log.changed.send_replace(());
            }
        }
    }

    /// `anew`: what it listens to now is not the file of that name any more.
    fn ask(&self, path: &Path, anew: bool) {
        let mut followed = self.followed();
        let Some(log) = followed.by_path.get_mut(path) else {
            return;
        };
        if log.ear == Ear::Shut || (anew && log.ear == Ear::Open) {
            log.ear = Ear::Asked;
            followed.asked.push(path.to_owned());
            self.asked.notify_one();
        }
    }

    fn leave(&self, path: &Path) {
        let mut followed = self.followed();
        let Some(log) = followed.by_path.get_mut(path) else {
            return;
        };
        log.followers -= 1;
        if log.followers == 0 {
            followed.by_path.remove(path);
            followed.asked.push(path.to_owned());
            self.asked.notify_one();
        }
    }

    #[cfg(test)]
    pub(super) fn is_followed(&self) -> bool {
        !self.followed().by_path.is_empty()
    }

    fn followed(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn grown(growth: &mut Option<Box<dyn Growth>>) -> Vec<PathBuf> {
    match growth {
        Some(growth) => growth.grown().await,
        None => std::future::pending().await,
    }
}

/// Somebody who follows a log; no more when dropped.
#[derive(Debug)]
pub(super) struct Follower {
    wakes: Arc<Wakes>,
    path: PathBuf,
    changed: watch::Receiver<()>,
}

impl Follower {
    /// What is written from now on is to be told.
    pub(super) fn seen(&mut self) {
        self.changed.mark_unchanged();
    }

    /// Until something was written since it was [`seen`](Self::seen), or may have been.
    pub(super) async fn changed(&mut self) {
        self.wakes.ask(&self.path, false);
        if self.changed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// There is another file of that name.
    pub(super) fn renewed(&self) {
        self.wakes.ask(&self.path, true);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.wakes.leave(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;
    use std::time::Duration;

    use testkit::host::LinuxHost;

    use super::*;

    fn append(path: &Path) {
        let file = OpenOptions::new().append(true).open(path);
        file.unwrap().write_all(b"line\n").unwrap();
    }

    async fn soon(wait: impl Future<Output = ()>) -> bool {
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, wait).await.is_ok()
    }

    async fn never(wait: impl Future<Output = ()>) -> bool {
        let limit = Duration::from_millis(100);
        tokio::time::timeout(limit, wait).await.is_err()
    }

    #[tokio::test]
    async fn all_who_follow_are_woken_by_each_change_and_leave_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("0.log");
        fs::write(&path, "").unwrap();
        let host: SharedHost = Arc::new(LinuxHost::new("/".into()));
        let (wakes, shutdown) = (Arc::new(Wakes::default()), CancellationToken::new());
        let test = async {
            let mut followers = [wakes.follow(&path), wakes.follow(&path)];
            for _ in 0..3 {
                followers[0].seen();
                // From now on it is listened to.
                assert!(soon(followers[0].changed()).await, "one more look");
                for follower in &mut followers {
                    follower.seen();
                }
                append(&path);
                for follower in &mut followers {
                    assert!(soon(follower.changed()).await);
                }
            }
            let [mut one, other] = followers;
            one.seen();
            assert!(soon(one.changed()).await, "one more look");
            one.seen();
            assert!(never(one.changed()).await, "nothing was written");
            fs::rename(&path, place.path().join("0.log.1")).unwrap();
            assert!(soon(one.changed()).await, "it got another name");
            drop((one, other));
            assert!(!wakes.is_followed());
            shutdown.cancel();
        };
        tokio::join!(wakes.listen(&host, &shutdown), test);
    }
}
