//! What a mistyped name was probably meant to be.

/// The one of `names` that is near enough to `wanted` to be worth proposing.
///
/// Case, dashes and underscores do not count. Next come names a few slips of
/// the finger away (a letter too many, too few, wrong, or two swapped), then
/// the only name that is `wanted` with more words before or after it, or fewer.
/// What is far longer than any name is not a slip: nothing is proposed for it.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.chars().nth(LONGEST).is_some() {
        return None;
    }
    let wanted = Folded::new(wanted);
    let slips = wanted.tolerable_slips();
    let mut best: Option<(usize, &str)> = None;
    let mut extended = Extended::None;
    for name in names {
        let folded = Folded::new(name);
        // A difference in length takes as many slips.
        if wanted.letters.len().abs_diff(folded.letters.len()) <= slips {
            let distance = distance(&wanted.letters, &folded.letters);
            if distance <= slips && best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, name));
            }
        }
        if wanted.extends(&folded) || folded.extends(&wanted) {
            extended = extended.with(name);
        }
    }
    match (best, extended) {
        (Some((_, name)), _) | (None, Extended::One(name)) => Some(name),
        (None, Extended::None | Extended::Many) => None,
    }
}

/// How many characters a name may have that something is proposed for.
const LONGEST: usize = 64;

/// Names that have the wanted words and some more.
enum Extended<'a> {
    None,
    One(&'a str),
    Many,
}

impl<'a> Extended<'a> {
    fn with(self, name: &'a str) -> Self {
        match self {
            Self::None => Self::One(name),
            Self::One(_) | Self::Many => Self::Many,
        }
    }
}

/// A name without what people get wrong first.
struct Folded {
    /// In lower case, without separators.
    letters: Vec<char>,
    /// Where in `letters` words begin.
    words: Vec<usize>,
}

impl Folded {
    /// Shorter words say too little to propose a longer name by.
    const TELLING: usize = 4;

    fn new(name: &str) -> Self {
        let mut letters = Vec::with_capacity(name.len());
        let mut words = Vec::new();
        let mut previous = '-';
        for letter in name.chars() {
            if !is_separator(letter) {
                if is_separator(previous) || (letter.is_uppercase() && !previous.is_uppercase()) {
                    words.push(letters.len());
                }
                letters.extend(letter.to_lowercase());
            }
            previous = letter;
        }
        Self { letters, words }
    }

    /// One slip in a short name, three in a long one. Names of up to three
    /// letters are all near each other: none.
    fn tolerable_slips(&self) -> usize {
        match self.letters.len() {
            0..=3 => 0,
            4..=5 => 1,
            6..=11 => 2,
            _ => 3,
        }
    }

    /// Whether it is `core` with whole words before or after it.
    fn extends(&self, core: &Self) -> bool {
        let more = self.letters.len().saturating_sub(core.letters.len());
        more > 0
            && core.letters.len() >= Self::TELLING
            && (self.letters.ends_with(&core.letters) && self.words.contains(&more)
                || self.letters.starts_with(&core.letters)
                    && self.words.contains(&core.letters.len()))
    }
}

fn is_separator(letter: char) -> bool {
    matches!(letter, '-' | '_' | '.' | ' ')
}

/// How many letters to insert, delete, replace or swap with their neighbour
/// (optimal string alignment).
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != other);
            let mut cheapest = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *letter == to[column - 1] && from[row - 1] == *other {
                cheapest = cheapest.min(before_last[column - 1] + 1);
            }
            current.push(cheapest);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}
