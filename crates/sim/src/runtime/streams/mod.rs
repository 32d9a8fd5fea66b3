//! Streams into containers and into the network of pods, as a runtime's streaming server
//! has them: a call names a place, and whoever goes there over HTTP gets SPDY/3.1 streams.
//!
//! To the pods' own node that server is in memory ([`driven`]): there is no port, and no
//! task but the one that reads from it. To others it is on a port ([`port`]).

mod command;
mod driven;
mod forward;
mod http;
mod place;
mod port;
mod talk;
mod verdict;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use seams::net::Connection;

use super::Core;
use super::moment::Moment;
use super::refusal::Refusal;
use super::state::State;

pub(super) use place::{Places, Wanted};
pub use port::StreamsPort;

/// Where a runtime serves streams that has no port for them: on its machine nobody else
/// can have it, as it was there first.
pub(super) const IN_MEMORY: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10010);

impl Core {
    /// A URL at which that is to be had, once, and soon.
    pub(super) fn place(
        &self,
        state: &mut State,
        wanted: Wanted,
        now: Moment,
    ) -> Result<String, Refusal> {
        let path = wanted.path();
        let token = state.keep_place(wanted, now)?;
        let at = self.streams_at.get().unwrap_or(&IN_MEMORY);
        Ok(format!("http://{at}/{path}/{token}"))
    }
}

/// A connection to the server in memory.
pub(super) fn connect(core: &Arc<Core>) -> Box<dyn Connection> {
    let core = Arc::clone(core);
    Box::new(driven::Driven::new(|connection| {
        http::serve(core, connection)
    }))
}
