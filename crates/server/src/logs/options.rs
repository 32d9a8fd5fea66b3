//! What a request for a container's log asks for.

use http::StatusCode;

use super::record::{Moment, Stamp};
use crate::query::Query;

/// The query of a request, understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogOptions {
    pub(super) follow: bool,
    pub(super) previous: bool,
    pub(super) timestamps: bool,
    pub(super) tail: Option<u64>,
    pub(super) limit: Option<u64>,
    pub(super) since: Option<Since>,
    pub(super) stream: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// Before now.
    Seconds(i64),
    Time(Moment),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stream {
    #[default]
    All,
    Stdout,
    Stderr,
}

/// Upstream's words: the query cannot be read.
const UNREADABLE: (StatusCode, &str) = (
    StatusCode::BAD_REQUEST,
    r#"{"message": "Unable to decode query."}"#,
);

/// Or asks for what cannot be.
const INVALID: (StatusCode, &str) = (
    StatusCode::UNPROCESSABLE_ENTITY,
    r#"{"message": "Invalid request."}"#,
);

/// What the zero time of Go is here.
const LONG_AGO: Moment = Moment {
    seconds: i64::MIN,
    nanos: 0,
};

impl LogOptions {
    pub(super) fn read(query: &Query) -> Result<Self, (StatusCode, &'static str)> {
        let flag = |name| {
            let value = query.first(name);
            value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
        };
        let number = |name| -> Result<Option<i64>, _> {
            let value = query.first(name).map(str::parse);
            value.transpose().map_err(|_| UNREADABLE)
        };
        // The older name of the same.
        let tail = match query.first("tail").unwrap_or_default() {
            "" => number("tailLines")?,
            "all" => None,
            lines => Some(lines.parse().map_err(|_| UNREADABLE)?),
        };
        let (seconds, limit) = (number("sinceSeconds")?, number("limitBytes")?);
        let time = query.first("sinceTime").map(since_time).transpose()?;
        let stream = match query.first("stream") {
            None | Some("All") => Stream::All,
            Some("Stdout") => Stream::Stdout,
            Some("Stderr") => Stream::Stderr,
            Some(_) => return Err(INVALID),
        };
        let bytes_given = limit.is_none_or(|limit| limit > 0);
        let seconds_given = seconds.is_none_or(|seconds| seconds > 0);
        let one_since = seconds.is_none() || time.is_none();
        // Which lines of a file are the last of one output is not known without
        // reading all of it.
        let tail_of_all = stream == Stream::All || tail.is_none();
        if !(bytes_given && seconds_given && one_since && tail_of_all) {
            return Err(INVALID);
        }
        Ok(Self {
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            tail: natural(tail)?,
            limit: natural(limit)?,
            since: seconds.map(Since::Seconds).or(time.map(Since::Time)),
            stream,
        })
    }
}

fn natural(number: Option<i64>) -> Result<Option<u64>, (StatusCode, &'static str)> {
    number.map(u64::try_from).transpose().map_err(|_| INVALID)
}

fn since_time(text: &str) -> Result<Moment, (StatusCode, &'static str)> {
    if matches!(text, "" | "null") {
        return Ok(LONG_AGO);
    }
    let stamp = Stamp::read(text.as_bytes());
    stamp.map(|stamp| stamp.moment()).ok_or(UNREADABLE)
}

impl Stream {
    /// As the API calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::Stdout => "Stdout",
            Self::Stderr => "Stderr",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<LogOptions, (StatusCode, &'static str)> {
        LogOptions::read(&Query::read(query))
    }

    #[test]
    fn a_query_is_understood() {
        let plain = LogOptions::default();
        let moment = |seconds| Since::Time(Moment { seconds, nanos: 0 });
        for (query, wanted) in [
            ("", plain.clone()),
            ("other=1&stream=All", plain.clone()),
            ("follow=false&previous=0&timestamps=FALSE", plain.clone()),
            (
                "follow=true&previous&timestamps=yes",
                LogOptions {
                    follow: true,
                    previous: true,
                    timestamps: true,
                    ..plain.clone()
                },
            ),
            (
                "tailLines=7&limitBytes=9&sinceSeconds=3",
                LogOptions {
                    tail: Some(7),
                    limit: Some(9),
                    since: Some(Since::Seconds(3)),
                    ..plain.clone()
                },
            ),
            (
                "tailLines=7&tail=0",
                LogOptions {
                    tail: Some(0),
                    ..plain.clone()
                },
            ),
            ("tailLines=nonsense&tail=all", plain.clone()),
            (
                "sinceTime=1970-01-01T00%3A00%3A09%2B00%3A00",
                LogOptions {
                    since: Some(moment(9)),
                    ..plain.clone()
                },
            ),
            (
                "sinceTime=null",
                LogOptions {
                    since: Some(Since::Time(LONG_AGO)),
                    ..plain.clone()
                },
            ),
            (
                "stream=Stderr",
                LogOptions {
                    stream: Stream::Stderr,
                    ..plain.clone()
                },
            ),
        ] {
            assert_eq!(read(query), Ok(wanted), "{query}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_from_what_cannot_be() {
        for query in [
            "tailLines=x",
            "tail=x",
            "limitBytes=",
            "sinceSeconds=1.5",
            "sinceTime=yesterday",
        ] {
            assert_eq!(read(query), Err(UNREADABLE), "{query}");
        }
        for query in [
            "tailLines=-1",
            "limitBytes=0",
            "sinceSeconds=0",
            "sinceSeconds=1&sinceTime=1970-01-01T00:00:09Z",
            "stream=stdout",
            "stream=Stdout&tailLines=1",
        ] {
            assert_eq!(read(query), Err(INVALID), "{query}");
        }
    }
}
