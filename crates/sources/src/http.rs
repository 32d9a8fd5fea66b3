//! Pods from a URL that is asked from time to time.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use k8s_openapi::api::core::v1::Pod;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use seams::{SharedClock, timeout};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::delivery::{Delivery, Source};
pub use crate::fetch::UrlError;
use crate::fetch::{FetchError, Page};
use crate::manifest::{self, Rules};

/// Who takes longer is away.
const ANSWER: Duration = Duration::from_secs(10);

/// So many failures in a row are told to everyone; then they are no news.
const LOUD_FAILURES: u32 = 3;

const LEAST_PERIOD: Duration = Duration::from_secs(1);

/// The source. Runs as one task.
#[derive(Debug)]
pub struct HttpSource {
    url: String,
    page: Page,
    rules: Rules,
    period: Duration,
    clock: SharedClock,
}

impl HttpSource {
    /// `headers` go with every request; `tls` is for https, see [`system_trust`].
    pub fn new(
        url: &str,
        headers: HeaderMap,
        tls: Arc<ClientConfig>,
        rules: Rules,
        period: Duration,
        clock: SharedClock,
    ) -> Result<Self, UrlError> {
        Ok(Self {
            url: url.to_owned(),
            page: Page::new(url, headers, tls)?,
            rules,
            period: period.max(LEAST_PERIOD),
            clock,
        })
    }

    /// Asks until told to stop. `delivered` is `None` until the first answer.
    pub async fn run(
        self,
        delivered: watch::Sender<Option<Delivery>>,
        shutdown: CancellationToken,
    ) {
        let asking = async {
            let mut known = Known::default();
            loop {
                // Boxed, so that a source that waits is small.
                let answer = timeout(&*self.clock, ANSWER, Box::pin(self.page.get())).await;
                let answer = answer.unwrap_or(Err(FetchError::Timeout));
                if let Some(pods) = known.take(answer, &self.url, &self.rules) {
                    delivered.send_replace(Some(Delivery::of(Source::Http, pods)));
                }
                self.clock.sleep(self.period).await;
            }
        };
        shutdown.run_until_cancelled(asking).await;
    }
}

/// Trusts whom the machine trusts, now: what is added later counts after a restart.
pub fn system_trust() -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    trust(roots)
}

fn trust(roots: RootCertStore) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// What the URL gave last.
#[derive(Debug, Default)]
struct Known {
    digest: Option<[u8; 32]>,
    /// What was wrong with that.
    fault: Option<String>,
    failures: u32,
}

impl Known {
    /// All pods, if the answer is another than before and can be used.
    fn take(
        &mut self,
        answer: Result<Vec<u8>, FetchError>,
        url: &str,
        rules: &Rules,
    ) -> Option<Vec<Arc<Pod>>> {
        let body = match answer {
            Ok(body) => body,
            Err(error) => {
                self.failed(url, &error.to_string());
                return None;
            }
        };
        if body.is_empty() {
            // Somebody is there, and has nothing to run: the source has been heard.
            let first = self.digest.replace(Sha256::digest(b"").into());
            self.failed(url, "the answer is empty: serve a Pod or a PodList");
            return (first != self.digest).then(Vec::new);
        }
        let digest = Some(Sha256::digest(&body).into());
        if digest == self.digest {
            match self.fault.clone() {
                Some(fault) => self.failed(url, &fault),
                None => self.succeeded(url),
            }
            return None;
        }
        self.digest = digest;
        self.fault = None;
        match manifest::page(&body, url, rules) {
            Ok(decoded) => {
                for notice in decoded.notices {
                    warn!(url, notice, "a manifest is not read as it may be meant");
                }
                self.succeeded(url);
                Some(decoded.content)
            }
            Err(error) => {
                self.failed(url, &error.to_string());
                self.fault = Some(error.to_string());
                None
            }
        }
    }

    fn succeeded(&mut self, url: &str) {
        if std::mem::take(&mut self.failures) > 0 {
            info!(url, "static pods can be read again");
        }
    }

    fn failed(&mut self, url: &str, err: &str) {
        if self.failures < LOUD_FAILURES {
            warn!(url, err, "no static pods can be read, will try again");
        } else {
            debug!(url, err, "no static pods can be read, will try again");
        }
        self.failures = self.failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use rustls::ServerConfig;
    use rustls_pki_types::PrivateKeyDer;
    use testkit::clock::TokioClock;
    use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}]}}"#;

    fn rules() -> Rules {
        Rules {
            node: "n".to_owned(),
            forbid_references: true,
        }
    }

    #[test]
    fn only_another_answer_that_can_be_used_is_delivered() {
        let mut known = Known::default();
        let mut after = |answer: Result<&str, FetchError>| {
            let answer = answer.map(|text| text.as_bytes().to_vec());
            known
                .take(answer, "http://x", &rules())
                .map(|pods| pods.len())
        };
        let item = POD.replace("\"name\":\"a\"},", "\"name\":\"b\"},");
        let list = format!(r#"{{"apiVersion":"v1","kind":"PodList","items":[{POD},{item}]}}"#);
        assert_eq!(after(Err(FetchError::Timeout)), None);
        assert_eq!(after(Ok("")), Some(0));
        assert_eq!(after(Ok("")), None);
        assert_eq!(after(Ok(POD)), Some(1));
        assert_eq!(after(Ok(POD)), None);
        assert_eq!(after(Err(FetchError::Timeout)), None);
        assert_eq!(after(Ok(POD)), None);
        assert_eq!(after(Ok(&list)), Some(2));
        assert_eq!(after(Ok("{}")), None);
        assert_eq!(after(Ok("{}")), None);
        assert_eq!(after(Ok(&list)), Some(2));
        assert_eq!(after(Ok("")), Some(0));
    }

    #[test]
    fn failures_are_counted_until_something_good_comes() {
        let mut known = Known::default();
        let take = |known: &mut Known, text: &str| {
            known.take(Ok(text.as_bytes().to_vec()), "http://x", &rules())
        };
        take(&mut known, "{}");
        take(&mut known, "{}");
        assert_eq!(known.failures, 2);
        take(&mut known, POD);
        assert_eq!(known.failures, 0);
    }

    #[test]
    fn what_is_no_url_is_refused_with_what_to_do() {
        let page = |url: &str| {
            let tls = trust(RootCertStore::empty()).unwrap();
            Page::new(url, HeaderMap::new(), tls)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        assert!(
            page("ftp://a/b")
                .unwrap_err()
                .contains("write http:// or https://")
        );
        assert!(page("/a").is_err() && page("").is_err());
        assert!(
            page("http://u:p@a/")
                .unwrap_err()
                .contains("staticPodURLHeader")
        );
        assert!(page("https://[::1]:8443/a?b=c").is_ok());
    }

    /// Answers one request; what was asked.
    async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> String {
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            asked.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        String::from_utf8(asked).unwrap()
    }

    fn ok(body: &str) -> String {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    #[tokio::test]
    async fn a_url_is_asked_with_its_headers_and_what_it_gives_is_delivered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/pods?x=y", listener.local_addr().unwrap());
        let mut headers = HeaderMap::new();
        headers.append("x-key", "one".parse().unwrap());
        headers.append("x-key", "two".parse().unwrap());
        headers.append("host", "elsewhere".parse().unwrap());
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let tls = trust(RootCertStore::empty()).unwrap();
        let source = HttpSource::new(&url, headers, tls, rules(), Duration::ZERO, clock).unwrap();
        let (delivered, mut seen) = watch::channel(None);
        let shutdown = CancellationToken::new();
        let server = async {
            // A refusal is asked again.
            let (stream, _) = listener.accept().await.unwrap();
            answer(stream, "HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n").await;
            let (stream, _) = listener.accept().await.unwrap();
            let asked = answer(stream, &ok(POD)).await.to_lowercase();
            let found = seen
                .wait_for(Option::is_some)
                .await
                .unwrap()
                .clone()
                .unwrap();
            shutdown.cancel();
            (asked, found)
        };
        let ((), (asked, found)) = tokio::join!(source.run(delivered, shutdown.clone()), server);
        assert!(asked.starts_with("get /pods?x=y http/1.1\r\n"), "{asked}");
        assert!(asked.contains("x-key: one\r\nx-key: two\r\n"), "{asked}");
        assert!(
            asked.contains("host: 127.0.0.1:") && !asked.contains("elsewhere"),
            "{asked}"
        );
        assert_eq!((found.source, found.pods.len()), (Source::Http, 1));
        assert_eq!(found.pods[0].metadata.name.as_deref(), Some("a-n"));
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_answer_is_given_up_and_asked_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let tls = trust(RootCertStore::empty()).unwrap();
        let period = Duration::from_secs(20);
        let source = HttpSource::new(&url, HeaderMap::new(), tls, rules(), period, clock.clone());
        let (delivered, seen) = watch::channel(None);
        let shutdown = CancellationToken::new();
        let server = async {
            // It is heard, and nothing is said.
            let (_silent, _) = listener.accept().await.unwrap();
            let began = clock.uptime();
            let (stream, _) = listener.accept().await.unwrap();
            let after = clock.uptime().saturating_sub(began);
            answer(stream, &ok(POD)).await;
            seen.clone().wait_for(Option::is_some).await.unwrap();
            shutdown.cancel();
            after
        };
        let source = source.unwrap();
        let ((), after) = tokio::join!(source.run(delivered, shutdown.clone()), server);
        assert_eq!(after.as_secs(), (ANSWER + period).as_secs());
    }

    #[tokio::test]
    async fn https_is_believed_only_from_whom_we_trust() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let chain = vec![made.cert.der().clone()];
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.clone(), key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let page = |roots: RootCertStore| {
            let url = format!("https://localhost:{port}/");
            Page::new(&url, HeaderMap::new(), trust(roots).unwrap()).unwrap()
        };
        let mut roots = RootCertStore::empty();
        roots.add(chain[0].clone()).unwrap();

        let stranger = page(RootCertStore::empty());
        let serve = async { drop(acceptor.accept(listener.accept().await.unwrap().0).await) };
        let (refused, ()) = tokio::join!(stranger.get(), serve);
        assert!(
            matches!(refused, Err(FetchError::Connect { .. })),
            "{refused:?}"
        );

        let friend = page(roots);
        let serve = async {
            let stream = acceptor
                .accept(listener.accept().await.unwrap().0)
                .await
                .unwrap();
            answer(stream, &ok("hello")).await
        };
        let (body, _) = tokio::join!(friend.get(), serve);
        assert_eq!(body.unwrap(), b"hello");
    }
}
