//! The answers of a metrics port: what a registry holds, in Prometheus's text form.

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use prometheus::{Registry, TextEncoder};

use crate::answer::{Answer, no_host, not_found, text};

/// By which scrapers know the form.
const TEXT_FORM: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn answer(request: &Parts, registry: &Registry) -> Answer {
    if let Some(refusal) = no_host(request) {
        return refusal;
    }
    if request.uri.path() != "/metrics" {
        return not_found();
    }
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(figures) => {
            let mut answer = text(StatusCode::OK, figures);
            let form = HeaderValue::from_static(TEXT_FORM);
            answer.headers_mut().insert(CONTENT_TYPE, form);
            answer
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http::header::HOST;
    use http_body_util::BodyExt as _;
    use prometheus::IntGauge;

    use super::*;

    #[tokio::test]
    async fn scrapers_get_what_the_registry_holds() {
        let registry = Registry::new();
        let gauge = IntGauge::new("nodes", "How many.").unwrap();
        registry.register(Box::new(gauge.clone())).unwrap();
        gauge.set(7);
        let asked = |path: &str| {
            let request = Request::builder().uri(path).header(HOST, "here");
            answer(&request.body(()).unwrap().into_parts().0, &registry)
        };
        let answer = asked("/metrics");
        assert_eq!(answer.headers()[CONTENT_TYPE], TEXT_FORM);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(body.ends_with(b"\nnodes 7\n"), "{body:?}");
        assert_eq!(asked("/").status(), StatusCode::NOT_FOUND);
    }
}
