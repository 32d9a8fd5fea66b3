//! What the tests of this crate stand on: a machine of files, and a runtime that
//! has images and registries.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use seams::cri::{
    Image, ImageStatusRequest, ImageStatusResponse, ListImagesRequest, ListImagesResponse,
    PullImageRequest, PullImageResponse,
};
use seams::host::{
    DefaultRoute, DiskFigures, Executed, FileEntry, Hint, HostError, Interface, Listing,
    MachineFacts, Program,
};
use seams::runtime::{Answer, Code};
use seams::{Host, Runtime, RuntimeError, SharedClock};

use crate::credentials::{Credential, Login, LoginFields, SecretName, Source};

/// Of the secret `secret` in namespace `ns`.
pub(crate) fn credential(secret: &str, username: &str) -> Credential {
    let fields = LoginFields {
        username: username.to_owned(),
        ..LoginFields::default()
    };
    Credential {
        login: Login::new(fields),
        source: Source::Secret(SecretName {
            uid: format!("uid-{secret}"),
            namespace: "ns".to_owned(),
            name: secret.to_owned(),
        }),
    }
}

/// A machine that has files and nothing else.
#[derive(Debug, Default)]
pub(crate) struct FilesOnly {
    files: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    programs: Mutex<BTreeMap<PathBuf, Behaviour>>,
    runs: Mutex<Vec<Program>>,
}

/// What a program does.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// After a second.
    Prints(String),
    Fails,
    Hangs,
    Floods,
}

impl FilesOnly {
    pub(crate) fn put(&self, path: &str, content: &str) {
        let mut files = self.files.lock().unwrap();
        files.insert(path.into(), content.into());
    }

    pub(crate) fn put_program(&self, path: &str, behaviour: Behaviour) {
        self.programs.lock().unwrap().insert(path.into(), behaviour);
    }

    /// What programs were run with since the last question.
    pub(crate) fn runs(&self) -> Vec<Program> {
        std::mem::take(&mut self.runs.lock().unwrap())
    }

    pub(crate) fn remove(&self, path: &str) {
        self.files.lock().unwrap().remove(Path::new(path)).unwrap();
    }
}

impl Host for FilesOnly {
    fn machine(&self) -> Result<MachineFacts, HostError> {
        Ok(MachineFacts::default())
    }

    fn disk(&self, _path: &Path) -> Result<DiskFigures, HostError> {
        Ok(DiskFigures::default())
    }

    fn interfaces(&self) -> Result<Vec<Interface>, HostError> {
        Ok(Vec::new())
    }

    fn default_routes(&self) -> Result<Option<Vec<DefaultRoute>>, HostError> {
        Ok(None)
    }

    fn resolve<'a>(&'a self, _name: &'a str) -> seams::host::Answer<'a, Vec<IpAddr>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, HostError> {
        Ok(self.files.lock().unwrap().get(path).cloned())
    }

    fn list(&self, path: &Path) -> Result<Option<Listing>, HostError> {
        let files = self.files.lock().unwrap();
        let entry = |name: &Path, content: &[u8]| FileEntry {
            name: name.display().to_string(),
            regular: true,
            size: content.len() as u64,
        };
        if let Some(content) = files.get(path) {
            return Ok(Some(Listing::File(entry(path, content))));
        }
        let inside = files.iter().filter(|(file, _)| file.parent() == Some(path));
        let inside = inside.map(|(file, content)| {
            let name = Path::new(file.file_name().unwrap());
            entry(name, content)
        });
        let inside: Vec<FileEntry> = inside.collect();
        let programs = self.programs.lock().unwrap();
        let has_program = programs
            .keys()
            .any(|program| program.parent() == Some(path));
        let exists = has_program || !inside.is_empty();
        Ok(exists.then_some(Listing::Directory(inside)))
    }

    fn is_program(&self, path: &Path) -> Result<bool, HostError> {
        Ok(self.programs.lock().unwrap().contains_key(path))
    }

    fn execute(&self, program: Program) -> seams::host::Answer<'_, Executed> {
        let behaviour = self.programs.lock().unwrap()[&program.path].clone();
        self.runs.lock().unwrap().push(program);
        let executed = |output: Vec<u8>, outcome, is_cut| Executed {
            outcome,
            output,
            is_cut,
            complaint: "no luck".to_owned(),
        };
        Box::pin(async move {
            tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>())
                .await
                .unwrap_err();
            match behaviour {
                Behaviour::Prints(text) => Ok(executed(text.into_bytes(), Ok(()), false)),
                Behaviour::Fails => Ok(executed(
                    Vec::new(),
                    Err("exit status: 1".to_owned()),
                    false,
                )),
                Behaviour::Hangs => std::future::pending().await,
                Behaviour::Floods => Ok(executed(vec![b'['; 1 << 20], Ok(()), true)),
            }
        })
    }

    fn hint(&self, _path: &Path) -> Hint {
        Box::pin(std::future::pending())
    }

    fn write(&self, path: &Path, content: &[u8], _mode: u32) -> Result<(), HostError> {
        let mut files = self.files.lock().unwrap();
        files.insert(path.to_owned(), content.to_owned());
        Ok(())
    }
}

/// A runtime with images. A pull takes a second, if it is not told to take longer.
#[derive(Debug)]
pub(crate) struct Registry {
    clock: SharedClock,
    state: Mutex<RegistryState>,
}

#[derive(Debug, Default)]
pub(crate) struct RegistryState {
    /// Images on the machine: names and sizes.
    pub(crate) present: BTreeMap<String, u64>,
    /// Images that only some users may pull; all others are for anybody.
    pub(crate) private: BTreeMap<String, BTreeSet<String>>,
    /// Pulls of these fail so, whoever asks.
    pub(crate) broken: BTreeMap<String, RuntimeError>,
    /// How long pulls of these take.
    pub(crate) slow: BTreeMap<String, Duration>,
    /// How the next look at an image fails.
    pub(crate) blind: Option<RuntimeError>,
    /// The last look at an image.
    pub(crate) looked: Option<ImageStatusRequest>,
    /// `IMAGE as USER at SECOND`, as pulls begin.
    pub(crate) begun: Vec<String>,
    pub(crate) last: Option<PullImageRequest>,
    under_way: usize,
    /// The most that ran at the same time.
    pub(crate) most: usize,
}

pub(crate) const PULL_TAKES: Duration = Duration::from_secs(1);
pub(crate) const SIZE: u64 = 4096;

impl Registry {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap()
    }

    pub(crate) fn begun(&self) -> Vec<String> {
        self.state().begun.clone()
    }

    async fn serve(&self, request: PullImageRequest) -> Result<PullImageResponse, RuntimeError> {
        let image = request.image.clone().unwrap().image;
        let user = request.auth.clone().map(|auth| auth.username);
        let _under_way = self.begin(&image, user.as_deref(), request);
        let takes = self.state().slow.get(&image).copied();
        self.clock.sleep(takes.unwrap_or(PULL_TAKES)).await;
        let mut state = self.state();
        if let Some(error) = state.broken.get(&image) {
            return Err(error.clone());
        }
        let allowed = state.private.get(&image);
        let user = user.unwrap_or_default();
        if allowed.is_some_and(|allowed| !allowed.contains(&user)) {
            let text = format!("{user} is denied");
            return Err(RuntimeError::new("PullImage", Code::Unknown, text));
        }
        state.present.insert(image.clone(), SIZE);
        Ok(PullImageResponse {
            image_ref: format!("id-of-{image}"),
        })
    }

    fn begin(&self, image: &str, user: Option<&str>, request: PullImageRequest) -> UnderWay<'_> {
        let second = self.clock.uptime().as_secs();
        let mut state = self.state();
        let user = user.unwrap_or("anybody");
        state.begun.push(format!("{image} as {user} at {second}"));
        state.last = Some(request);
        state.under_way += 1;
        state.most = state.most.max(state.under_way);
        UnderWay(self)
    }
}

/// Until it ends, or is given up.
struct UnderWay<'a>(&'a Registry);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state().under_way -= 1;
    }
}

fn image(name: &str, size: u64) -> Image {
    Image {
        id: format!("id-of-{name}"),
        repo_tags: vec![name.to_owned()],
        size,
        ..Image::default()
    }
}

impl Runtime for Registry {
    fn image_status(&self, request: ImageStatusRequest) -> Answer<'_, ImageStatusResponse> {
        let mut state = self.state();
        let name = request.image.clone().unwrap().image;
        state.looked = Some(request);
        let answer = match state.blind.take() {
            Some(error) => Err(error),
            None => Ok(ImageStatusResponse {
                image: state.present.get(&name).map(|&size| image(&name, size)),
                ..ImageStatusResponse::default()
            }),
        };
        Box::pin(std::future::ready(answer))
    }

    fn list_images(&self, _request: ListImagesRequest) -> Answer<'_, ListImagesResponse> {
        let state = self.state();
        let images = state.present.iter().map(|(name, &size)| image(name, size));
        let answer = ListImagesResponse {
            images: images.collect(),
        };
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn pull_image(&self, request: PullImageRequest) -> Answer<'_, PullImageResponse> {
        Box::pin(self.serve(request))
    }
}
