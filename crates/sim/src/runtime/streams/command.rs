//! The streams of a command, and those of a container itself.

use std::pin::pin;
use std::time::Duration;

use seams::cri::{AttachRequest, ExecRequest};
use seams::timeout;
use spdy::Event;
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::Core;
use super::super::calls::running;
use super::super::container::Container;
use super::super::exec::{self, Course};
use super::super::logs;
use super::talk::Talk;
use super::verdict::Verdict;

/// For a client to open its streams.
const OPENING: Duration = Duration::from_secs(30);

/// Of what a container has printed, before the client has its turn again.
const LINES_AT_ONCE: usize = 500;

/// What a terminal takes for the wish to interrupt, and for the end of what is typed.
const INTERRUPT: u8 = 3;
const END_OF_INPUT: u8 = 4;

/// Which streams a client was promised.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the request"
)]
#[derive(Clone, Copy, Debug)]
struct Promised {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

/// Their numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Streams {
    error: Option<u32>,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    resize: Option<u32>,
    tty: bool,
}

impl Promised {
    /// Takes the streams as the client opens them. `None`: it has gone, or opens others.
    async fn opened<C>(self, core: &Core, talk: &mut Talk<C>) -> Option<Streams>
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let opening = async {
            let mut streams = Streams {
                tty: self.tty,
                ..Streams::default()
            };
            while !self.are_kept(&streams) {
                if let Event::Opened {
                    stream, headers, ..
                } = talk.next().await?
                {
                    let place = match headers.get("streamtype")? {
                        "error" => &mut streams.error,
                        "stdin" => &mut streams.stdin,
                        "stdout" => &mut streams.stdout,
                        "stderr" => &mut streams.stderr,
                        "resize" => &mut streams.resize,
                        _ => return None,
                    };
                    *place = Some(stream);
                    talk.accept(stream);
                }
            }
            Some(streams)
        };
        timeout(&*core.clock, OPENING, opening).await.ok()?
    }

    fn are_kept(self, streams: &Streams) -> bool {
        let all = [
            (true, streams.error),
            (self.stdin, streams.stdin),
            (self.stdout, streams.stdout),
            (self.stderr, streams.stderr),
            (self.tty, streams.resize),
        ];
        all.iter().all(|(wanted, there)| !wanted || there.is_some())
    }
}

impl Streams {
    fn print<C>(&self, talk: &mut Talk<C>, stdout: &[u8], stderr: &[u8])
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        // A terminal has one output.
        let places = [
            (self.stdout, stdout),
            (if self.tty { self.stdout } else { self.stderr }, stderr),
        ];
        for (stream, text) in places {
            match stream {
                Some(stream) if self.tty => talk.say(stream, &on_terminal(text)),
                Some(stream) => talk.say(stream, text),
                None => {}
            }
        }
    }

    /// Tells how it ended, and that there is no more.
    async fn end<C>(&self, core: &Core, mut talk: Talk<C>, verdict: &Verdict)
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        for stream in [self.stdout, self.stderr].into_iter().flatten() {
            talk.finish(stream);
        }
        if let Some(error) = self.error {
            talk.say(error, &verdict.told());
            talk.finish(error);
        }
        talk.part(&*core.clock).await;
    }
}

/// Lines end on a terminal with a return to their beginning.
fn on_terminal(text: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(text.len());
    for byte in text {
        if *byte == b'\n' {
            shown.push(b'\r');
        }
        shown.push(*byte);
    }
    shown
}

/// Runs a command.
pub(super) async fn exec<C>(core: &Core, request: ExecRequest, mut talk: Talk<C>)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let promised = Promised {
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr,
        tty: request.tty,
    };
    let Some(streams) = promised.opened(core, &mut talk).await else {
        return;
    };
    // Else the client has gone, and its command with it.
    if let Some(verdict) = run(core, request, &streams, &mut talk).await {
        streams.end(core, talk, &verdict).await;
    }
}

async fn run<C>(
    core: &Core,
    request: ExecRequest,
    streams: &Streams,
    talk: &mut Talk<C>,
) -> Option<Verdict>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let id = request.container_id;
    let command = request.cmd;
    let course = {
        let (mut state, now) = core.look();
        let token = state.next_id();
        running(&state, &id, "entered")
            .and_then(|container| exec::course(&command, container, &token, now))
    };
    let ended = core.until(|state| {
        let runs = state.container(&id).is_ok_and(Container::is_running);
        (!runs).then_some(())
    });
    let mut ended = pin!(ended);
    let end = match course {
        Err(refusal) => {
            let words = format!("error executing command in container: {refusal}");
            return Some(Verdict::Failed(words));
        }
        Ok(Course::Ends { after, end }) => {
            let mut due = core.clock.sleep(after);
            loop {
                tokio::select! {
                    biased;
                    () = &mut due => break end,
                    () = &mut ended => break exec::killed(),
                    event = talk.next() => {
                        if streams.stops(&event?) {
                            break exec::interrupted();
                        }
                    }
                }
            }
        }
        Ok(Course::Echoes) => tokio::select! {
            biased;
            () = &mut ended => exec::killed(),
            ended = streams.echo(talk) => exec::ended(ended?, ""),
        },
    };
    streams.print(talk, &end.stdout, &end.stderr);
    Some(Verdict::Ended {
        command,
        code: end.exit_code,
    })
}

impl Streams {
    /// Whether somebody at a terminal wants it to end.
    fn stops(&self, event: &Event) -> bool {
        match event {
            Event::Data { stream, piece, .. } if Some(*stream) == self.stdin => {
                self.tty && piece.contains(&INTERRUPT)
            }
            _ => false,
        }
    }

    /// Gives back what it hears, to its end: what it ends with. `None`: the client has gone.
    async fn echo<C>(&self, talk: &mut Talk<C>) -> Option<u8>
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        // There is nothing to hear.
        let Some(stdin) = self.stdin else {
            return Some(0);
        };
        loop {
            match talk.next().await? {
                Event::Data {
                    stream,
                    piece,
                    last,
                } if stream == stdin => {
                    let key = piece
                        .iter()
                        .position(|byte| self.tty && matches!(*byte, INTERRUPT | END_OF_INPUT));
                    let typed = &piece[..key.unwrap_or(piece.len())];
                    if let Some(stdout) = self.stdout {
                        if self.tty {
                            talk.say(stdout, &as_typed(typed));
                        } else {
                            talk.say(stdout, typed);
                        }
                    }
                    match key.map(|at| piece[at]) {
                        Some(INTERRUPT) => return Some(exec::INTERRUPTED),
                        Some(_) => return Some(0),
                        None if last => return Some(0),
                        None => {}
                    }
                }
                Event::Reset { stream } if stream == stdin => return Some(0),
                _ => {}
            }
        }
    }
}

/// The key that ends a line sends a return only.
fn as_typed(keys: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(keys.len());
    for key in keys {
        shown.push(*key);
        if *key == b'\r' {
            shown.push(b'\n');
        }
    }
    shown
}

/// Shows what a container prints from now on, until it ends.
pub(super) async fn attach<C>(core: &Core, request: AttachRequest, mut talk: Talk<C>)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let promised = Promised {
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr,
        tty: request.tty,
    };
    let Some(streams) = promised.opened(core, &mut talk).await else {
        return;
    };
    let id = &request.container_id;
    let mut next = None;
    let ended = core.until(|state| {
        let runs = state.container(id).is_ok_and(Container::is_running);
        (!runs).then_some(())
    });
    let mut ended = pin!(ended);
    loop {
        let seen = {
            let (state, now) = core.look();
            state.container(id).ok().map(|container| {
                let from = *next.get_or_insert_with(|| logs::count(container, now));
                let lines = logs::to_lines(container, from, LINES_AT_ONCE as u64, now);
                let after = from + u64::try_from(lines.len()).unwrap_or_default();
                let wait = logs::until_line(container, after, now);
                (lines, after, wait, container.is_running())
            })
        };
        let Some((lines, after, wait, runs)) = seen else {
            break;
        };
        next = Some(after);
        let mut text = String::new();
        for line in &lines {
            text += &line.text;
            text.push('\n');
        }
        streams.print(&mut talk, text.as_bytes(), b"");
        // Who does not read is shown no more lines, and so keeps none.
        if talk.said().await.is_none() {
            return;
        }
        if lines.len() == LINES_AT_ONCE {
            continue;
        }
        if !runs {
            break;
        }
        tokio::select! {
            biased;
            // What is typed is for a program that does not listen.
            event = talk.next() => if event.is_none() {
                return;
            },
            () = &mut ended => {}
            () = core.sleep(wait) => {}
        }
    }
    streams.end(core, talk, &Verdict::Over).await;
}
