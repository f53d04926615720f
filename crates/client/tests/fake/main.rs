//! The client against brokers that do exactly what a test tells them.

mod cluster;
mod connecting;
mod consuming;
mod producing;
