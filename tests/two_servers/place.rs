//! One of the two servers, and what it alone knows of a sequence.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::asked::{Asked, Body, Kind, Own};
use crate::normal::Normal;

const PATIENCE: Duration = Duration::from_secs(60);

/// For a server that has too much to do, and says so.
const BUSY: u16 = 429;

/// What came back, in words that both servers share.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
    /// Of a watch.
    pub(crate) changes: Vec<Value>,
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.code)?;
        for warning in &self.warnings {
            write!(out, " [{warning}]")?;
        }
        if !self.body.is_null() {
            write!(out, " {}", self.body)?;
        }
        for change in &self.changes {
            write!(out, "\n    {change}")?;
        }
        Ok(())
    }
}

pub(crate) struct Place {
    name: &'static str,
    client: Client,
    namespace: String,
    normal: Normal,
    /// As they were last answered.
    seen: BTreeMap<(Kind, String), Value>,
    /// The revisions of this sequence's writes.
    past: Vec<String>,
    page: Option<String>,
    /// The revision of the last list: all of this sequence's writes are older.
    listed: u64,
}

struct Raw {
    code: u16,
    warnings: Vec<String>,
    bytes: Vec<u8>,
}

impl Place {
    pub(crate) fn new(name: &'static str, client: Client, namespace: &str) -> Self {
        Self {
            name,
            client,
            namespace: namespace.to_owned(),
            normal: Normal::default(),
            seen: BTreeMap::new(),
            past: Vec::new(),
            page: None,
            listed: 0,
        }
    }

    /// Whether a watch tells of something that was there when it was listed last. Upstream's pod
    /// collector comes every twenty seconds, and writes to pods that end and have no node.
    fn is_of_the_past(&self, change: &Value) -> bool {
        let version = change["object"]["metadata"]["resourceVersion"].as_str();
        let version = version.and_then(|version| version.parse::<u64>().ok());
        change["type"] == "BOOKMARK" || version.is_none_or(|version| version <= self.listed)
    }

    /// A namespace with what controllers put into every one, so that nothing more comes later.
    pub(crate) async fn furnish(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| self.name)?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let late = Instant::now() + PATIENCE;
        loop {
            let account = accounts.get_opt("default").await?;
            let authority = maps.get_opt("kube-root-ca.crt").await?;
            if account.is_some() && authority.is_some() {
                return Ok(());
            }
            if Instant::now() > late {
                bail!("{}: the namespace was never furnished", self.name);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The namespace goes, and what is in it: who waits for a node or holds on to something that
    /// sequences have made would keep the controllers of the lab busy for good.
    pub(crate) async fn clear(&self) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let_go(&maps).await.with_context(|| self.name)?;
        let_go(&pods).await.with_context(|| self.name)?;
        let at_once = DeleteParams::default().grace_period(0);
        pods.delete_collection(&at_once, &ListParams::default())
            .await
            .with_context(|| self.name)?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let options = DeleteParams::default();
        let gone = namespaces.delete(&self.namespace, &options).await;
        gone.with_context(|| self.name)?;
        Ok(())
    }

    pub(crate) async fn ask(&mut self, asked: &Asked) -> Result<Answer> {
        let raw = self.send(asked).await?;
        let body: Value = serde_json::from_slice(&raw.bytes)
            .with_context(|| format!("{}: {asked}", self.name))?;
        self.learn(asked, &raw, &body);
        Ok(Answer {
            code: raw.code,
            warnings: raw.warnings,
            body: self.normal.answer(body),
            changes: Vec::new(),
        })
    }

    /// All at once: each is a few seconds long.
    pub(crate) async fn watch_all(&mut self, watches: &[Asked]) -> Result<Vec<Answer>> {
        let all = watches.iter().map(|asked| self.send(asked));
        let all = futures_util::future::join_all(all).await;
        let mut answers = Vec::new();
        for raw in all {
            let raw = raw?;
            let lines = serde_json::Deserializer::from_slice(&raw.bytes).into_iter::<Value>();
            let lines: Vec<Value> = lines.collect::<Result<_, _>>()?;
            let (body, changes) = if raw.code == 200 {
                let told = lines.into_iter();
                let past = told.filter(|change| self.is_of_the_past(change));
                (Value::Null, past.collect())
            } else {
                (lines.into_iter().next().unwrap_or_default(), Vec::new())
            };
            answers.push(Answer {
                code: raw.code,
                warnings: raw.warnings,
                body: self.normal.answer(body),
                changes: changes
                    .into_iter()
                    .map(|change| self.normal.change(change))
                    // When others come is each server's own choice.
                    .filter(|change| change["type"] != "BOOKMARK" || change["object"].is_object())
                    .collect(),
            });
        }
        Ok(answers)
    }

    /// What later requests may refer to.
    fn learn(&mut self, asked: &Asked, raw: &Raw, body: &Value) {
        if raw.code >= 400 || asked.query.iter().any(|(key, _)| *key == "dryRun") {
            return;
        }
        if asked.method == Method::GET && asked.path.is_empty() {
            self.page = body["metadata"]["continue"].as_str().map(str::to_owned);
            let version = body["metadata"]["resourceVersion"].as_str();
            if let Some(version) = version.and_then(|version| version.parse().ok()) {
                self.listed = self.listed.max(version);
            }
            return;
        }
        let named = body["metadata"]["name"].as_str();
        let version = body["metadata"]["resourceVersion"].as_str();
        if let (Some(name), Some(version)) = (named, version) {
            if asked.writes() {
                self.past.push(version.to_owned());
            }
            if body["kind"] != "PartialObjectMetadata" {
                self.seen
                    .insert((asked.kind, name.to_owned()), body.clone());
            }
        }
    }

    fn own(&self, own: &Own) -> String {
        let of = |kind: Kind, name: &str, field: &str| {
            let seen = self.seen.get(&(kind, name.to_owned()));
            let text = seen.and_then(|object| object["metadata"][field].as_str());
            // Nothing has this name as a uid, and as a revision it cannot be read.
            text.unwrap_or("nothing-of-this-name").to_owned()
        };
        match own {
            Own::Uid(kind, name) => of(*kind, name, "uid"),
            Own::Version(kind, name) => of(*kind, name, "resourceVersion"),
            Own::Past(which) => self.past.get(*which).cloned().unwrap_or_default(),
            Own::Continue => self.page.clone().unwrap_or_default(),
        }
    }

    fn body(&self, body: &Body) -> Option<Value> {
        let put = |value: &mut Value, place: &str, word: Value| {
            let (parent, field) = place.rsplit_once('/').unwrap_or_default();
            if let Some(parent) = value.pointer_mut(parent) {
                match parent {
                    Value::Array(list) => {
                        if let Some(item) =
                            field.parse().ok().and_then(|at: usize| list.get_mut(at))
                        {
                            *item = word;
                        }
                    }
                    Value::Object(fields) if word.is_null() => {
                        fields.remove(field);
                    }
                    Value::Object(fields) => {
                        fields.insert(field.to_owned(), word);
                    }
                    _ => {}
                }
            }
        };
        let (mut value, changes, own) = match body {
            Body::None => return None,
            Body::Json(value, own) => (value.clone(), &Vec::new(), own),
            Body::Seen {
                kind,
                name,
                otherwise,
                changes,
                own,
            } => {
                let seen = self.seen.get(&(*kind, name.clone()));
                let mut value = seen.unwrap_or(otherwise).clone();
                value["metadata"]["managedFields"] = Value::Null;
                (value, changes, own)
            }
        };
        for (place, word) in changes {
            put(&mut value, place, word.clone());
        }
        for (place, own) in own {
            put(&mut value, place, self.own(own).into());
        }
        Some(value)
    }

    async fn send(&self, asked: &Asked) -> Result<Raw> {
        let late = Instant::now() + PATIENCE;
        loop {
            let raw = self.send_once(asked).await;
            let raw = raw.with_context(|| format!("{}: {asked}", self.name))?;
            if raw.code != BUSY || Instant::now() > late {
                return Ok(raw);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn send_once(&self, asked: &Asked) -> Result<Raw> {
        let mut uri = format!(
            "/api/v1/namespaces/{}/{}",
            self.namespace,
            asked.kind.plural()
        );
        if !asked.path.is_empty() {
            uri = format!("{uri}/{}", asked.path);
        }
        let given = asked.query.iter().map(|(key, value)| (*key, value.clone()));
        let own = asked.own.iter().map(|(key, own)| (*key, self.own(own)));
        let mut sign = '?';
        for (key, value) in given.chain(own) {
            uri = format!("{uri}{sign}{key}={}", escaped(&value));
            sign = '&';
        }
        let body = self.body(&asked.body);
        let body = body.map(|value| value.to_string()).unwrap_or_default();
        let request = Request::builder()
            .method(asked.method.clone())
            .uri(uri)
            .header(header::ACCEPT, asked.accept)
            .header(header::CONTENT_TYPE, asked.content_type)
            .body(body.into_bytes().into())?;
        let answer = self.client.send(request).await?;
        let code = answer.status().as_u16();
        let warnings = answer.headers().get_all(header::WARNING).iter();
        let warnings = warnings.map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned());
        let warnings = warnings.collect();
        let bytes = answer.into_body().collect().await?.to_bytes().to_vec();
        Ok(Raw {
            code,
            warnings,
            bytes,
        })
    }
}

/// Takes the finalizers off all objects.
async fn let_go<K>(objects: &Api<K>) -> Result<()>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug,
{
    for object in objects.list(&ListParams::default()).await? {
        if object.finalizers().is_empty() {
            continue;
        }
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let name = object.name_any();
        let patched = objects.patch(&name, &PatchParams::default(), &patch).await;
        patched.map(drop).or_else(|error| match error {
            // The last finalizer was all that held it.
            kube::Error::Api(status) if status.code == 404 => Ok(()),
            error => Err(error),
        })?;
    }
    Ok(())
}

/// For a query.
fn escaped(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let words = text.bytes().map(|byte| {
        if plain(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    words.collect()
}
