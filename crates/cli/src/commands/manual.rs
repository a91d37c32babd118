//! The manual pages: what the definition of the command line gives, and the sections that it cannot
//! give.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Variables that the commands read.
const ENVIRONMENT: [(&str, &str); 12] = [
    ("TIDEGATE_CONFIG", "The configuration file, in place of the usual one."),
    (
        "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE",
        "Credentials for s3://, as for the tools of AWS.",
    ),
    ("AWS_REGION, AWS_ENDPOINT_URL", "Region and base URL for s3://."),
    ("GOOGLE_APPLICATION_CREDENTIALS", "The credentials file for gs://."),
    ("STORAGE_EMULATOR_HOST", "An emulator for gs://, used without credentials."),
    (
        "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN",
        "Account and credentials for az://.",
    ),
    (
        "http_proxy, https_proxy, all_proxy, no_proxy",
        "Proxies, and hosts that are reached without one.",
    ),
    ("TMPDIR", "The folder for a stream on its way into a cache; otherwise /var/tmp."),
    ("XDG_STATE_HOME", "The folder of the key of part files; otherwise ~/.local/state."),
    (
        "RUST_LOG",
        "Events to show, as LEVEL or TARGET=LEVEL, separated by commas: tidegate::request=debug.",
    ),
    ("NO_COLOR", "If set, the output has no colours."),
    ("TERM", "If it is dumb, the output has no escape sequences and no progress bar."),
];

/// Files that the commands read and write.
const FILES: [(&str, &str); 6] = [
    (
        "~/.config/tidegate/config.toml",
        "Settings by the prefixes of URLs, in $XDG_CONFIG_HOME/tidegate if that variable is set. \
         \"tidegate config show URL\" shows which apply.",
    ),
    (
        ".NAME.tidegate-part",
        "The bytes of the target NAME until it is whole. The same command goes on with it; it may \
         be removed.",
    ),
    (".NAME.tidegate-chunks", "The index of the chunks of the file NAME. It may be removed."),
    (
        "~/.local/state/tidegate",
        "The key that marks this user's part files. Without it, a part file is resumed only if a \
         checksum proves its bytes.",
    ),
    ("~/.aws/credentials, ~/.aws/config", "Profiles for s3://."),
    ("~/.config/gcloud/application_default_credentials.json", "Credentials for gs://."),
];

/// Exit codes, as in [`crate::exit`].
const EXIT_STATUS: [(&str, &str); 10] = [
    ("0", "Success."),
    ("1", "Another failure: network, server, disk."),
    ("2", "The command line, or a URL in it, is wrong; nothing was done."),
    ("3", "Not found."),
    ("4", "The blob changed while it was read."),
    ("5", "The bytes do not match their checksum."),
    ("6", "No access."),
    ("7", "The retries are used up, or the deadline has passed."),
    ("8", "Cancelled."),
    ("141", "The reader of standard output has closed it."),
];

/// The page of one command.
pub(super) fn page(command: &Command) -> io::Result<String> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut more = Roff::new();
    section(&mut more, "ENVIRONMENT", &ENVIRONMENT);
    section(&mut more, "FILES", &FILES);
    section(&mut more, "EXIT STATUS", &EXIT_STATUS);
    examples(&mut more, command);
    more.to_writer(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A section of terms with a text each.
fn section(roff: &mut Roff, name: &str, entries: &[(&str, &str)]) {
    roff.control("SH", [name]);
    for (term, text) in entries {
        roff.control("TP", []).text([bold(*term)]).text([roman(*text)]);
    }
}

/// The text after the options, in its own lines.
fn examples(roff: &mut Roff, command: &Command) {
    let Some(text) = command.get_after_help().map(ToString::to_string) else { return };
    roff.control("SH", ["NOTES"]).control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}
