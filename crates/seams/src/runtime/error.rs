//! What a call to the runtime fails with.

use std::fmt;

/// A call that the runtime did not answer as hoped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeError {
    /// The name of the call, as the interface has it: `RunPodSandbox`.
    pub call: &'static str,
    pub code: Code,
    /// The runtime's own words, or what became of the connection.
    pub message: String,
}

impl RuntimeError {
    pub fn new(call: &'static str, code: Code, message: impl Into<String>) -> Self {
        Self {
            call,
            code,
            message: message.into(),
        }
    }

    /// The runtime has no such call.
    pub fn is_unimplemented(&self) -> bool {
        self.code == Code::Unimplemented
    }

    /// There is nobody to ask, for now.
    pub fn is_unavailable(&self) -> bool {
        self.code == Code::Unavailable
    }

    /// The time was up. The runtime may have done it all the same.
    pub fn is_timeout(&self) -> bool {
        self.code == Code::DeadlineExceeded
    }

    /// There is no such pod, container or image.
    pub fn is_not_found(&self) -> bool {
        self.code == Code::NotFound
    }
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CRI call {} failed: ", self.call)?;
        // Runtimes use it for whatever they have no code for: it tells nothing.
        if self.code != Code::Unknown {
            write!(formatter, "{}: ", self.code)?;
        }
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for RuntimeError {}

/// Why a call failed: the codes of gRPC, without the one for success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

/// In the order of their numbers on the wire, from 1 on.
const CODES: [Code; 16] = [
    Code::Cancelled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unimplemented,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
];

impl Code {
    /// A number that gRPC does not have counts as unknown, as its clients do it.
    pub fn from_number(number: i32) -> Self {
        usize::try_from(number)
            .ok()
            .and_then(|number| CODES.get(number.checked_sub(1)?))
            .copied()
            .unwrap_or(Self::Unknown)
    }

    /// Its number on the wire.
    pub fn number(self) -> i32 {
        // Sixteen entries, each code among them: it is found, and it fits.
        let place = CODES.iter().position(|&code| code == self);
        place
            .and_then(|place| i32::try_from(place + 1).ok())
            .unwrap_or(2)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_numbers_of_grpc() {
        for (number, code) in [
            (1, Code::Cancelled),
            (2, Code::Unknown),
            (4, Code::DeadlineExceeded),
            (5, Code::NotFound),
            (12, Code::Unimplemented),
            (14, Code::Unavailable),
            (16, Code::Unauthenticated),
        ] {
            assert_eq!(Code::from_number(number), code);
            assert_eq!(code.number(), number);
        }
        for number in [-1, 0, 17, i32::MAX] {
            assert_eq!(Code::from_number(number), Code::Unknown, "{number}");
        }
    }

    #[test]
    fn an_error_names_the_call_and_leaves_out_a_code_that_tells_nothing() {
        let error = |code| RuntimeError::new("Status", code, "no such socket").to_string();
        assert_eq!(
            error(Code::Unavailable),
            "CRI call Status failed: Unavailable: no such socket"
        );
        assert_eq!(
            error(Code::Unknown),
            "CRI call Status failed: no such socket"
        );
    }
}
