//! The ports of a pod: over one connection, as many conversations with its programs as a
//! client wants, each a pair of streams.

use std::collections::BTreeMap;
use std::pin::pin;

use seams::cri::PortForwardRequest;
use spdy::{Event, Headers};
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::Core;
use super::super::net::listener_in;
use super::super::sandbox::Sandbox;
use super::talk::Talk;
use crate::net::Conversation;

/// Of one client, at once.
const MOST: usize = 1000;

/// What a stream is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Error,
}

/// A stream as its headers tell it.
#[derive(Debug, PartialEq, Eq)]
struct Half {
    kind: Kind,
    port: u16,
    request: String,
}

impl Half {
    /// `None`: no client means that.
    fn of(stream: u32, headers: &Headers) -> Option<Self> {
        let port = headers.get("port")?.parse().ok().filter(|port| *port > 0)?;
        let kind = match headers.get("streamtype")? {
            "data" => Kind::Data,
            "error" => Kind::Error,
            _ => return None,
        };
        let request = match (headers.get("requestid"), kind) {
            (Some(request), _) => request.to_owned(),
            // Old clients do not say: the stream of a pair for errors comes first.
            (None, Kind::Error) => stream.to_string(),
            (None, Kind::Data) => stream.checked_sub(2)?.to_string(),
        };
        Some(Self {
            kind,
            port,
            request,
        })
    }
}

/// A conversation, and the streams over which it goes.
#[derive(Debug)]
struct Pair {
    error: u32,
    conversation: Conversation,
}

/// What goes over one connection.
#[derive(Debug, Default)]
struct Pairs {
    /// The first half of a pair, by its request.
    halves: BTreeMap<String, (Kind, u32)>,
    /// By the number of the stream for data.
    whole: BTreeMap<u32, Pair>,
}

/// Forwards until the client has had enough, or the pod ends.
pub(super) async fn forward<C>(core: &Core, request: &PortForwardRequest, mut talk: Talk<C>)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let sandbox = &*request.pod_sandbox_id;
    let ended = core.until(|state| {
        let ready = state.sandbox(sandbox).is_ok_and(Sandbox::is_ready);
        (!ready).then_some(())
    });
    let mut ended = pin!(ended);
    let mut pairs = Pairs::default();
    loop {
        let event = tokio::select! {
            biased;
            () = &mut ended => break,
            event = talk.next() => event,
        };
        let Some(event) = event else {
            return;
        };
        pairs.hear(core, sandbox, event, &mut talk);
    }
    talk.part(&*core.clock).await;
}

impl Pairs {
    fn hear<C>(&mut self, core: &Core, sandbox: &str, event: Event, talk: &mut Talk<C>)
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        match event {
            Event::Opened {
                stream, headers, ..
            } => {
                let room = self.halves.len() + self.whole.len() < MOST;
                match Half::of(stream, &headers).filter(|_| room) {
                    Some(half) => self.opened(core, sandbox, stream, half, talk),
                    None => talk.reset(stream),
                }
            }
            Event::Data {
                stream,
                piece,
                last,
            } => {
                let Some(pair) = self.whole.get_mut(&stream) else {
                    return;
                };
                pair.conversation.hear(&piece);
                if last {
                    pair.conversation.hear_no_more();
                }
                let (said, over) = pair.conversation.say();
                talk.say(stream, &said);
                if over {
                    talk.finish(stream);
                    talk.finish(pair.error);
                    self.whole.remove(&stream);
                }
            }
            Event::Reset { stream } => {
                self.whole.remove(&stream);
                self.halves.retain(|_, (_, half)| *half != stream);
            }
            Event::Accepted { .. } | Event::Ping { .. } | Event::GoAway => {}
        }
    }

    fn opened<C>(&mut self, core: &Core, sandbox: &str, stream: u32, half: Half, talk: &mut Talk<C>)
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let Half {
            kind,
            port,
            request,
        } = half;
        let (data, error) = match (self.halves.remove(&request), kind) {
            (Some((Kind::Error, error)), Kind::Data) => (stream, error),
            (Some((Kind::Data, data)), Kind::Error) => (data, stream),
            // A second of the same kind takes the place of the first.
            (_, kind) => {
                talk.accept(stream);
                self.halves.insert(request, (kind, stream));
                return;
            }
        };
        talk.accept(stream);
        let manner = {
            let (state, now) = core.look();
            listener_in(&state, sandbox, port, now)
        };
        if let Some(manner) = manner {
            let conversation = Conversation::new(manner);
            self.whole.insert(
                data,
                Pair {
                    error,
                    conversation,
                },
            );
            return;
        }
        let words = format!(
            "error forwarding port {port} to pod {sandbox}, uid : failed to execute portforward \
             in network namespace {namespace:?}: failed to connect to localhost:{port} inside \
             namespace {sandbox:?}, IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused",
            namespace = format!("/var/run/netns/sim-{sandbox}"),
        );
        talk.say(error, words.as_bytes());
        talk.finish(error);
        talk.reset(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_streams_are_told_to_be_a_pair() {
        let half = |kind, port, request: &str| {
            Some(Half {
                kind,
                port,
                request: request.to_owned(),
            })
        };
        let of = |stream, pairs: &[(&str, &str)]| {
            let pair = |name: &str| {
                let found = pairs.iter().find(|(own, _)| *own == name);
                found.map_or(("x", ""), |(_, value)| (name_of(name), *value))
            };
            let headers = [pair("streamtype"), pair("port"), pair("requestid")];
            Half::of(stream, &Headers::from(headers))
        };
        let data = ("streamtype", "data");
        let error = ("streamtype", "error");
        let id = ("requestid", "7");
        assert_eq!(
            of(1, &[data, ("port", "80"), id]),
            half(Kind::Data, 80, "7")
        );
        assert_eq!(of(5, &[error, ("port", "80")]), half(Kind::Error, 80, "5"));
        assert_eq!(of(7, &[data, ("port", "80")]), half(Kind::Data, 80, "5"));
        for port in ["0", "65536", "-1", "x", ""] {
            assert_eq!(of(1, &[data, ("port", port), id]), None, "{port}");
        }
        assert_eq!(of(1, &[("streamtype", "stdin"), ("port", "80"), id]), None);
        assert_eq!(of(1, &[data, id]), None);
    }

    fn name_of(name: &str) -> &'static str {
        match name {
            "streamtype" => "streamtype",
            "port" => "port",
            _ => "requestid",
        }
    }
}
