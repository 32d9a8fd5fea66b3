//! What a PKCS#10 request asks for, and certificates made of one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rcgen::SigningKey as _;
use ring::rand::{SecureRandom as _, SystemRandom};
use thiserror::Error;
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::AttributeTypeAndValue;
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::{DERWriter, Tag};

use super::pair::{Pair, PairError, encode};

pub(crate) const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
pub(crate) const CLIENT_KUBELET_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(crate) const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

const TAG: &str = "CERTIFICATE REQUEST";

/// Why a request could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum RequestFault {
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    NotPem,
    #[error("it is not base64")]
    NotBase64,
    #[error("asn1: {0}")]
    Malformed(String),
    #[error("it is not signed by the key that it carries")]
    NoPossession,
}

/// What a request says, and its parts as they were written, to be copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CertificateRequest {
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
    pub(crate) dns_names: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) emails: Vec<String>,
    pub(crate) uris: Vec<String>,
    subject: Vec<u8>,
    public_key: Vec<u8>,
}

impl CertificateRequest {
    /// As the field of an API object has it.
    pub(crate) fn of_base64(text: &str) -> Result<Self, RequestFault> {
        let pem = STANDARD.decode(text).map_err(|_| RequestFault::NotBase64)?;
        Self::of_pem(&pem)
    }

    pub(crate) fn of_pem(pem: &[u8]) -> Result<Self, RequestFault> {
        let block = pem::parse(pem).map_err(|_| RequestFault::NotPem)?;
        if block.tag() != TAG {
            return Err(RequestFault::NotPem);
        }
        Self::of_der(block.contents())
    }

    fn of_der(der: &[u8]) -> Result<Self, RequestFault> {
        let malformed = |cause: &dyn std::fmt::Display| RequestFault::Malformed(cause.to_string());
        let (rest, request) =
            X509CertificationRequest::from_der(der).map_err(|cause| malformed(&cause))?;
        if !rest.is_empty() {
            return Err(malformed(&"trailing data"));
        }
        request
            .verify_signature()
            .map_err(|_| RequestFault::NoPossession)?;
        let info = &request.certification_request_info;
        // A name that is not read here would be copied unseen.
        let text = |value: &AttributeTypeAndValue<'_>| {
            let text = value.as_str().map(str::to_owned);
            text.map_err(|_| malformed(&"a name is in a form that is not read"))
        };
        let common_names = info.subject.iter_common_name().map(text);
        let organizations = info.subject.iter_organization().map(text);
        let extensions = info.iter_attributes().filter(|attribute| {
            matches!(
                attribute.parsed_attribute(),
                ParsedCriAttribute::ExtensionRequest(_)
            )
        });
        if extensions.count() > 1 {
            return Err(malformed(&"it asks for extensions twice"));
        }
        let mut found = Self {
            // The last one, should there be several: upstream's reading.
            common_name: common_names
                .collect::<Result<Vec<_>, _>>()?
                .pop()
                .unwrap_or_default(),
            organizations: organizations.collect::<Result<_, _>>()?,
            subject: info.subject.as_raw().to_vec(),
            public_key: info.subject_pki.raw.to_vec(),
            ..Self::default()
        };
        for extension in request.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                names
                    .general_names
                    .iter()
                    .for_each(|name| found.add_name(name));
            }
        }
        Ok(found)
    }

    /// Other kinds of names are not copied into certificates, as upstream.
    fn add_name(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
            GeneralName::RFC822Name(name) => self.emails.push((*name).to_owned()),
            GeneralName::URI(name) => self.uris.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => self.addresses.extend(address(bytes)),
            _ => {}
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|octets| Ipv4Addr::from(octets).into());
    let v6 = <[u8; 16]>::try_from(bytes).map(|octets| Ipv6Addr::from(octets).into());
    v4.or(v6).ok()
}

/// What a certificate may be used for, of what requests can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    DigitalSignature,
    KeyEncipherment,
    ClientAuth,
    ServerAuth,
}

impl Usage {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "digital signature" => Some(Self::DigitalSignature),
            "key encipherment" => Some(Self::KeyEncipherment),
            "client auth" => Some(Self::ClientAuth),
            "server auth" => Some(Self::ServerAuth),
            _ => None,
        }
    }
}

/// A certificate of what a request asks for, as PEM.
///
/// Written field by field: subjects are copied as they are, and rcgen's can carry only
/// one organization, where a user may be in many groups.
pub(crate) fn issue(
    request: &CertificateRequest,
    usages: &[Usage],
    from: Timestamp,
    until: Timestamp,
    ca: &Pair,
) -> Result<String, PairError> {
    let failed = |cause: &dyn std::fmt::Display| PairError::Issue(cause.to_string());
    let (_, authority) =
        X509Certificate::from_der(ca.certificate_der()).map_err(|cause| failed(&cause))?;
    let mut serial = [0; 16];
    SystemRandom::new()
        .fill(&mut serial)
        .map_err(|_| PairError::Random)?;
    // Positive, and never shorter than it looks.
    serial[0] = serial[0] & 0x7f | 0x40;
    let moment = |time: Timestamp| {
        OffsetDateTime::from_unix_timestamp(time.as_second()).map_err(|cause| failed(&cause))
    };
    let (from, until) = (moment(from)?, moment(until)?);
    let key_id = match authority
        .get_extension_unique(&x509_parser::oid_registry::OID_X509_EXT_SUBJECT_KEY_IDENTIFIER)
    {
        Ok(Some(extension)) => match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => id.0.to_vec(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    let signed = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer
                .next()
                .write_tagged(Tag::context(0), |writer| writer.write_u8(2));
            writer.next().write_bigint_bytes(&serial, true);
            write_algorithm(writer.next());
            writer.next().write_der(authority.subject().as_raw());
            writer.next().write_sequence(|writer| {
                write_time(writer.next(), from);
                write_time(writer.next(), until);
            });
            writer.next().write_der(&request.subject);
            writer.next().write_der(&request.public_key);
            writer.next().write_tagged(Tag::context(3), |writer| {
                writer.write_sequence_of(|writer| {
                    write_extensions(writer, request, usages, &key_id);
                });
            });
        });
    });
    let signature = ca.key().sign(&signed).map_err(|cause| failed(&cause))?;
    let certificate = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(&signed);
            write_algorithm(writer.next());
            writer
                .next()
                .write_bitvec_bytes(&signature, signature.len() * 8);
        });
    });
    Ok(encode("CERTIFICATE", &certificate))
}

fn write_algorithm(writer: DERWriter<'_>) {
    // ECDSA with SHA-256: the CA's key is of that kind.
    writer.write_sequence(|writer| writer.next().write_oid(&oid(&[1, 2, 840, 10045, 4, 3, 2])));
}

/// The short form until 2049, the long one from then on.
fn write_time(writer: DERWriter<'_>, moment: OffsetDateTime) {
    if (1950..2050).contains(&moment.year()) {
        writer.write_utctime(&UTCTime::from_datetime(moment));
    } else {
        writer.write_generalized_time(&GeneralizedTime::from_datetime(moment));
    }
}

fn write_extensions(
    writer: &mut yasna::DERWriterSeq<'_>,
    request: &CertificateRequest,
    usages: &[Usage],
    key_id: &[u8],
) {
    let mut bits = 0_u8;
    let mut purposes = Vec::new();
    for usage in usages {
        match usage {
            Usage::DigitalSignature => bits |= 0x80,
            Usage::KeyEncipherment => bits |= 0x20,
            Usage::ServerAuth => purposes.push(oid(&[1, 3, 6, 1, 5, 5, 7, 3, 1])),
            Usage::ClientAuth => purposes.push(oid(&[1, 3, 6, 1, 5, 5, 7, 3, 2])),
        }
    }
    if bits != 0 {
        // Named bits: those that are zero at the end are left out.
        let length = 8 - bits.trailing_zeros() as usize;
        extension(writer, &[2, 5, 29, 15], true, |writer| {
            writer.write_bitvec_bytes(&[bits], length);
        });
    }
    if !purposes.is_empty() {
        extension(writer, &[2, 5, 29, 37], false, |writer| {
            writer.write_sequence_of(|writer| {
                for purpose in &purposes {
                    writer.next().write_oid(purpose);
                }
            });
        });
    }
    // Empty: this is no CA.
    extension(writer, &[2, 5, 29, 19], true, |writer| {
        writer.write_sequence(|_| {});
    });
    if !key_id.is_empty() {
        extension(writer, &[2, 5, 29, 35], false, |writer| {
            writer.write_sequence(|writer| {
                writer
                    .next()
                    .write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(key_id));
            });
        });
    }
    write_names(writer, request);
}

fn write_names(writer: &mut yasna::DERWriterSeq<'_>, request: &CertificateRequest) {
    let CertificateRequest {
        dns_names,
        addresses,
        emails,
        uris,
        ..
    } = request;
    if dns_names.is_empty() && addresses.is_empty() && emails.is_empty() && uris.is_empty() {
        return;
    }
    extension(writer, &[2, 5, 29, 17], false, |writer| {
        writer.write_sequence_of(|writer| {
            let mut write = |tag: u64, bytes: &[u8]| {
                writer
                    .next()
                    .write_tagged_implicit(Tag::context(tag), |writer| writer.write_bytes(bytes));
            };
            for name in dns_names {
                write(2, name.as_bytes());
            }
            for name in emails {
                write(1, name.as_bytes());
            }
            for address in addresses {
                match address {
                    IpAddr::V4(address) => write(7, &address.octets()),
                    IpAddr::V6(address) => write(7, &address.octets()),
                }
            }
            for name in uris {
                write(6, name.as_bytes());
            }
        });
    });
}

fn extension(
    writer: &mut yasna::DERWriterSeq<'_>,
    id: &[u64],
    critical: bool,
    content: impl FnOnce(DERWriter<'_>),
) {
    writer.next().write_sequence(|writer| {
        writer.next().write_oid(&oid(id));
        if critical {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(&yasna::construct_der(content));
    });
}

fn oid(components: &[u64]) -> ObjectIdentifier {
    ObjectIdentifier::from_slice(components)
}

#[cfg(test)]
pub(crate) mod tests;
