//! The way to the API server for plays, and for tests that change an object often:
//! `kubectl proxy` on a socket, and curl. A kubectl for every call would cost more than
//! what is compared.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::lab::Lab;
use crate::{command, wait};

const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Api {
    proxy: Child,
    socket: PathBuf,
}

impl Api {
    /// `name` tells those apart that are open in one process.
    pub fn open(lab: &Lab, name: &str) -> Result<Self> {
        let socket = lab
            .layout()
            .dir
            .join(format!("{name}-{}.sock", std::process::id()));
        let proxy = lab
            .kubectl()
            .command()
            .arg("proxy")
            .arg(format!("--unix-socket={}", socket.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot run kubectl proxy")?;
        let api = Self { proxy, socket };
        wait::until("kubectl proxy to listen", Duration::from_secs(20), || {
            UnixStream::connect(&api.socket)
        })?;
        Ok(api)
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.answer_to_same(&["--request", "GET"], path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let words = ["--header", "Content-Type: application/json"];
        self.answer(&words, path, Some(body))
    }

    /// A strategic merge patch.
    pub fn patch(&self, path: &str, body: &Value) -> Result<Value> {
        let words = [
            "--request",
            "PATCH",
            "--header",
            "Content-Type: application/strategic-merge-patch+json",
        ];
        self.answer_to_same(&words, path, Some(body))
    }

    pub fn delete(&self, path: &str, options: &Value) -> Result<Value> {
        let words = [
            "--request",
            "DELETE",
            "--header",
            "Content-Type: application/json",
        ];
        self.answer_to_same(&words, path, Some(options))
    }

    /// A request without an end, whose answer comes in lines.
    pub fn follow(&self, path: &str) -> Result<Child> {
        self.curl(path)
            .arg("--no-buffer")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run curl")
    }

    /// Of a request that may be made twice: where the first came to nothing, or nothing is known
    /// of what it came to, it is made again.
    fn answer_to_same(&self, words: &[&str], path: &str, body: Option<&Value>) -> Result<Value> {
        let mut answer = self.answer(words, path, body);
        for _ in 1..TRIES {
            match &answer {
                Err(error) if is_passing(&format!("{error:#}")) => println!("again: {error:#}"),
                _ => break,
            }
            thread::sleep(PAUSE);
            answer = self.answer(words, path, body);
        }
        answer
    }

    fn answer(&self, words: &[&str], path: &str, body: Option<&Value>) -> Result<Value> {
        let mut curl = self.curl(path);
        curl.args(["--max-time", "30"]).args(words);
        let said = match body {
            Some(body) => {
                curl.args(["--data-binary", "@-"]);
                command::run_with_input(&mut curl, body.to_string().as_bytes())?
            }
            None => command::run(&mut curl)?,
        };
        ensure!(!said.is_empty(), "{path}: an empty answer");
        serde_json::from_str(&said).with_context(|| format!("{path}: the answer is not JSON"))
    }

    fn curl(&self, path: &str) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail-with-body"])
            .arg("--unix-socket")
            .arg(&self.socket)
            .arg(format!("http://localhost{path}"));
        curl
    }
}

/// What curl says of a server that may have it next time, and of a way that broke.
fn is_passing(said: &str) -> bool {
    let server = ["429", "500", "502", "503", "504"].map(|code| format!("returned error: {code}"));
    // No connection, no answer in time, none at all, or none to its end.
    let way = [7, 28, 52, 56].map(|code| format!("(exit status: {code})"));
    server.iter().chain(&way).any(|words| said.contains(words))
}

impl Drop for Api {
    fn drop(&mut self) {
        // It has nothing to finish; gone already is as good.
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
        let _ = fs::remove_file(&self.socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_refuses_is_not_asked_again() {
        for passing in [
            "curl --silent (exit status: 28)\ncurl: (28) Operation timed out",
            "curl --silent (exit status: 22)\ncurl: (22) The requested URL returned error: 503",
        ] {
            assert!(is_passing(passing), "{passing}");
        }
        for verdict in [
            "curl --silent (exit status: 22)\ncurl: (22) The requested URL returned error: 404",
            "/api: the answer is not JSON",
        ] {
            assert!(!is_passing(verdict), "{verdict}");
        }
    }
}
