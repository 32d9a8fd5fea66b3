//! What a runtime was asked, one JSON object to a line. Requests are written as
//! protobuf writes itself in JSON: by the names of fields, without those that
//! are not set. Of answers only those are written that give something a name, by
//! which later requests mean it.
//!
//! What opens a registry is masked. What a pod's author put into its environment
//! is not: that is what a recording is looked at for, so its file is for its
//! owner only.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use prost::Message;
use prost_reflect::{DescriptorError, DescriptorPool, DynamicMessage, MethodDescriptor, Value};
use seams::cri::DESCRIPTORS;
use seams::{RuntimeError, SharedClock};
use serde::Serialize;
use thiserror::Error;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

/// Calls that have begun or wait to be written; more wait their turn to begin.
const ROOM: usize = 1024;

/// Written at once.
const BATCH: usize = 64;

/// For its owner: a pod's environment is in it.
const MODE: u32 = 0o600;

/// What stands for a secret.
const MASKED: &str = "(masked)";

/// The fields of `PullImageRequest.auth` that open a registry.
const SECRETS: [&str; 4] = ["password", "auth", "identity_token", "registry_token"];

/// Calls whose answers are written down too: the ids of what they made.
const MAKING: [&str; 3] = ["RunPodSandbox", "CreateContainer", "PullImage"];

/// Why there is no recording, or no more of it.
#[derive(Debug, Error)]
pub enum RecordError {
    #[error("cannot open the recording {}: {cause}; choose a file that can be written", path.display())]
    Open { path: PathBuf, cause: io::Error },
    #[error("cannot write the recording {}: {cause}; make room, or do without it", path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error("this program cannot describe its own messages: {0}; it was built wrongly")]
    Descriptors(#[from] DescriptorError),
}

/// A recording that is open, with the one who writes it.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    file: File,
    calls: mpsc::Receiver<Call>,
    descriptors: DescriptorPool,
}

/// Takes calls down.
#[derive(Clone, Debug)]
pub struct Recorder {
    calls: mpsc::Sender<Call>,
    clock: SharedClock,
}

impl Recording {
    /// Goes on behind what the file already holds.
    pub async fn open(path: &Path, clock: SharedClock) -> Result<(Recorder, Self), RecordError> {
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).mode(MODE).open(path);
        let file = opened.await.map_err(|cause| RecordError::Open {
            path: path.to_owned(),
            cause,
        })?;
        let (sender, calls) = mpsc::channel(ROOM);
        let recording = Self {
            path: path.to_owned(),
            file,
            calls,
            descriptors: DescriptorPool::decode(DESCRIPTORS)?,
        };
        let recorder = Recorder {
            calls: sender,
            clock,
        };
        Ok((recorder, recording))
    }

    /// Writes calls down until there is no [`Recorder`] any more.
    pub async fn keep(mut self) -> Result<(), RecordError> {
        let mut batch = Vec::with_capacity(BATCH);
        while self.calls.recv_many(&mut batch, BATCH).await > 0 {
            let mut lines = String::new();
            for call in batch.drain(..) {
                lines.push_str(&line(&self.descriptors, call));
                lines.push('\n');
            }
            self.write(&lines)
                .await
                .map_err(|cause| RecordError::Write {
                    path: self.path.clone(),
                    cause,
                })?;
        }
        Ok(())
    }

    async fn write(&mut self, lines: &str) -> io::Result<()> {
        self.file.write_all(lines.as_bytes()).await?;
        self.file.flush().await
    }
}

impl Recorder {
    /// Nothing when nobody writes any more. `path` is the call's; a call that
    /// nobody knows has no request that could be read.
    pub(crate) async fn begin<Q: Message>(&self, path: &str, request: Option<&Q>) -> Option<Entry> {
        // The place is kept for the call's end, which must not have to wait.
        let place = self.calls.clone().reserve_owned().await.ok()?;
        let call = Call {
            path: path.to_owned(),
            request: request.map(Message::encode_to_vec),
            answer: None,
            begun: self.clock.now(),
            took: self.clock.uptime(),
            code: "Cancelled".to_owned(),
            message: "whoever asked gave it up".to_owned(),
        };
        Some(Entry {
            open: Some((place, call)),
            clock: self.clock.clone(),
        })
    }
}

/// A call that has begun. It is written down at its end: by its answer, or by
/// whoever asked giving it up.
#[derive(Debug)]
pub(crate) struct Entry {
    open: Option<(mpsc::OwnedPermit<Call>, Call)>,
    clock: SharedClock,
}

impl Entry {
    /// Keeps the answer, if it is one of those that are written down.
    pub(crate) fn answered<A: Message>(&mut self, answer: &A) {
        if let Some((_, call)) = &mut self.open
            && MAKING.contains(&name(&call.path))
        {
            call.answer = Some(answer.encode_to_vec());
        }
    }

    pub(crate) fn end(mut self, error: Option<&RuntimeError>) {
        if let Some((_, call)) = &mut self.open {
            call.code = error.map_or_else(|| "OK".to_owned(), |error| error.code.to_string());
            call.message = error.map_or_else(String::new, |error| error.message.clone());
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some((place, mut call)) = self.open.take() {
            call.took = self.clock.uptime().saturating_sub(call.took);
            place.send(call);
        }
    }
}

/// What is known of a call.
#[derive(Debug)]
struct Call {
    path: String,
    request: Option<Vec<u8>>,
    answer: Option<Vec<u8>>,
    begun: SystemTime,
    /// Until it has ended, when it began.
    took: Duration,
    code: String,
    message: String,
}

fn line(descriptors: &DescriptorPool, call: Call) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        time: String,
        call: &'a str,
        request: Option<DynamicMessage>,
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<DynamicMessage>,
        code: String,
        #[serde(skip_serializing_if = "String::is_empty")]
        message: String,
        duration_ms: f64,
    }
    let time = Timestamp::try_from(call.begun).unwrap_or_default();
    let micros = u32::try_from(call.took.as_micros()).unwrap_or(u32::MAX);
    let line = Line {
        time: format!("{time:.6}"),
        call: name(&call.path),
        request: call
            .request
            .and_then(|request| shown(descriptors, &call.path, &request)),
        answer: call
            .answer
            .and_then(|answer| answered(descriptors, &call.path, &answer)),
        code: call.code,
        message: call.message,
        duration_ms: f64::from(micros) / 1000.0,
    };
    // Names are strings, and numbers are finite: it can be written.
    serde_json::to_string(&line).unwrap_or_default()
}

/// `/runtime.v1.RuntimeService/Version` is `Version`; what is none of ours stays
/// as it is.
fn name(path: &str) -> &str {
    ["/runtime.v1.RuntimeService/", "/runtime.v1.ImageService/"]
        .iter()
        .find_map(|service| path.strip_prefix(service))
        .unwrap_or(path)
}

/// A request with its fields' names, without its secrets.
fn shown(descriptors: &DescriptorPool, path: &str, request: &[u8]) -> Option<DynamicMessage> {
    let input = method(descriptors, path)?.input();
    let mut message = DynamicMessage::decode(input, request).ok()?;
    mask(&mut message);
    Some(message)
}

fn answered(descriptors: &DescriptorPool, path: &str, answer: &[u8]) -> Option<DynamicMessage> {
    let output = method(descriptors, path)?.output();
    DynamicMessage::decode(output, answer).ok()
}

fn method(descriptors: &DescriptorPool, path: &str) -> Option<MethodDescriptor> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    let service = descriptors.get_service_by_name(service)?;
    service.methods().find(|found| found.name() == method)
}

fn mask(message: &mut DynamicMessage) {
    if !message.has_field_by_name("auth") {
        return;
    }
    let Some(Value::Message(auth)) = message.get_field_by_name_mut("auth") else {
        return;
    };
    for secret in SECRETS {
        if auth.has_field_by_name(secret) {
            auth.set_field_by_name(secret, Value::String(MASKED.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests;
