//! Who waits to be asked, and who is being asked: one lane for each way to do it.
//!
//! Commands are in the hands of the runtime, and one that hangs keeps all that it runs: they
//! take no turns from those who are asked over the network.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::Probe as ApiProbe;
use tokio::task::JoinError;
use tokio_util::task::JoinMap;
use types::PodUid;

use super::Examined;
use super::chart::{Number, Probe};

/// So many are asked at once in one way: more than a node usually has to ask in the same
/// moment, and few enough to be held in memory.
pub(super) const AT_ONCE: usize = 256;

/// Questions whose times are so near to each other are asked together: each time that the
/// agent is woken costs more than a question.
const TOGETHER: Duration = Duration::from_millis(20);

/// One probe, and its pod.
pub(super) type Which = (PodUid, Number);

/// What came of a question, if it came to an end.
pub(super) type Ended = (Which, Result<Examined, JoinError>);

/// In which way a container is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Command,
    Network,
}

impl Way {
    pub(super) const ALL: [Self; 2] = [Self::Command, Self::Network];

    pub(super) fn of(probe: &ApiProbe) -> Self {
        match probe.exec {
            Some(_) => Self::Command,
            None => Self::Network,
        }
    }
}

/// Those who are asked in one way.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Probes that wait for their time.
    due: BTreeSet<(Duration, PodUid, Number)>,
    under_way: JoinMap<Which, Examined>,
}

#[derive(Debug, Default)]
pub(super) struct Lanes {
    commands: Lane,
    network: Lane,
}

impl Lanes {
    pub(super) fn of(&mut self, way: Way) -> &mut Lane {
        match way {
            Way::Command => &mut self.commands,
            Way::Network => &mut self.network,
        }
    }

    /// When the next probes are asked; `None`: not before something else happens.
    pub(super) fn next_round(&self) -> Option<Duration> {
        let lanes = [&self.commands, &self.network];
        lanes.into_iter().filter_map(Lane::next_round).min()
    }

    /// The next that comes to an end; never, as long as nobody is asked.
    pub(super) async fn ended(&mut self) -> Ended {
        tokio::select! {
            Some(ended) = self.commands.under_way.join_next() => ended,
            Some(ended) = self.network.under_way.join_next() => ended,
            else => std::future::pending().await,
        }
    }

    /// One that has come to an end by now.
    pub(super) fn ended_by_now(&mut self) -> Option<Ended> {
        let mut lanes = [&mut self.commands, &mut self.network].into_iter();
        lanes.find_map(|lane| lane.under_way.join_next().now_or_never().flatten())
    }

    /// Moves a probe in the list of those that wait.
    pub(super) fn set_due(
        &mut self,
        uid: &PodUid,
        probe: Option<&mut Probe>,
        due: Option<Duration>,
    ) {
        let Some(probe) = probe.filter(|probe| probe.due != due) else {
            return;
        };
        let list = &mut self.of(probe.way).due;
        if let Some(before) = probe.due {
            list.remove(&(before, uid.clone(), probe.number));
        }
        if let Some(due) = due {
            list.insert((due, uid.clone(), probe.number));
        }
        probe.due = due;
    }

    /// It is asked nothing more, and what it was asked is not heard any more.
    pub(super) fn let_go(&mut self, uid: &PodUid, probe: &Probe) {
        let lane = self.of(probe.way);
        if let Some(due) = probe.due {
            lane.due.remove(&(due, uid.clone(), probe.number));
        }
        lane.under_way.abort(&(uid.clone(), probe.number));
    }
}

impl Lane {
    fn next_round(&self) -> Option<Duration> {
        let (due, ..) = self.due.first().filter(|_| self.has_room())?;
        let rounds = due.as_nanos().div_ceil(TOGETHER.as_nanos());
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        Some(TOGETHER.saturating_mul(rounds).max(*due))
    }

    fn has_room(&self) -> bool {
        self.under_way.len() < AT_ONCE
    }

    /// Takes the first whose time has come, and that time, if there is room for it.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<(Duration, PodUid, Number)> {
        let is_due = self.due.first().is_some_and(|(due, ..)| *due <= now);
        (is_due && self.has_room()).then(|| self.due.pop_first())?
    }

    pub(super) fn ask(
        &mut self,
        which: Which,
        asking: impl Future<Output = Examined> + Send + 'static,
    ) {
        self.under_way.spawn(which, asking);
    }
}
