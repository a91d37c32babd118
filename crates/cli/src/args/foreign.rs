//! Flags of other tools: people try them first. The error names the counterpart here, or says that
//! there is none.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags of curl, wget, aws, gcloud and rclone, and the tip for each.
const TIPS: [(&[&str], &str); 18] = [
    (
        &["--recursive", "-r", "-R"],
        "there is no recursive copy: name each blob, with a folder as the target",
    ),
    (&["--no-sign-request"], "the same here is --anonymous"),
    (&["--endpoint-url"], "the same here is --endpoint URL"),
    (&["--profile"], "set the environment variable instead: AWS_PROFILE=NAME tidegate ..."),
    (&["--region"], "set the environment variable instead: AWS_REGION=NAME tidegate ..."),
    (
        &["-P", "--concurrency", "--parallel", "--transfers", "-j", "--jobs"],
        "the number of requests in flight is --window N for one blob, and --requests N for all",
    ),
    (
        &["--no-check-certificate", "--insecure", "-k", "--no-verify-ssl"],
        "certificates are always checked; --ca-cert FILE trusts a private certificate authority",
    ),
    (
        &["--output", "-o", "--output-document"],
        "the target is the last argument: tidegate cp SOURCE FILE",
    ),
    (&["-O", "--remote-name"], "name a folder as the target: tidegate cp SOURCE ."),
    (&["-H"], "the same here is --header 'NAME: VALUE'"),
    (
        &["-C", "-c", "--continue", "--continue-at", "--resume"],
        "no flag is needed: run the same command again to resume",
    ),
    (&["--bwlimit", "--max-download-limit"], "use --limit-rate SIZE"),
    (&["--ignore-existing"], "use --skip-existing"),
    (&["--update", "-u", "-N", "--timestamping"], "use --if-changed"),
    (
        &["--timeout", "--max-time", "--read-timeout"],
        "see --deadline, --stall and --connect-timeout",
    ),
    (&["--no-progress", "--no-progress-meter"], "use --progress none"),
    (&["--log", "--log-level"], "use --debug, or the variable RUST_LOG"),
    (&["--exclude", "--include"], "there are no filters: name each blob"),
];

/// The same error, with the tip if it is about a flag of another tool.
pub(super) fn tipped(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let Some(tip) = tip(flag) else { return error };
    // The parser's own guess is a flag that is only spelled alike.
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

fn tip(flag: &str) -> Option<&'static str> {
    let name = flag.split(['=', ' ']).next().unwrap_or_default();
    TIPS.iter().find(|(flags, _)| flags.contains(&name)).map(|(_, tip)| *tip)
}

#[cfg(test)]
mod tests {
    use super::super::definition::definition;
    use super::*;

    #[test]
    fn no_flag_of_another_tool_is_one_of_ours() {
        let mut top = definition();
        top.build();
        let cp = top.find_subcommand("cp").unwrap();
        let shorts = cp.get_arguments().filter_map(clap::Arg::get_short);
        let longs = cp.get_arguments().filter_map(clap::Arg::get_long);
        let known: Vec<String> = shorts
            .map(|short| format!("-{short}"))
            .chain(longs.map(|long| format!("--{long}")))
            .collect();
        for (flags, tip) in TIPS {
            assert!(!flags.iter().any(|flag| known.iter().any(|own| own == flag)), "{flags:?}");
            // A tip names only flags that exist.
            for word in tip.split([' ', ';', ',', ':']).filter(|word| word.starts_with("--")) {
                assert!(known.iter().any(|own| own == word), "{word}");
            }
        }
    }
}
