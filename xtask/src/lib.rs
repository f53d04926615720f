//! What the `xtask` program does, as a library: tests read the schemas through the same parser as the generator.

pub mod codegen;
