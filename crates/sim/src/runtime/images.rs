//! The images of a runtime.

use std::sync::Arc;

use seams::cri;
use sha2::{Digest, Sha256};

use super::ids::hex;
use super::refusal::Refusal;

/// One image; what it is follows from its name alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// The whole name, with registry and tag or digest.
    name: Name,
    /// With its algorithm.
    id: Box<str>,
    /// Where it can be had, exactly as it is.
    repo_digest: Box<str>,
    /// Bytes.
    size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    repository: Box<str>,
    version: Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    Tag(Box<str>),
    /// With its algorithm.
    Digest(Box<str>),
}

impl Name {
    /// `nginx` is short for `docker.io/library/nginx:latest`.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let bad = || Refusal::ImageName(text.to_owned());
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        // A colon before a slash is that of a port.
        let (path, tag) = match name.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (name, None),
        };
        let fit = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        let versions = [tag, digest].into_iter().flatten();
        if !fit(path) || !versions.clone().all(fit) {
            return Err(bad());
        }
        let version = match (digest, tag) {
            (Some(digest), _) if digest.starts_with("sha256:") => Version::Digest(digest.into()),
            (Some(_), _) => return Err(bad()),
            (None, tag) => Version::Tag(tag.unwrap_or("latest").into()),
        };
        let repository = match path.split_once('/') {
            None => format!("docker.io/library/{path}"),
            Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => path.to_owned(),
            Some(_) => format!("docker.io/{path}"),
        };
        Ok(Self {
            repository: repository.into(),
            version,
        })
    }

    fn text(&self) -> String {
        match &self.version {
            Version::Tag(tag) => format!("{}:{tag}", self.repository),
            Version::Digest(digest) => format!("{}@{digest}", self.repository),
        }
    }
}

impl Image {
    fn new(name: Name) -> Self {
        let id: [u8; 32] = Sha256::digest(name.text().as_bytes()).into();
        let digest = match &name.version {
            Version::Digest(digest) => digest.to_string(),
            // Not the id: the two name different documents.
            Version::Tag(_) => format!("sha256:{}", hex(&Sha256::digest(id))),
        };
        Self {
            repo_digest: format!("{}@{digest}", name.repository).into(),
            name,
            id: format!("sha256:{}", hex(&id)).into(),
            size: size(id),
        }
    }

    pub(super) fn id(&self) -> String {
        self.id.to_string()
    }

    pub(super) fn repo_digest(&self) -> String {
        self.repo_digest.to_string()
    }

    fn is(&self, id: &str) -> bool {
        let bare = self.id.strip_prefix("sha256:");
        *self.id == *id || bare == Some(id)
    }

    pub(super) fn repo_tag(&self) -> Option<String> {
        matches!(self.name.version, Version::Tag(_)).then(|| self.name.text())
    }

    fn to_cri(&self) -> cri::Image {
        cri::Image {
            id: self.id(),
            repo_tags: self.repo_tag().into_iter().collect(),
            repo_digests: vec![self.repo_digest()],
            size: self.size,
            ..cri::Image::default()
        }
    }
}

/// From 5 to 260 MiB, and always the same.
fn size([a, b, c, d, ..]: [u8; 32]) -> u64 {
    const MIB: u64 = 1 << 20;
    5 * MIB + u64::from(u32::from_le_bytes([a, b, c, d])) % (255 * MIB)
}

/// The images that are there.
#[derive(Debug, Default)]
pub(super) struct Images(Vec<Arc<Image>>);

impl Images {
    /// By name, by id (with or without its algorithm), or by digest.
    pub(super) fn find(&self, wanted: &str) -> Option<&Arc<Image>> {
        let by_id = self.0.iter().find(|image| image.is(wanted));
        by_id.or_else(|| {
            let name = Name::parse(wanted).ok()?;
            let mut images = self.0.iter();
            images.find(|image| image.name == name || *image.repo_digest == *name.text())
        })
    }

    /// An image that is there is found, and not made again.
    pub(super) fn add(&mut self, name: Name) -> &Image {
        let place = self.0.iter().position(|image| image.name == name);
        let place = place.unwrap_or_else(|| {
            self.0.push(Arc::new(Image::new(name)));
            self.0.len() - 1
        });
        &self.0[place]
    }

    /// It is no error if it is not there.
    pub(super) fn remove(&mut self, wanted: &str) {
        if let Some(found) = self.find(wanted).map(Arc::clone) {
            self.0.retain(|image| image.id != found.id);
        }
    }

    pub(super) fn status(&self, wanted: &str) -> Option<cri::Image> {
        self.find(wanted).map(|image| image.to_cri())
    }

    pub(super) fn list(&self, filter: Option<&cri::ImageFilter>) -> Vec<cri::Image> {
        let wanted = filter.and_then(|filter| filter.image.as_ref());
        match wanted
            .map(|spec| spec.image.as_str())
            .filter(|name| !name.is_empty())
        {
            Some(wanted) => self.status(wanted).into_iter().collect(),
            None => self.0.iter().map(|image| image.to_cri()).collect(),
        }
    }

    /// Bytes.
    pub(super) fn size(&self) -> u64 {
        self.0.iter().map(|image| image.size).sum()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn names_are_made_whole() {
        for (short, whole) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("user/app", "docker.io/user/app:latest"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("localhost/app", "localhost/app:latest"),
            ("registry:5000/app", "registry:5000/app:latest"),
        ] {
            assert_eq!(Name::parse(short).unwrap().text(), whole);
        }
        let pinned = format!("quay.io/app:v1@{DIGEST}");
        let name = Name::parse(&pinned).unwrap();
        assert_eq!(name.text(), format!("quay.io/app@{DIGEST}"));
        for bad in ["", ":tag", "app:", "app@", "app@md5:1", "an app"] {
            assert!(Name::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_image_is_found_by_each_of_its_names() {
        let mut images = Images::default();
        let name = Name::parse("nginx:1.27").unwrap();
        let (id, digest) = {
            let image = images.add(name.clone());
            (image.id(), image.repo_digest())
        };
        let bare = id.strip_prefix("sha256:").unwrap();
        for wanted in [
            "nginx:1.27",
            "docker.io/library/nginx:1.27",
            &id,
            bare,
            &digest,
        ] {
            let found = images.status(wanted).map(|image| image.id);
            assert_eq!(found.as_ref(), Some(&id), "{wanted}");
        }
        assert_eq!(images.status("nginx"), None);
        assert_eq!(images.add(name).id(), id);
        assert_eq!(images.list(None).len(), 1);
        images.remove("other");
        images.remove(&id);
        assert_eq!(images.list(None), []);
    }

    #[test]
    fn the_same_name_is_the_same_image_everywhere() {
        let image = || Image::new(Name::parse("nginx").unwrap());
        assert_eq!(image(), image());
        assert!(image().size >= 5 << 20);
        let pinned = Image::new(Name::parse(&format!("nginx@{DIGEST}")).unwrap());
        assert_eq!(pinned.repo_tag(), None);
        assert!(pinned.repo_digest().ends_with(DIGEST));
    }

    #[test]
    fn a_filter_names_one_image() {
        let mut images = Images::default();
        for name in ["nginx", "redis"] {
            images.add(Name::parse(name).unwrap());
        }
        let list = |name: &str| {
            let image = Some(cri::ImageSpec {
                image: name.to_owned(),
                ..cri::ImageSpec::default()
            });
            images.list(Some(&cri::ImageFilter { image })).len()
        };
        assert_eq!((list(""), list("redis"), list("mysql")), (2, 1, 0));
    }
}
