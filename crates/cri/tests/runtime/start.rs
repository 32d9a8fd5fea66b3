//! What a node asks before it starts.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use seams::cri::{CgroupDriver, VersionResponse, image_service, runtime_service};
use seams::start::{StartError, cgroup_driver, check};
use tonic::Code;

use crate::support::{Manner, Place, Server};

async fn checked(manner: Manner) -> Result<VersionResponse, StartError> {
    let place = Place::new();
    let _server = Server::start(&place.socket("runtime"), manner);
    check(&place.client()).await
}

async fn asked_for_driver(manner: Manner) -> Result<Option<CgroupDriver>, StartError> {
    let place = Place::new();
    let _server = Server::start(&place.socket("runtime"), manner);
    cgroup_driver(&place.client()).await
}

#[tokio::test]
async fn a_runtime_with_both_services_is_taken() {
    let version = checked(Manner::Answers).await.unwrap();
    assert_eq!(version.runtime_version, "v1.2.3");
}

#[tokio::test]
async fn a_runtime_without_cri_v1_is_refused_with_the_likely_reason() {
    let words = "unknown service runtime.v1.RuntimeService";
    let error = checked(Manner::Refuses(Code::Unimplemented, words)).await;
    let said = error.unwrap_err().to_string();
    assert!(said.contains(words), "{said}");
    assert!(said.contains("disabled_plugins"), "{said}");

    let error = checked(Manner::Refuses(Code::Unavailable, "later")).await;
    assert!(matches!(error, Err(StartError::Call(_))), "{error:?}");
}

#[tokio::test]
async fn a_runtime_that_lacks_one_of_the_two_services_is_refused() {
    const IMAGES: &[&str] = &[image_service::IMAGE_FS_INFO];
    const CONTAINERS: &[&str] = &[runtime_service::VERSION];
    for paths in [IMAGES, CONTAINERS] {
        let error = checked(Manner::RefusesAt(paths, Code::Unimplemented)).await;
        let Err(StartError::NoV1(error)) = error else {
            panic!("{paths:?}: {error:?}");
        };
        assert_eq!(error.message, paths[0]);
        // Who is there and has no answer just now may have one later.
        let error = checked(Manner::RefusesAt(paths, Code::Unavailable)).await;
        assert!(matches!(error, Err(StartError::Call(_))), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_to_version_must_be_whole_and_of_our_version() {
    let whole = VersionResponse {
        version: "0.1.0".to_owned(),
        runtime_name: "lab".to_owned(),
        runtime_version: "1".to_owned(),
        runtime_api_version: "v1".to_owned(),
    };
    for (change, words) in [
        (|v: &mut VersionResponse| v.version.clear(), "version \"\""),
        (|v| v.version = "0.2.0".to_owned(), "version \"0.2.0\""),
        (|v| v.runtime_name.clear(), "lacks its name"),
        (|v| v.runtime_version.clear(), "lacks its version"),
        (|v| v.runtime_api_version.clear(), "lacks its API version"),
    ] as [(fn(&mut VersionResponse), &str); 5]
    {
        let mut version = whole.clone();
        change(&mut version);
        let error = checked(Manner::Introduces(version)).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn the_cgroup_driver_is_the_runtimes_where_it_names_one() {
    for (answer, driver) in [
        (Some(0), Some(CgroupDriver::Systemd)),
        (Some(1), Some(CgroupDriver::Cgroupfs)),
        (None, None),
    ] {
        let asked = asked_for_driver(Manner::Driver(answer)).await;
        assert_eq!(asked, Ok(driver));
    }
    let unknown = asked_for_driver(Manner::Driver(Some(7))).await;
    assert_eq!(unknown, Err(StartError::CgroupDriver(7)));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_older_than_the_question_leaves_the_driver_to_the_node() {
    let before = tokio::time::Instant::now();
    let refusal = Manner::Refuses(Code::Unimplemented, "method RuntimeConfig not implemented");
    assert_eq!(asked_for_driver(refusal).await, Ok(None));
    assert_eq!(before.elapsed(), Duration::ZERO, "it is asked once");
}

#[tokio::test]
async fn a_runtime_that_is_starting_can_be_asked_again() {
    let left = Arc::new(AtomicUsize::new(1));
    let place = Place::new();
    let _server = Server::start(&place.socket("runtime"), Manner::Stumbles(left));
    let client = place.client();
    let first = cgroup_driver(&client).await;
    assert!(matches!(first, Err(StartError::Call(_))), "{first:?}");
    assert!(cgroup_driver(&client).await.is_ok());
}
