//! Lists: what is there, or was, in pages that belong together.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::objects::Objects;
use crate::failure::Failure;
use crate::kinds::Kind;
use crate::store::{Compacted, Listing, Revision, Selector, Stored};

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    NotOlderThan,
    Exact,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub selector: Selector,
    /// None of them, or all.
    pub limit: Option<usize>,
    pub continued: Option<String>,
    pub resource_version: Option<Revision>,
    pub version_match: Option<VersionMatch>,
}

/// Some of the objects, and how to get at the rest.
#[derive(Clone, Debug)]
pub struct Page {
    pub items: Vec<Stored>,
    pub revision: Revision,
    pub continued: Option<String>,
    /// Not said of what is selected: counting them would mean looking at all.
    pub remaining: Option<usize>,
}

impl Page {
    /// `metadata` of the list.
    pub fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.continued {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(count) = self.remaining {
            metadata["remainingItemCount"] = count.into();
        }
        metadata
    }
}

/// Where a list goes on.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    /// Of the first page; none when that is no longer kept and the rest is as it is now.
    revision: Option<Revision>,
    /// After the object at this place.
    after: String,
}

impl Objects {
    pub fn list(&self, kind: &'static Kind, options: &ListOptions) -> Result<Page, Failure> {
        let token = options.continued.as_deref().map(Token::read).transpose()?;
        let listing = self.listing(kind, options, token.as_ref())?;
        let mut items = listing.items;
        if let Some(Token { after, .. }) = &token {
            items.retain(|object| object.place() > *after);
        }
        items.retain(|object| options.selector.is_near(object));
        let limit = options.limit.unwrap_or(usize::MAX);
        let there = items.len();
        let end = page_end(&items, limit, |object| options.selector.matches(object));
        items.truncate(end);
        items.retain(|object| options.selector.matches(object));
        let left = there - end;
        let last = items.last().filter(|_| left > 0);
        let continued = last.map(|last| {
            let token = Token {
                revision: Some(listing.revision),
                after: last.place(),
            };
            token.write()
        });
        Ok(Page {
            items,
            revision: listing.revision,
            remaining: (left > 0 && options.selector.is_broad()).then_some(left),
            continued,
        })
    }

    fn listing(
        &self,
        kind: &'static Kind,
        options: &ListOptions,
        token: Option<&Token>,
    ) -> Result<Listing, Failure> {
        let namespace = options.selector.namespace();
        let now = || self.store.list(kind, namespace);
        if let Some(token) = token {
            let Some(revision) = token.revision else {
                return Ok(now());
            };
            self.not_ahead(revision)?;
            let then = self.store.list_at(kind, namespace, revision);
            return then.map_err(|_| token.expired());
        }
        match (options.resource_version, options.version_match) {
            (Some(revision), Some(VersionMatch::Exact)) => {
                self.not_ahead(revision)?;
                let then = self.store.list_at(kind, namespace, revision);
                then.map_err(|Compacted(_)| {
                    Failure::expired(format!(
                        "The resourceVersion for the provided list is too old: {revision}"
                    ))
                })
            }
            (Some(revision), _) => {
                self.not_ahead(revision)?;
                Ok(now())
            }
            (None, _) => Ok(now()),
        }
    }

    /// A revision of the future is none of ours. Nothing is behind here, so nothing is
    /// waited for.
    pub fn not_ahead(&self, revision: Revision) -> Result<(), Failure> {
        let current = self.store.revision();
        if revision <= current {
            return Ok(());
        }
        let message =
            format!("Timeout: Too large resource version: {revision}, current: {current}");
        let mut failure = Failure::new(http::StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        failure.details = json!({"causes": [{
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        }]});
        failure.retry_after = Some(1);
        Err(failure)
    }
}

/// How many of the objects a page looks at: up to the last one that it has room for. What comes
/// after is not looked at, so that a page may be said to go on and nothing more come; upstream's.
fn page_end(items: &[Stored], limit: usize, matches: impl Fn(&Stored) -> bool) -> usize {
    let last = limit.checked_sub(1).and_then(|last| {
        let mut matching = items.iter().enumerate().filter(|(_, item)| matches(item));
        matching.nth(last)
    });
    last.map_or(items.len(), |(at, _)| at + 1)
}

impl Token {
    fn write(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!([self.revision, self.after]).to_string())
    }

    fn read(text: &str) -> Result<Self, Failure> {
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
            let (revision, after) = serde_json::from_slice(&bytes).ok()?;
            Some(Self { revision, after })
        };
        read().ok_or_else(|| Failure::bad_request("continue key is not valid"))
    }

    /// What the client can do: begin anew, or take the rest as it is now.
    fn expired(&self) -> Failure {
        let rest = Self {
            revision: None,
            after: self.after.clone(),
        };
        let mut failure = Failure::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        failure.continued = Some(rest.write().into());
        failure
    }
}
