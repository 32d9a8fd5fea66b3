//! The images that a node lists: the largest ones, so that the scheduler can put
//! pods where they are.

use k8s_openapi::api::core::v1::ContainerImage;

use crate::runtime::RuntimeImage;

const MOST_NAMES: usize = 5;

/// At most `limit` images (`None`: all), largest first.
pub fn listed(images: &[RuntimeImage], limit: Option<usize>) -> Vec<ContainerImage> {
    let mut sorted: Vec<&RuntimeImage> = images.iter().collect();
    sorted.sort_by(|left, right| right.size.cmp(&left.size).then(right.id.cmp(&left.id)));
    sorted.truncate(limit.unwrap_or(usize::MAX));
    sorted.into_iter().map(shown).collect()
}

fn shown(image: &RuntimeImage) -> ContainerImage {
    let names = image.repo_digests.iter().chain(&image.repo_tags);
    let names: Vec<String> = names.take(MOST_NAMES).cloned().collect();
    ContainerImage {
        names: Some(names),
        size_bytes: Some(i64::try_from(image.size).unwrap_or(i64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, size: u64, digests: &[&str], tags: &[&str]) -> RuntimeImage {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        RuntimeImage {
            id: id.to_owned(),
            repo_digests: owned(digests),
            repo_tags: owned(tags),
            size,
        }
    }

    #[test]
    fn the_largest_come_first_and_equal_sizes_by_id_from_the_end() {
        let images = [
            image("a", 1, &[], &["a:1"]),
            image("b", 9, &[], &["b:1"]),
            image("c", 1, &[], &["c:1"]),
        ];
        for (limit, expected) in [
            (None, vec!["b:1", "c:1", "a:1"]),
            (Some(2), vec!["b:1", "c:1"]),
            (Some(0), vec![]),
        ] {
            let listed = listed(&images, limit);
            let names: Vec<String> = listed
                .into_iter()
                .flat_map(|image| image.names.unwrap())
                .collect();
            assert_eq!(names, expected, "{limit:?}");
        }
    }

    #[test]
    fn an_image_shows_five_names_digests_first() {
        let image = image("a", 7, &["d1", "d2"], &["t1", "t2", "t3", "t4"]);
        let listed = listed(&[image], None);
        assert_eq!(
            listed[0].names.as_deref().unwrap(),
            ["d1", "d2", "t1", "t2", "t3"]
        );
        assert_eq!(listed[0].size_bytes, Some(7));
    }
}
