//! The way to the API server for plays, and for tests that change an object often:
//! `kubectl proxy` on a socket, and curl. A kubectl for every call would cost more than
//! what is compared.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::lab::Lab;
use crate::{command, wait};

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
        self.answer(&["--request", "GET"], path, None)
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
        self.answer(&words, path, Some(body))
    }

    pub fn delete(&self, path: &str, options: &Value) -> Result<Value> {
        let words = [
            "--request",
            "DELETE",
            "--header",
            "Content-Type: application/json",
        ];
        self.answer(&words, path, Some(options))
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

impl Drop for Api {
    fn drop(&mut self) {
        // It has nothing to finish; gone already is as good.
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
        let _ = fs::remove_file(&self.socket);
    }
}
