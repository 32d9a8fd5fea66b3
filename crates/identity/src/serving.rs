//! What the node serves with when no signer is asked: the pair that an operator
//! gave (`tlsCertFile` and `tlsPrivateKeyFile`), or a self-signed one.

mod given;
mod self_signed;

pub use given::{FollowedFiles, GivenError, GivenFiles};
pub use self_signed::{ServingError, ServingFiles, self_signed};
