//! Where those who run pods tell how these stand, and hear what was found.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use types::PodUid;

use crate::course::Verdict;
use crate::view::View;

/// What was found of the containers of one pod.
pub type Findings = Vec<Finding>;

/// What was found of one container. `None`: nothing, or it has no such probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub id: Arc<str>,
    pub startup: Option<Verdict>,
    pub readiness: Option<Verdict>,
    pub liveness: Option<Verdict>,
}

/// The side of those who run pods.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    desk: Arc<Desk>,
}

/// A mutex: entries are exchanged under it, and nobody waits while holding it.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    news: Mutex<BTreeMap<PodUid, News>>,
    bell: Notify,
}

/// The newest of a pod.
#[derive(Debug)]
pub(crate) enum News {
    View {
        view: View,
        /// Who is not ready is to be asked at once.
        again: bool,
        /// Where to answer to, with the first word of a pod.
        answers: Option<watch::Sender<Findings>>,
    },
    Gone,
}

/// One pod's place at the desk. Given up, the pod is asked nothing more.
#[derive(Debug)]
pub struct Place {
    uid: PodUid,
    desk: Arc<Desk>,
    /// From the first word on: most pods have no probes.
    findings: Option<watch::Receiver<Findings>>,
}

impl Probes {
    pub fn place(&self, uid: &PodUid) -> Place {
        Place {
            uid: uid.clone(),
            desk: Arc::clone(&self.desk),
            findings: None,
        }
    }

    pub(crate) fn desk(&self) -> Arc<Desk> {
        Arc::clone(&self.desk)
    }
}

impl Place {
    /// Whether anything was told of the pod.
    pub fn is_taken(&self) -> bool {
        self.findings.is_some()
    }

    /// How the pod stands now. `again`: who is not ready is to be asked at once.
    pub fn tell(&mut self, view: View, again: bool) {
        let mut answers = None;
        if self.findings.is_none() {
            let (sender, receiver) = watch::channel(Findings::new());
            answers = Some(sender);
            self.findings = Some(receiver);
        }
        self.desk.tell(&self.uid, view, again, answers);
    }

    /// Nothing of the pod runs any more.
    pub fn give_up(&mut self) {
        if self.findings.take().is_some() {
            self.desk.lock().insert(self.uid.clone(), News::Gone);
            self.desk.bell.notify_one();
        }
    }

    /// What was found until now.
    pub fn findings(&mut self) -> Findings {
        let findings = self.findings.as_mut();
        findings.map_or_else(Findings::new, |findings| {
            findings.borrow_and_update().clone()
        })
    }

    /// The same, for somebody who looks on.
    pub fn follow(&self) -> Option<watch::Receiver<Findings>> {
        self.findings.clone()
    }

    /// Something else was found since.
    pub async fn changed(&mut self) {
        if let Some(findings) = &mut self.findings
            && findings.changed().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Desk {
    fn tell(
        &self,
        uid: &PodUid,
        view: View,
        again: bool,
        answers: Option<watch::Sender<Findings>>,
    ) {
        let mut news = self.lock();
        // What was not read yet is not lost by what comes after it.
        let (again, answers) = match news.remove(uid) {
            Some(News::View {
                again: before,
                answers: to,
                ..
            }) => (again || before, answers.or(to)),
            Some(News::Gone) | None => (again, answers),
        };
        let told = News::View {
            view,
            again,
            answers,
        };
        news.insert(uid.clone(), told);
        drop(news);
        self.bell.notify_one();
    }

    /// All that was told since the last time.
    pub(crate) fn take(&self) -> BTreeMap<PodUid, News> {
        std::mem::take(&mut *self.lock())
    }

    /// There is something to take.
    pub(crate) async fn rings(&self) {
        self.bell.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
