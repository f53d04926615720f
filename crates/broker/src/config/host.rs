//! The name of this machine, as others may know it.

/// What a listener without a host is advertised as: the canonical name of this machine.
///
/// The name the resolver gives the machine's own name, as `host.example.org` for `host`; the bare name where
/// the resolver does not know it. Asks the resolver, so it may take as long as DNS does.
pub fn canonical_host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let hints = dns_lookup::AddrInfoHints { flags: libc::AI_CANONNAME, ..Default::default() };
    dns_lookup::getaddrinfo(Some(&name), None, Some(hints))
        .ok()
        .and_then(|found| found.filter_map(Result::ok).find_map(|info| info.canonname))
        .unwrap_or(name)
}
