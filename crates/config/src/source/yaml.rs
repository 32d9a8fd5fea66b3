//! The YAML path: events of the parser become a tree, as Go's YAML decoder would compose it.

use std::borrow::Cow;
use std::ops::Range;

use granit_parser::{
    ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, StrInput, StructureStyle, options,
};

use super::builder::{Builder, Replaced};
use super::document::{Document, Duplicate, MAX_DEPTH, MAX_DUPLICATES, SyntaxError};
use super::scalar::{Scalar, Tag, resolve};
use super::text::{count_from_1, place_at};
use super::tree::{List, Map, Node, Place, Value};

/// Reads the first document of a YAML text.
pub(super) fn parse(text: &str) -> Result<Document, SyntaxError> {
    let options = options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut events = Parser::new_from_str_with_options(text, options);
    let mut composer = Composer::new(text.contains('&'));
    let mut layout = Layout::new(text);
    let ignored = loop {
        let Some(event) = events.next_event() else {
            break None;
        };
        let (event, span) = event.map_err(|error| explain(&error, text))?;
        layout.check(&event, span.start)?;
        let place = place_of(span.start);
        let (part, anchor) = match event {
            Event::Scalar(mut scalar, style, anchor, tag) => {
                if layout.runs_to_the_end(style, span.end) && scalar.ends_with('\n') {
                    scalar.to_mut().pop();
                }
                let tag = tag.map(|tag| {
                    let name = tag.suffix_in_namespace("tag:yaml.org,2002:");
                    name.map_or(Tag::Other, |name| Tag::from_name(&name))
                });
                let part = Part::Scalar {
                    text: scalar,
                    plain: style == ScalarStyle::Plain,
                    tag,
                };
                (part, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (Part::OpenList, anchor),
            Event::MappingStart(_, anchor, _) => (Part::OpenMap, anchor),
            Event::SequenceEnd | Event::MappingEnd => (Part::Close, 0),
            Event::Alias(anchor) => (Part::Alias(anchor), 0),
            Event::DocumentStart(_, version) => {
                if version.is_some_and(|version| (version.major, version.minor) != (1, 1)) {
                    return Err(SyntaxError::new(
                        place,
                        "the kubelet reads YAML 1.1 only; remove the %YAML line",
                    ));
                }
                continue;
            }
            Event::DocumentEnd => break next_place(&mut events),
            _ => continue,
        };
        composer.take(part, place, anchor)?;
    };
    Ok(Document {
        root: composer.builder.finish(),
        duplicates: composer.duplicates,
        ignored,
    })
}

/// Where the text goes on after the first document, if it does.
fn next_place<'t>(events: &mut Parser<'t, StrInput<'t>>) -> Option<Place> {
    match events.next_event()? {
        Ok((Event::StreamEnd, _)) => None,
        Ok((_, span)) => Some(place_of(span.start)),
        Err(error) => Some(place_of(*error.marker())),
    }
}

fn place_of(marker: Marker) -> Place {
    Place {
        line: u32::try_from(marker.line()).unwrap_or(u32::MAX),
        column: count_from_1(marker.col()),
    }
}

/// Where upstream looks at the layout of the text with other eyes than the parser.
struct Layout<'t> {
    text: &'t str,
    has_tabs: bool,
    /// Whether the last line has content, but no line break.
    breaks_off: bool,
    /// Whether the open containers are in brackets, innermost last.
    in_brackets: Vec<bool>,
}

impl<'t> Layout<'t> {
    fn new(text: &'t str) -> Self {
        let last_line = text.rsplit(['\n', '\r']).next().unwrap_or_default();
        Self {
            text,
            has_tabs: text.contains('\t'),
            breaks_off: !last_line.trim_matches(' ').is_empty(),
            in_brackets: Vec::new(),
        }
    }

    /// Refuses tabs that indent a line outside of brackets; the parser lets some of them pass.
    fn check(&mut self, event: &Event<'_>, start: Marker) -> Result<(), SyntaxError> {
        if !self.has_tabs {
            return Ok(());
        }
        let brackets = self.in_brackets.last() == Some(&true);
        match event {
            Event::SequenceStart(style, ..) | Event::MappingStart(style, ..) => {
                let opens_brackets = *style == StructureStyle::Flow;
                self.in_brackets.push(brackets || opens_brackets);
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.in_brackets.pop();
                return Ok(());
            }
            Event::Scalar(..) | Event::Alias(_) => {}
            _ => return Ok(()),
        }
        if brackets {
            return Ok(());
        }
        let indents = |byte| matches!(byte, b' ' | b'\t' | b'-' | b'?');
        let line = line_before(self.text, start);
        if line.contains('\t') && !line.starts_with("---") && line.bytes().all(indents) {
            return Err(SyntaxError::new(tab_place(self.text, start), TAB));
        }
        Ok(())
    }

    /// Whether a block of text ends with the file, on a line without a line break. Upstream adds
    /// none there; the parser does.
    fn runs_to_the_end(&self, style: ScalarStyle, end: Marker) -> bool {
        self.breaks_off
            && matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
            && end.byte_offset() == Some(self.text.len())
    }
}

/// What stands before a marker on its line.
fn line_before(text: &str, marker: Marker) -> &str {
    let before = marker.byte_offset().and_then(|end| text.get(..end));
    let lines = before.map(|before| before.rsplit(['\n', '\r']));
    lines.and_then(|mut lines| lines.next()).unwrap_or_default()
}

/// The tab that an error at a marker is about: on the line before it, or the next one after it.
fn tab_place(text: &str, marker: Marker) -> Place {
    let at = marker.byte_offset().unwrap_or_default();
    let line = line_before(text, marker);
    let before = line.find('\t').map(|tab| at - line.len() + tab);
    let after = || Some(at + text.get(at..)?.find('\t')?);
    before
        .or_else(after)
        .map_or(place_of(marker), |tab| place_at(text, tab))
}

/// A piece of a document.
#[derive(Clone)]
enum Part<'t> {
    Scalar {
        text: Cow<'t, str>,
        plain: bool,
        tag: Option<Tag>,
    },
    OpenList,
    OpenMap,
    Close,
    /// The content of the anchor with this number, once more.
    Alias(usize),
}

/// Puts parts together, and repeats what aliases stand for.
struct Composer<'t> {
    builder: Builder,
    duplicates: Vec<Duplicate>,
    /// The depths of the maps that await the value of a merge key, innermost last.
    merges: Vec<usize>,
    effort: Effort,
    /// The parts so far, if the document has anchors.
    recording: Option<Recording<'t>>,
}

impl<'t> Composer<'t> {
    fn new(has_anchors: bool) -> Self {
        Self {
            builder: Builder::default(),
            duplicates: Vec::new(),
            merges: Vec::new(),
            effort: Effort::default(),
            recording: has_anchors.then(Recording::default),
        }
    }

    /// Takes the next part of the document.
    fn take(&mut self, part: Part<'t>, place: Place, anchor: usize) -> Result<(), SyntaxError> {
        if let Some(recording) = &mut self.recording {
            recording.add(part.clone(), place, anchor);
        }
        match part {
            Part::Alias(anchor) => self.repeat(anchor, place),
            part => self.place_part(part, place, false),
        }
    }

    /// Takes the parts of an anchor once more, where an alias stands for them.
    fn repeat(&mut self, anchor: usize, place: Place) -> Result<(), SyntaxError> {
        let Some(recording) = self.recording.take() else {
            return Err(SyntaxError::new(place, UNKNOWN_ANCHOR));
        };
        let result = self.replay(&recording, anchor, place);
        self.recording = Some(recording);
        result
    }

    fn replay(
        &mut self,
        recording: &Recording<'t>,
        anchor: usize,
        place: Place,
    ) -> Result<(), SyntaxError> {
        self.effort.spend(false, place)?;
        let mut cursors = vec![recording.content(anchor, place)?];
        let mut first = true;
        while let Some(cursor) = cursors.last_mut() {
            let Some((part, part_place)) = cursor.next().and_then(|at| recording.parts.get(at))
            else {
                cursors.pop();
                continue;
            };
            // The value as a whole stands where the alias stands; its content, where it is written.
            let place = if first { place } else { *part_place };
            if first && self.awaits_merge() && !matches!(part, Part::OpenMap) {
                return Err(SyntaxError::new(place, NOT_MERGEABLE));
            }
            first = false;
            if let Part::Alias(anchor) = part {
                self.effort.spend(true, place)?;
                cursors.push(recording.content(*anchor, place)?);
                first = true;
            } else {
                self.place_part(part.clone(), place, true)?;
            }
        }
        Ok(())
    }

    fn place_part(
        &mut self,
        part: Part<'t>,
        place: Place,
        aliased: bool,
    ) -> Result<(), SyntaxError> {
        match part {
            Part::Scalar { text, plain, tag } => {
                let awaits_key = self.builder.awaits_key();
                let implicit = plain && tag.is_none();
                if awaits_key && text == "<<" && (implicit || tag == Some(Tag::Merge)) {
                    self.builder.key(text.into_owned(), place);
                    self.merges.push(self.builder.depth());
                    return Ok(());
                }
                self.effort.spend(aliased, place)?;
                let scalar = resolve(text, plain, tag);
                let message = |message: String| SyntaxError::new(place, message);
                if awaits_key {
                    let key = scalar.and_then(Scalar::into_key).map_err(message)?;
                    self.builder.key(key, place);
                    Ok(())
                } else {
                    let value = scalar.and_then(Scalar::into_value).map_err(message)?;
                    self.attach(Node::new(value, place))
                }
            }
            Part::OpenList => self.open(Value::List(List::new()), place, aliased),
            Part::OpenMap => self.open(Value::Map(Map::new()), place, aliased),
            Part::Close => match self.builder.close() {
                Some(node) => self.attach(node),
                None => Ok(()),
            },
            // Aliases are repeated before they get here.
            Part::Alias(_) => Ok(()),
        }
    }

    fn open(&mut self, container: Value, place: Place, aliased: bool) -> Result<(), SyntaxError> {
        self.effort.spend(aliased, place)?;
        if self.builder.awaits_key() {
            return Err(SyntaxError::new(
                place,
                format!("{} cannot be a key; use a string", container.kind()),
            ));
        }
        if self.builder.depth() >= MAX_DEPTH {
            return Err(SyntaxError::too_deep(place));
        }
        self.builder.open(container, place);
        Ok(())
    }

    fn awaits_merge(&self) -> bool {
        self.merges.last() == Some(&self.builder.depth())
    }

    fn attach(&mut self, node: Node) -> Result<(), SyntaxError> {
        if self.awaits_merge() {
            self.merges.pop();
            return self.merge(node);
        }
        let replaced = self.builder.attach(node);
        self.note(replaced);
        Ok(())
    }

    /// Copies the content of a merge key's value into the map that the merge key stands in.
    fn merge(&mut self, node: Node) -> Result<(), SyntaxError> {
        self.builder.forget_key();
        let place = node.place;
        let maps = match node.value {
            Value::List(list) => list.into_iter().collect(),
            _ => vec![node],
        };
        // Earlier maps win over later ones, so they are copied last.
        for node in maps.into_iter().rev() {
            let Value::Map(map) = node.value else {
                return Err(SyntaxError::new(place, NOT_MERGEABLE));
            };
            for (key, entry) in map {
                let replaced = self.builder.insert(key, entry);
                self.note(replaced);
            }
        }
        Ok(())
    }

    fn note(&mut self, replaced: Option<Replaced>) {
        if let Some(replaced) = replaced
            && self.duplicates.len() < MAX_DUPLICATES
        {
            self.duplicates.push(self.builder.duplicate(replaced));
        }
    }
}

/// Everything seen so far, and which stretch of it each anchor names.
#[derive(Default)]
struct Recording<'t> {
    parts: Vec<(Part<'t>, Place)>,
    /// Finished anchors by their number; the parser counts them from 1.
    anchors: Vec<Option<Range<usize>>>,
    /// Where the open containers start, and their anchors.
    open: Vec<(usize, usize)>,
}

impl<'t> Recording<'t> {
    fn add(&mut self, part: Part<'t>, place: Place, anchor: usize) {
        let start = self.parts.len();
        let finished = match part {
            Part::OpenList | Part::OpenMap => {
                self.open.push((start, anchor));
                None
            }
            Part::Close => self.open.pop(),
            Part::Scalar { .. } | Part::Alias(_) => Some((start, anchor)),
        };
        self.parts.push((part, place));
        if let Some((start, anchor)) = finished
            && anchor != 0
        {
            if self.anchors.len() <= anchor {
                self.anchors.resize(anchor + 1, None);
            }
            if let Some(slot) = self.anchors.get_mut(anchor) {
                *slot = Some(start..self.parts.len());
            }
        }
    }

    /// The parts that an anchor names.
    fn content(&self, anchor: usize, place: Place) -> Result<Range<usize>, SyntaxError> {
        let content = self.anchors.get(anchor).cloned().flatten();
        content.ok_or_else(|| {
            SyntaxError::new(place, "this alias stands inside the value that it names")
        })
    }
}

/// How much was composed, and how much of it through aliases: a small file must not stand for an
/// endless one. The bounds on aliases are upstream's, the one on the total is ours.
#[derive(Default)]
struct Effort {
    total: u32,
    aliased: u32,
}

impl Effort {
    fn spend(&mut self, aliased: bool, place: Place) -> Result<(), SyntaxError> {
        self.total = self.total.saturating_add(1);
        self.aliased = self.aliased.saturating_add(aliased.into());
        if self.total > MAX_VALUES {
            return Err(too_many_values(place));
        }
        let share = f64::from(self.aliased) / f64::from(self.total);
        if self.aliased > 100 && self.total > 1000 && share > Self::allowed_share(self.total) {
            return Err(SyntaxError::new(
                place,
                "aliases repeat too much of this document; write the values out",
            ));
        }
        Ok(())
    }

    /// The share that aliases may have falls from 99 % in a small document to 10 % in a large one.
    fn allowed_share(total: u32) -> f64 {
        const SMALL: f64 = 400_000.0;
        const LARGE: f64 = 4_000_000.0;
        let growth = (f64::from(total) - SMALL) / (LARGE - SMALL);
        0.99 - 0.89 * growth.clamp(0.0, 1.0)
    }
}

/// How many keys and values a file may hold, YAML or JSON. No configuration comes near; beyond it
/// a file would take seconds to read. Upstream has no such bound.
pub(super) const MAX_VALUES: u32 = 1_000_000;

pub(super) fn too_many_values(place: Place) -> SyntaxError {
    SyntaxError::new(
        place,
        format!("this file has more than {MAX_VALUES} values; a configuration has hundreds"),
    )
}

const TAB: &str = "there is a tab where only spaces may indent a line; replace it by spaces";
const UNKNOWN_ANCHOR: &str = "this alias names an anchor that is not defined above it; text that \
                              starts with '*' must be quoted";
const NOT_MERGEABLE: &str =
    "the value of '<<' must be a map, an alias of a map, or a list of these";

/// Says what is wrong, and what to do where that is known.
fn explain(error: &ScanError, text: &str) -> SyntaxError {
    let place = place_of(*error.marker());
    let message = match error.kind() {
        ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabNotAllowed
        | ErrorKind::TabInPlainScalar
        | ErrorKind::TabAtBlockScalarStart => {
            return SyntaxError::new(tab_place(text, *error.marker()), TAB);
        }
        ErrorKind::UnknownAnchor => UNKNOWN_ANCHOR.to_owned(),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            "a key is not expected here; indent the line like the keys beside it, or quote a \
             value that contains ': '"
                .to_owned()
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            "this line lacks the ':' after its key, or is not indented like the lines around it"
                .to_owned()
        }
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::BlockSequenceEntryNotAllowed => {
            "this line does not fit those before it; indent it like the lines that it belongs to"
                .to_owned()
        }
        ErrorKind::UnexpectedCharacter { character } => {
            format!("a value cannot start with '{character}'; put it in quotes")
        }
        ErrorKind::UnclosedQuotedScalar => "this quote is never closed".to_owned(),
        ErrorKind::UnclosedFlowCollection { open } => format!("this '{open}' is never closed"),
        ErrorKind::UnknownQuotedScalarEscape => {
            "this escape is unknown; write '\\\\' for a backslash, or use single quotes".to_owned()
        }
        ErrorKind::RecursionLimitExceeded => return SyntaxError::too_deep(place),
        ErrorKind::InvalidQuotedScalarIndent => {
            "text in quotes that was opened above is not closed, or goes on in the first column"
                .to_owned()
        }
        kind => kind.to_string(),
    };
    SyntaxError::new(place, message)
}

#[cfg(test)]
mod tests;
