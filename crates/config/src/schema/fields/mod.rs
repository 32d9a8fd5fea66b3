//! The fields of the configuration file, in the order in which upstream's
//! v1beta1 type has them, which is the order in which they are printed.

mod eviction;
mod lifecycle;
mod node;
mod reserved;
mod resources;
mod row;
mod server;

use super::Field;

const COUNT: usize = 164;

/// Every field that a file may have.
pub static FIELDS: &[Field] = &row::concat::<COUNT>(&[
    server::ROWS,
    node::ROWS,
    resources::ROWS,
    eviction::ROWS,
    reserved::ROWS,
    lifecycle::ROWS,
]);
