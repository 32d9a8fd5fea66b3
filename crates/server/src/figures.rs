//! Figures for Prometheus: `/metrics`, `/metrics/probes` and `/metrics/slis`.
//!
//! A page is written when somebody asks for it, from the numbers that the parts of the
//! node keep. Nothing is done for it before.

mod about;
mod foreign;
mod process;
mod slis;

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use http::{Method, StatusCode};
use prometheus::Registry;
use seams::SharedHost;
use types::figures::{Boards, Page};

use crate::answer::{Answer, text};

pub use about::About;
pub use slis::Slis;

use process::Process;

/// By which scrapers know the form.
const TEXT_FORM: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Below this nothing is gained by packing.
const WORTH_PACKING: usize = 1024;

/// Everything that a node shows of its figures.
#[derive(Clone, Debug)]
pub struct Figures {
    pub boards: Boards,
    /// What is kept by `prometheus`.
    pub registry: Registry,
    pub about: About,
    /// Where this process's own figures are read.
    pub host: SharedHost,
    pub slis: Slis,
}

impl Figures {
    /// `/metrics`, to any method. `more` writes what others know.
    pub fn node(&self, headers: &HeaderMap, more: impl FnOnce(&mut Page)) -> Answer {
        let mut page = self.boards.node.page();
        more(&mut page);
        self.about.show(&mut page);
        foreign::show(&self.registry, &mut page);
        Process::read(&*self.host).show(&mut page);
        answer(page, headers)
    }

    /// `/metrics/probes`, likewise.
    pub fn probes(&self, headers: &HeaderMap) -> Answer {
        let mut page = self.boards.probes.page();
        Process::read_start(&*self.host).show_start(&mut page);
        answer(page, headers)
    }

    /// `/metrics/slis`: the verdicts of health checks so far. Who deletes them begins anew.
    pub fn slis(&self, method: &Method, headers: &HeaderMap) -> Answer {
        if *method == Method::DELETE {
            self.slis.reset();
            return text(StatusCode::OK, "metrics reset\n");
        }
        let mut page = Page::default();
        self.slis.show(&mut page);
        Process::read_start(&*self.host).show_start(&mut page);
        answer(page, headers)
    }
}

fn answer(page: Page, headers: &HeaderMap) -> Answer {
    let figures = page.finish();
    let packed = (takes_gzip(headers) && figures.len() >= WORTH_PACKING)
        .then(|| pack(figures.as_bytes()))
        .flatten();
    let is_packed = packed.is_some();
    let body = packed.map_or_else(|| Bytes::from(figures), Bytes::from);
    let mut answer = text(StatusCode::OK, body);
    let answered = answer.headers_mut();
    answered.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT_FORM));
    if is_packed {
        answered.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        answered.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    answer
}

/// Whether it was asked for by name, and not ruled out.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let mut codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        let zero = quality.is_some_and(|quality| quality.parse::<f32>().is_ok_and(|q| q <= 0.0));
        name.eq_ignore_ascii_case("gzip") && !zero
    })
}

/// The fastest way: figures are much the same line by line, and shrink to a tenth.
fn pack(figures: &[u8]) -> Option<Vec<u8>> {
    let room = Vec::with_capacity(figures.len() / 8);
    let mut encoder = GzEncoder::new(room, Compression::fast());
    encoder.write_all(figures).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    fn asked(encoding: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(encoding) = encoding {
            headers.insert(ACCEPT_ENCODING, encoding.parse().unwrap());
        }
        headers
    }

    #[test]
    fn figures_are_packed_for_those_who_ask_for_it() {
        for (encoding, packed) in [
            (None, false),
            (Some("identity"), false),
            (Some("deflate, GZIP;q=0.5"), true),
            (Some("gzip;q=0, br"), false),
            (Some("gzip"), true),
        ] {
            assert_eq!(takes_gzip(&asked(encoding)), packed, "{encoding:?}");
        }
    }

    #[test]
    fn what_is_packed_is_the_page() {
        let page = "kubelet_runtime_operations_total 1\n".repeat(1000);
        let packed = pack(page.as_bytes()).unwrap();
        assert!(packed.len() < page.len() / 10);
        let mut unpacked = String::new();
        GzDecoder::new(&*packed)
            .read_to_string(&mut unpacked)
            .unwrap();
        assert_eq!(unpacked, page);
    }
}
