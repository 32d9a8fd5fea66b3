//! How long ago something was, as short as kubectl prints it.

use jiff::Timestamp;
use serde_json::Value;

/// Since a time of the API; nothing is not known.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    let parsed = time
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok());
    parsed.map_or_else(
        || "<unknown>".to_owned(),
        |time| human(now.duration_since(time).as_secs()),
    )
}

/// Two units at most, and fewer the longer it is.
pub(super) fn human(seconds: i64) -> String {
    let two = |whole: i64, unit: char, part: i64, smaller: char| match part {
        0 => format!("{whole}{unit}"),
        part => format!("{whole}{unit}{part}{smaller}"),
    };
    let (minutes, hours, days, years) = (
        seconds / 60,
        seconds / 3600,
        seconds / 86400,
        seconds / (86400 * 365),
    );
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, 'd', hours % 24, 'h'),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if days < 365 * 8 => two(years, 'y', days % 365, 'd'),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        const DAY: i64 = 86400;
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (179 * 60 + 59, "179m"),
            (180 * 60, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600 + 60, "8h"),
            (47 * 3600, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3600, "2d1h"),
            (8 * DAY + 3600, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * 365 * DAY + DAY, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
    }
}
