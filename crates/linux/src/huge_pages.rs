//! The huge pages that are set aside, one directory for each size.

use seams::host::{HostError, HugePages};

use crate::files::{Files, Malformed};

const DIRECTORY: &str = "/sys/kernel/mm/hugepages";

pub(crate) fn look(files: &Files) -> Result<Vec<HugePages>, HostError> {
    // A kernel without huge pages has no such directory.
    let names = files.names(DIRECTORY)?.unwrap_or_default();
    let mut pages = Vec::new();
    for name in names {
        let size = files.parsed(DIRECTORY, &name, page_size)?;
        let path = format!("{DIRECTORY}/{name}/nr_hugepages");
        let count = files.parsed(&path, &files.text(&path)?, page_count)?;
        pages.push(HugePages { size, count });
    }
    pages.sort_unstable_by_key(|pages| pages.size);
    Ok(pages)
}

/// Of a name such as `hugepages-2048kB`, in bytes.
fn page_size(name: &str) -> Result<u64, Malformed> {
    let digits = name.strip_prefix("hugepages-");
    let digits = digits.and_then(|rest| rest.strip_suffix("kB"));
    let size = digits.and_then(|digits| digits.parse::<u64>().ok());
    size.and_then(|size| size.checked_mul(1024))
        .ok_or_else(|| Malformed(format!("{name} names no size of huge pages")))
}

fn page_count(text: &str) -> Result<u64, Malformed> {
    let count = text.trim();
    count
        .parse()
        .map_err(|_| Malformed(format!("no number of pages: {count:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{put, tree};

    #[test]
    fn every_size_is_listed_smallest_first_with_zero_pages_too() {
        let root = tree(&[
            (
                "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
                "0\n",
            ),
            (
                "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
                "512\n",
            ),
            ("sys/kernel/mm/hugepages/hugepages-64kB/nr_hugepages", "1\n"),
        ]);
        let files = Files::new(root.path().to_owned());
        let pages = look(&files).unwrap();
        let expected = [(64, 1), (2048, 512), (1_048_576, 0)];
        let expected = expected.map(|(size, count)| HugePages {
            size: size * 1024,
            count,
        });
        assert_eq!(pages, expected);

        put(
            root.path(),
            "sys/kernel/mm/hugepages/hugepages-64kB/nr_hugepages",
            "many\n",
        );
        let error = look(&files).unwrap_err().to_string();
        assert!(
            error.contains("nr_hugepages: no number of pages: \"many\""),
            "{error}"
        );
    }

    #[test]
    fn a_kernel_without_huge_pages_has_none() {
        let root = tree(&[]);
        assert_eq!(look(&Files::new(root.path().to_owned())).unwrap(), []);
    }

    #[test]
    fn a_name_gives_the_size_or_an_error() {
        assert_eq!(page_size("hugepages-2048kB"), Ok(2048 * 1024));
        for bad in [
            "hugepages",
            "hugepages-kB",
            "hugepages-2048",
            "hugepages-2MB",
            "hugepages-18446744073709551615kB",
        ] {
            assert!(page_size(bad).is_err(), "{bad}");
        }
    }
}
