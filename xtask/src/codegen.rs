//! Schemas in, message code out.

pub fn run(_arguments: &[&str]) -> Result<(), String> {
    Err("codegen: not built yet".to_owned())
}
