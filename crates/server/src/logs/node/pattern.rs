//! Whether a text is a pattern, by the rules of Go's regular expressions and in their
//! words. What it means is for journalctl to say: a pattern is looked at so that who
//! mistyped one is told.

/// What is wrong, or nothing.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    Scan::new(pattern).run().map_err(|problem| {
        let Problem { what, place } = problem;
        format!("error parsing regexp: {what}: `{place}`")
    })
}

struct Problem<'a> {
    what: &'static str,
    place: &'a str,
}

fn problem<'a, T>(what: &'static str, place: &'a str) -> Result<T, Problem<'a>> {
    Err(Problem { what, place })
}

/// What a repetition can follow.
#[derive(Clone, Copy)]
enum Last<'a> {
    Nothing,
    Something,
    /// One that begins here.
    Repetition(&'a str),
}

struct Scan<'a> {
    whole: &'a str,
    rest: &'a str,
    open_groups: usize,
    last: Last<'a>,
}

/// Of a repetition.
const MOST: u32 = 1000;

/// Letters that mean something behind a backslash, outside of a class.
const ESCAPES: &str = "AbBzaftnrvdDsSwW";

impl<'a> Scan<'a> {
    fn new(pattern: &'a str) -> Self {
        Self {
            whole: pattern,
            rest: pattern,
            open_groups: 0,
            last: Last::Nothing,
        }
    }

    fn run(mut self) -> Result<(), Problem<'a>> {
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                '(' => self.group()?,
                ')' => {
                    if self.open_groups == 0 {
                        return problem("unexpected )", self.whole);
                    }
                    self.open_groups -= 1;
                    self.pass(1, Last::Something);
                }
                '|' => self.pass(1, Last::Nothing),
                '[' => self.class()?,
                '*' | '+' | '?' => self.repetition(1)?,
                '{' => self.counted()?,
                '\\' => self.escape()?,
                letter => self.pass(letter.len_utf8(), Last::Something),
            }
        }
        if self.open_groups > 0 {
            return problem("missing closing )", self.whole);
        }
        Ok(())
    }

    fn pass(&mut self, bytes: usize, last: Last<'a>) {
        self.rest = &self.rest[bytes..];
        self.last = last;
    }

    fn group(&mut self) -> Result<(), Problem<'a>> {
        let here = self.rest;
        let Some(special) = here.strip_prefix("(?") else {
            self.open_groups += 1;
            self.pass(1, Last::Nothing);
            return Ok(());
        };
        let named = special.strip_prefix("P<").or(special.strip_prefix('<'));
        if let Some(named) = named.filter(|_| !special.starts_with(['=', '!'])) {
            let Some(end) = named.find('>') else {
                return problem("invalid named capture", here);
            };
            let length = here.len() - named.len() + end + 1;
            let name = &named[..end];
            let fits = |letter: char| letter == '_' || letter.is_alphanumeric();
            if name.is_empty() || !name.chars().all(fits) {
                // `(?<=` and `(?<!` are here, too.
                return problem("invalid named capture", &here[..length]);
            }
            self.open_groups += 1;
            self.pass(length, Last::Nothing);
            return Ok(());
        }
        let flags = special.find(|letter| !"imsU-".contains(letter));
        let end = flags.unwrap_or(special.len());
        let text = &special[..end];
        let sound = !text.ends_with('-') && text.matches('-').count() <= 1;
        let opens = match special[end..].chars().next() {
            Some(':') => true,
            Some(')') => false,
            other => {
                let length = 2 + end + other.map_or(0, char::len_utf8);
                return problem("invalid or unsupported Perl syntax", &here[..length]);
            }
        };
        if !sound {
            return problem("invalid or unsupported Perl syntax", &here[..=2 + end]);
        }
        self.open_groups += usize::from(opens);
        // Flags alone are nothing that could be repeated, and do not change what was.
        let last = if opens { Last::Nothing } else { self.last };
        self.pass(2 + end + 1, last);
        Ok(())
    }

    /// `length` bytes, and the question mark that may follow.
    fn repetition(&mut self, length: usize) -> Result<(), Problem<'a>> {
        let here = self.rest;
        let length = length + usize::from(here[length..].starts_with('?'));
        match self.last {
            Last::Nothing => problem("missing argument to repetition operator", &here[..length]),
            Last::Repetition(before) => {
                let both = before.len() - here.len() + length;
                problem("invalid nested repetition operator", &before[..both])
            }
            Last::Something => {
                self.pass(length, Last::Repetition(here));
                Ok(())
            }
        }
    }

    /// `{2}`, `{2,}`, `{2,5}`; anything else is the brace itself.
    fn counted(&mut self) -> Result<(), Problem<'a>> {
        let here = self.rest;
        let count = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let zeros = text.len() > 1 && text.starts_with('0');
            (digits && !zeros).then(|| text.parse().unwrap_or(MOST + 1))
        };
        let bounds = here.find('}').and_then(|end| {
            let text = &here[1..end];
            let (least, most) = text.split_once(',').unwrap_or((text, text));
            let least: u32 = count(least)?;
            let most = if most.is_empty() && text.contains(',') {
                least
            } else {
                count(most)?
            };
            Some((least, most, end + 1))
        });
        let Some((least, most, length)) = bounds else {
            self.pass(1, Last::Something);
            return Ok(());
        };
        if most > MOST || least > most {
            return problem("invalid repeat count", &here[..length]);
        }
        self.repetition(length)
    }

    fn escape(&mut self) -> Result<(), Problem<'a>> {
        let here = self.rest;
        if let Some(literal) = here.strip_prefix(r"\Q") {
            let end = literal.find(r"\E").map_or(here.len(), |end| 2 + end + 2);
            self.pass(end, Last::Something);
            return Ok(());
        }
        let length = escape_length(here)?;
        self.pass(length, Last::Something);
        Ok(())
    }

    fn class(&mut self) -> Result<(), Problem<'a>> {
        let here = self.rest;
        let mut rest = &here[1..];
        rest = rest.strip_prefix('^').unwrap_or(rest);
        let mut first = true;
        while first || !rest.starts_with(']') {
            first = false;
            if let Some(named) = rest.strip_prefix("[:")
                && let Some(end) = named.find(":]")
            {
                let word = named[..end].trim_start_matches('^');
                if !NAMED_CLASSES.contains(&word) {
                    return problem("invalid character class range", &rest[..end + 4]);
                }
                rest = &named[end + 2..];
                continue;
            }
            let from = rest;
            let Some(length) = class_letter(rest)? else {
                return problem("missing closing ]", here);
            };
            rest = &rest[length..];
            if rest.starts_with('-') && !rest.starts_with("-]") && rest.len() > 1 {
                let Some(length) = class_letter(&rest[1..])? else {
                    return problem("missing closing ]", here);
                };
                let (low, high) = (&from[..from.len() - rest.len()], &rest[1..=length]);
                rest = &rest[1 + length..];
                let plain = !low.starts_with('\\') && !high.starts_with('\\');
                if plain && high < low {
                    let range = &from[..from.len() - rest.len()];
                    return problem("invalid character class range", range);
                }
            }
        }
        let length = here.len() - rest.len() + 1;
        self.pass(length, Last::Something);
        Ok(())
    }
}

const NAMED_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Bytes of a letter of a class; `None` where the pattern ends.
fn class_letter(text: &str) -> Result<Option<usize>, Problem<'_>> {
    match text.chars().next() {
        None => Ok(None),
        Some('\\') if matches!(text.as_bytes().get(1), Some(b'A' | b'b' | b'B' | b'z')) => {
            problem("invalid escape sequence", &text[..2])
        }
        Some('\\') => escape_length(text).map(Some),
        Some(letter) => Ok(Some(letter.len_utf8())),
    }
}

/// Bytes of what begins with a backslash.
fn escape_length(text: &str) -> Result<usize, Problem<'_>> {
    let mut letters = text.chars();
    letters.next();
    let Some(letter) = letters.next() else {
        return problem("trailing backslash at end of expression", "");
    };
    let behind = letters.as_str();
    let wrong = || problem("invalid escape sequence", &text[..=letter.len_utf8()]);
    let octal = |byte: &u8| matches!(byte, b'0'..=b'7');
    match letter {
        'p' | 'P' => {
            let name = behind.strip_prefix('{');
            match name.map(|name| name.find('}')) {
                Some(Some(end)) => Ok(2 + end + 2),
                None if !behind.is_empty() => {
                    Ok(2 + behind.chars().next().map_or(0, char::len_utf8))
                }
                _ => problem("invalid character class range", text),
            }
        }
        'x' => {
            if let Some(braced) = behind.strip_prefix('{') {
                let digits = braced.split('}').next().unwrap_or_default();
                let number = u32::from_str_radix(digits, 16);
                let closed = braced.len() > digits.len();
                if closed && number.is_ok_and(|number| number <= 0x0010_FFFF) {
                    return Ok(2 + digits.len() + 2);
                }
                return problem("invalid escape sequence", text);
            }
            match behind.get(..2).map(|digits| u8::from_str_radix(digits, 16)) {
                Some(Ok(_)) => Ok(4),
                _ => wrong(),
            }
        }
        '1'..='7' if !behind.as_bytes().first().is_some_and(octal) => wrong(),
        '0'..='7' => {
            let digits = behind.bytes().take(2).take_while(|byte| octal(byte));
            Ok(2 + digits.count())
        }
        letter if ESCAPES.contains(letter) => Ok(2),
        letter if letter.is_ascii() && !letter.is_ascii_alphanumeric() => Ok(2),
        _ => wrong(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_that_go_takes_are_taken() {
        for pattern in [
            "",
            "error",
            "a|b|",
            "(a(b)?c)*",
            r"\bfail(ed|ure)\b.*\d{1,3}$",
            "[]a]",
            "[^]a-]",
            "[[:alpha:][:^digit:]x]",
            "[[]",
            r"[\w\-]+?",
            "(?i)warn",
            "(?i:warn)+",
            "(?P<name>x)(?<other>y)",
            "(?s-m:.)",
            "a{2}b{2,}c{2,5}?",
            "a{,5}{x}",
            r"\Q(*\E+",
            r"\x41\x{1F600}\012\0\.",
            r"\pL\p{Greek}",
            "größe*",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }

    /// Each as Go 1.26 says it.
    #[test]
    fn what_is_none_is_told_in_gos_words() {
        for (pattern, wanted) in [
            ("(", "missing closing ): `(`"),
            ("a(b", "missing closing ): `a(b`"),
            ("a)b", "unexpected ): `a)b`"),
            ("[a", "missing closing ]: `[a`"),
            ("x[]", "missing closing ]: `[]`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("(?i)*a", "missing argument to repetition operator: `*`"),
            ("a|+?", "missing argument to repetition operator: `+?`"),
            ("(*)", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a+*?", "invalid nested repetition operator: `+*?`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            (r"a\", "trailing backslash at end of expression: ``"),
            (r"\q", r"invalid escape sequence: `\q`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?<!a)", "invalid named capture: `(?<!a)`"),
            ("(?P<a b>x)", "invalid named capture: `(?P<a b>`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:word2:]]", "invalid character class range: `[:word2:]`"),
        ] {
            let found = check(pattern).unwrap_err();
            assert_eq!(
                found,
                format!("error parsing regexp: {wanted}"),
                "{pattern}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_much_for_it(pattern in "\\PC{0,40}", special in "[\\[\\](){}*+?|\\\\^$a-c:,PQEx<>0-9-]{0,20}") {
            let _ = check(&pattern);
            let _ = check(&special);
        }
    }
}
