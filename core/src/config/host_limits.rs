//! The value of `max.connections.per.ip.overrides`: limits for single hosts.

/// Reads `host:count` entries, separated by commas. The last colon counts, so that IPv6 addresses need no brackets. Hosts are
/// addresses or names, which whoever acts on the value looks up.
///
/// # Errors
/// Which entry is wrong, and why, in words for a user.
pub fn host_limits(value: &str) -> Result<Vec<(&str, u32)>, String> {
    super::list_items(value).filter(|item| !item.is_empty()).map(entry).collect()
}

fn entry(item: &str) -> Result<(&str, u32), String> {
    let (host, count) = item.rsplit_once(':').ok_or_else(|| format!("{item} is not of the form host:count"))?;
    let host = host.trim();
    let in_hosts = |byte: u8| byte.is_ascii_alphanumeric() || b"-%._:".contains(&byte);
    if host.is_empty() || !host.bytes().all(in_hosts) {
        return Err(format!("{host} is neither an address nor the name of a host"));
    }
    let count: u32 = count.trim().parse().map_err(|_| format!("{count} is not a number of connections"))?;
    Ok((host, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_hosts_with_counts() {
        let expected = vec![("10.0.0.1", 5), ("::1", 0), ("a-host.example", 7)];
        assert_eq!(host_limits("10.0.0.1:5, ::1:0,a-host.example:7,"), Ok(expected));
        assert_eq!(host_limits(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_entry_is_refused_with_the_reason() {
        let cases = [
            ("10.0.0.1", "10.0.0.1 is not of the form host:count"),
            ("10.0.0.1:many", "many is not a number of connections"),
            ("10.0.0.1:-1", "-1 is not a number of connections"),
            ("no such host:5", "no such host is neither an address nor the name of a host"),
            (":5", " is neither an address nor the name of a host"),
        ];
        for (value, reason) in cases {
            assert_eq!(host_limits(value), Err(reason.to_owned()), "{value}");
        }
    }
}
