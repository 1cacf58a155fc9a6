//! Parses lists of hosts: `node[01-32],login`, and `@group` of ClusterShell.

use std::process::Command;

use crate::cli::exit::{About, Failure};

/// Largest number of hosts of a command.
pub(super) const MAX_HOSTS: usize = 4096;

/// Names in a list, in its order.
///
/// # Errors
/// If the list cannot be parsed, names a host twice, or is empty or too long.
pub(super) fn hosts(list: &str) -> Result<Vec<String>, Failure> {
    named(list).or_wrong("--hosts")
}

fn named(list: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for part in parts(list)? {
        all.extend(if part.starts_with('@') { group(&part)? } else { expanded(&part)? });
        if all.len() > MAX_HOSTS {
            return Err(format!("`{list}` names more than {MAX_HOSTS} hosts"));
        }
    }
    if all.is_empty() {
        return Err(format!("found `{list}`, expected a list such as node[01-32],login"));
    }
    for (index, name) in all.iter().enumerate() {
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "._-:@/".contains(c);
        if !name.chars().all(is_safe) || name.starts_with('-') {
            let expected = "expected letters, digits and `._-:@/`, not beginning with `-`";
            return Err(format!("found host `{name}`, {expected}"));
        }
        if all[..index].contains(name) {
            return Err(format!("`{name}` is named twice; name each host once"));
        }
    }
    Ok(all)
}

/// Parts between commas outside brackets.
fn parts(list: &str) -> Result<Vec<String>, String> {
    let (mut parts, mut part, mut is_inside) = (Vec::new(), String::new(), false);
    for c in list.chars() {
        match (c, is_inside) {
            ('[', true) | (']', false) => return Err(format!("`{list}`: brackets do not match")),
            ('[' | ']', _) => {
                is_inside = c == '[';
                part.push(c);
            }
            (',', false) => parts.push(std::mem::take(&mut part)),
            _ => part.push(c),
        }
    }
    if is_inside {
        return Err(format!("`{list}`: a bracket is not closed"));
    }
    parts.push(part);
    Ok(parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect())
}

/// Names of a pattern such as `a[1-3,7]b`. Leading zeros are kept.
fn expanded(part: &str) -> Result<Vec<String>, String> {
    let Some((head, rest)) = part.split_once('[') else { return Ok(vec![part.to_owned()]) };
    let (ranges, tail) = rest.split_once(']').unwrap_or((rest, ""));
    let tails = expanded(tail)?;
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let digits = text.parse::<u32>().ok().filter(|_| text.len() <= 9);
            digits.ok_or(format!("`{part}`: found `{text}`, expected a number"))
        };
        let (from, to) = (number(first)?, number(last)?);
        if to < from || (to - from) as usize >= MAX_HOSTS {
            return Err(format!(
                "`{part}`: found {range}, expected at most {MAX_HOSTS} rising numbers"
            ));
        }
        let width = first.len();
        for number in from..=to {
            names.extend(tails.iter().map(|tail| format!("{head}{number:0width$}{tail}")));
        }
        if names.len() > MAX_HOSTS {
            return Err(format!("`{part}` names more than {MAX_HOSTS} hosts"));
        }
    }
    Ok(names)
}

/// Members of a ClusterShell group.
fn group(name: &str) -> Result<Vec<String>, String> {
    let asked = Command::new("nodeset").args(["-e", "-S", "\n", "--", name]).output();
    let answer = asked.map_err(|error| {
        format!("`{name}` is a group of ClusterShell, and its `nodeset` cannot be run: {error}")
    })?;
    let names = String::from_utf8_lossy(&answer.stdout);
    let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    if answer.status.success() && !names.is_empty() {
        return Ok(names);
    }
    let said = String::from_utf8_lossy(&answer.stderr);
    let said = said.lines().last().unwrap_or("the group is empty").trim().to_owned();
    Err(format!("`{name}`: ClusterShell says: {said}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn lists_are_expanded_in_their_order() {
        let of = |list: &str| hosts(list).unwrap().join(" ");
        assert_eq!(of("a"), "a");
        assert_eq!(of("b, a,root@c.example:22"), "b a root@c.example:22");
        assert_eq!(of("node[08-11]"), "node08 node09 node10 node11");
        assert_eq!(of("r[1-2]n[1,3],x"), "r1n1 r1n3 r2n1 r2n3 x");
    }

    #[test]
    fn what_is_no_list_is_refused_with_what_was_found() {
        let words = |list: &str| hosts(list).unwrap_err().message;
        assert!(words("").contains("expected a list"));
        assert!(words("a,b,a").contains("`a` is named twice"));
        assert!(words("n[1-").contains("not closed"));
        assert!(words("n]1").contains("do not match"));
        assert!(words("n[x]").contains("found `x`, expected a number"));
        assert!(words("n[3-1]").contains("found 3-1"));
        assert!(words("n[0-99999]").contains("at most 4096"));
        assert!(words("n[1-4000],m[1-4000]").contains("more than 4096"));
        assert!(words("a b").contains("found host `a b`"));
        assert!(words("-oProxyCommand=x").contains("not beginning with `-`"));
    }
}
