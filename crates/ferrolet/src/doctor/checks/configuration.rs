//! Whether an agent would start with what it is told.

use std::path::PathBuf;

use crate::doctor::finding::Finding;

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    /// Somebody has said how an agent is to run here.
    pub(in crate::doctor) is_told: bool,
    pub(in crate::doctor) file: Option<PathBuf>,
    pub(in crate::doctor) refused: Option<String>,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let Some(refused) = &facts.refused else {
        return Vec::new();
    };
    let cause = format!("an agent would not start with it: {refused}");
    let finding = match &facts.file {
        None => Finding::error("the agent's flags", cause),
        Some(file) => Finding::error(file.display().to_string(), cause)
            .mended_by(format!("ferrolet config validate {}", file.display())),
    };
    vec![finding]
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    match &facts.file {
        None if !facts.is_told => "none yet, the defaults".to_owned(),
        None => "no file, flags and defaults".to_owned(),
        Some(file) => file.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_is_refused_is_named_with_the_reason() {
        let well = Facts {
            is_told: true,
            file: Some("/c.yaml".into()),
            refused: None,
        };
        assert_eq!(judge(&well), []);
        let bad = Facts {
            refused: Some("maxPods: too many".to_owned()),
            ..well
        };
        let found = &judge(&bad)[0];
        assert_eq!(found.object, "/c.yaml");
        assert!(found.cause.contains("maxPods: too many"));
        assert_eq!(
            found.command.as_deref(),
            Some("ferrolet config validate /c.yaml")
        );
    }
}
