//! When a certificate must be replaced, and how long to wait between attempts.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::certificate::Leaf;
use crate::request::Template;

/// How long one request is waited for before a new one is made.
pub const WAIT_FOR_ISSUE: Duration = Duration::from_secs(15 * 60);

/// How long the blocking bootstrap waits for its one request.
pub const WAIT_FOR_BOOTSTRAP: Duration = Duration::from_secs(3600);

/// The pause after a rotation that went well.
pub const AFTER_SUCCESS: Duration = Duration::from_secs(1);

/// The point of a certificate's life, in [0.7, 0.9), at which to replace it.
/// `random` is uniform in [0, 1), drawn anew for every certificate and attempt,
/// so that nodes made together do not ask together for ever after.
pub fn deadline(not_before: SystemTime, not_after: SystemTime, random: f64) -> SystemTime {
    let life = not_after.duration_since(not_before).unwrap_or_default();
    not_before + life.mul_f64(0.7 + 0.2 * unit(random))
}

/// The least time between two certificates. A clock that is far ahead makes each
/// new certificate look due at once; that must not become a loop.
pub const LEAST_USE: Duration = Duration::from_secs(32);

/// When to replace a certificate that is taken into use at `now`: at its
/// deadline, but not at once.
pub fn next(
    (not_before, not_after): (SystemTime, SystemTime),
    now: SystemTime,
    random: f64,
) -> SystemTime {
    deadline(not_before, not_after, random).max(now + LEAST_USE)
}

/// How far a signer's clock may be off before somebody should be told.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// What a freshly issued certificate tells of this machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSign {
    /// Nothing unusual.
    Plausible,
    /// The certificate begins later than now.
    Behind { by: Duration },
    /// The certificate has ended before it was seen.
    Ahead { by: Duration },
}

/// Reads the clock's error off a certificate that was issued this moment.
pub fn clock_sign((not_before, not_after): (SystemTime, SystemTime), now: SystemTime) -> ClockSign {
    if let Ok(by) = now.duration_since(not_after)
        && by > Duration::ZERO
    {
        return ClockSign::Ahead { by };
    }
    match not_before.duration_since(now) {
        Ok(by) if by > CLOCK_TOLERANCE => ClockSign::Behind { by },
        _ => ClockSign::Plausible,
    }
}

/// The pause after so many failed attempts in a row (1 after the first):
/// 2, 4, 8, 16 seconds with up to a tenth more, then 32 for ever.
/// `random` is uniform in [0, 1).
pub fn pause_after(failures: u32, random: f64) -> Duration {
    match failures {
        0 => Duration::ZERO,
        1..=4 => Duration::from_secs(1 << failures).mul_f64(1.0 + 0.1 * unit(random)),
        _ => Duration::from_secs(32),
    }
}

/// What a certificate lacks of a template. More than was asked for is no lack,
/// but for the common name, of which there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    CommonName { has: String, wants: String },
    DnsNames(Vec<String>),
    Addresses(Vec<IpAddr>),
    Organization(String),
}

impl fmt::Display for Lack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommonName { has, wants } => {
                write!(formatter, "it is for {has}, and should be for {wants}")
            }
            Self::DnsNames(names) => write!(formatter, "it lacks {}", names.join(", ")),
            Self::Addresses(addresses) => {
                let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                write!(formatter, "it lacks {}", texts.join(", "))
            }
            Self::Organization(name) => write!(formatter, "it lacks the organization {name}"),
        }
    }
}

/// What `leaf` lacks of `template`; `None` if it will do.
pub fn lack(leaf: &Leaf, template: &Template) -> Option<Lack> {
    if leaf.common_name != template.common_name {
        return Some(Lack::CommonName {
            has: leaf.common_name.clone(),
            wants: template.common_name.clone(),
        });
    }
    let dns_names = missing(&leaf.dns_names, &template.dns_names);
    if !dns_names.is_empty() {
        return Some(Lack::DnsNames(dns_names));
    }
    let canonical =
        |addresses: &[IpAddr]| -> Vec<_> { addresses.iter().map(IpAddr::to_canonical).collect() };
    let addresses = missing(&canonical(&leaf.addresses), &canonical(&template.addresses));
    if !addresses.is_empty() {
        return Some(Lack::Addresses(addresses));
    }
    let has_organization = leaf.organizations.contains(&template.organization);
    (!has_organization).then(|| Lack::Organization(template.organization.clone()))
}

/// A caller's slip must not turn into a panic in duration arithmetic.
fn unit(random: f64) -> f64 {
    if random.is_finite() {
        random.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

fn missing<T: Clone + Ord>(has: &[T], wants: &[T]) -> Vec<T> {
    let has: BTreeSet<_> = has.iter().collect();
    wants
        .iter()
        .filter(|item| !has.contains(item))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata::at;

    #[test]
    fn a_certificate_rotates_between_70_and_90_percent_of_its_life() {
        let cases = [
            (0.0, 700),
            (0.5, 800),
            (0.999, 899),
            (f64::NAN, 700),
            (7.0, 900),
        ];
        for (random, seconds) in cases {
            let deadline = deadline(at(5_000), at(6_000), random);
            let whole = deadline.duration_since(at(5_000)).unwrap().as_secs_f64();
            assert!(
                (whole - f64::from(seconds)).abs() < 1.0,
                "{random}: {whole}"
            );
        }
        let upside_down = deadline(at(6_000), at(5_000), 0.5);
        assert_eq!(
            upside_down,
            at(6_000),
            "a certificate without a life is due"
        );
    }

    #[test]
    fn a_certificate_is_used_for_a_while_even_if_it_looks_due() {
        let life = (at(5_000), at(6_000));
        assert_eq!(next(life, at(5_300), 0.0), at(5_700));
        assert_eq!(next(life, at(5_950), 0.5), at(5_982));
    }

    #[test]
    fn a_fresh_certificate_tells_of_a_wrong_clock() {
        let life = (at(5_000), at(6_000));
        let cases = [
            (5_300, ClockSign::Plausible),
            (6_000, ClockSign::Plausible),
            (4_700, ClockSign::Plausible),
            (
                4_699,
                ClockSign::Behind {
                    by: Duration::from_secs(301),
                },
            ),
            (
                6_060,
                ClockSign::Ahead {
                    by: Duration::from_secs(60),
                },
            ),
        ];
        for (now, sign) in cases {
            assert_eq!(clock_sign(life, at(now)), sign, "{now}");
        }
    }

    #[test]
    fn attempts_are_spaced_by_powers_of_two_and_then_evenly() {
        let plain: Vec<u64> = (0..8).map(|n| pause_after(n, 0.0).as_secs()).collect();
        assert_eq!(plain, [0, 2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(pause_after(4, 1.0), Duration::from_millis(17_600));
        assert_eq!(pause_after(5, 1.0), Duration::from_secs(32));
        assert_eq!(pause_after(u32::MAX, 0.3), Duration::from_secs(32));
    }

    #[test]
    fn a_certificate_may_carry_more_than_was_asked_for_but_not_less() {
        let leaf = Leaf {
            common_name: "system:node:n1".to_owned(),
            organizations: vec!["extra".to_owned(), "system:nodes".to_owned()],
            dns_names: vec!["n1".to_owned(), "n1.example".to_owned()],
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            not_before: at(0),
            not_after: at(1),
            public_der: Vec::new(),
        };
        let wanted = |change: fn(&mut Template)| {
            let mut template = Template::client("n1");
            change(&mut template);
            lack(&leaf, &template)
        };
        assert_eq!(wanted(|_| {}), None);
        let covered = |template: &mut Template| {
            template.dns_names.push("n1".to_owned());
            template.addresses.push("::ffff:10.0.0.1".parse().unwrap());
        };
        assert_eq!(wanted(covered), None);
        assert_eq!(
            wanted(|template| template.common_name = "system:node:n2".to_owned()),
            Some(Lack::CommonName {
                has: "system:node:n1".to_owned(),
                wants: "system:node:n2".to_owned()
            })
        );
        assert_eq!(
            wanted(|template| template.dns_names.push("n2".to_owned())),
            Some(Lack::DnsNames(vec!["n2".to_owned()]))
        );
        assert_eq!(
            wanted(|template| template.addresses.push("10.0.0.2".parse().unwrap())),
            Some(Lack::Addresses(vec!["10.0.0.2".parse().unwrap()]))
        );
        assert_eq!(
            wanted(|template| template.organization = "others".to_owned()),
            Some(Lack::Organization("others".to_owned()))
        );
    }
}
