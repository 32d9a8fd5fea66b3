//! `/configz`: the configuration as it is in use.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};

use crate::answer::{Answer, text, unguessed};

#[derive(Clone, Debug)]
pub struct Configz(pub Bytes);

impl Configz {
    pub(crate) fn answer(&self) -> Answer {
        let mut answer = unguessed(text(StatusCode::OK, self.0.clone()));
        let json = HeaderValue::from_static("application/json");
        answer.headers_mut().insert(CONTENT_TYPE, json);
        answer
    }
}
