//! Every command in `README.md` and in `docs/command.md` is run, as a user would type it.
//!
//! [`pages`] finds the commands in the pages. [`table`] says how each one is run and what it must
//! do; a command that it does not name is an error, so that no page shows a command that no test
//! runs. [`stage`] has the servers and files that the commands name.

mod pages;
mod stage;
mod table;

use std::collections::BTreeSet;

use self::pages::PAGES;
use self::stage::Stage;
use self::table::{COMMANDS, Way};

#[test]
fn every_command_of_the_pages_is_in_the_table() {
    let mut documented = BTreeSet::new();
    for page in PAGES {
        for command in page.commands() {
            let is_known = COMMANDS.iter().any(|known| known.command == command);
            assert!(
                is_known,
                "{}: no test runs `{command}`.\nAdd it to COMMANDS in \
                 crates/cli/tests/it/documented/table.rs, in the same words and without a comment: \
                 `runs` if it can be run as it is, `as_` with a command that stands for it, or \
                 `not_run` with the reason. Hosts, buckets and files that it names are in \
                 documented/stage.rs.",
                page.name,
            );
            documented.insert(command);
        }
    }
    for known in COMMANDS {
        let command = known.command;
        assert!(documented.contains(command), "no page has `{command}` any more: remove it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_pages_does_what_the_page_says() {
    let mut flaws = Vec::new();
    for known in COMMANDS {
        let (script, check) = match known.way {
            Way::Runs(check) => (known.command, check),
            Way::As(script, check) => (script, check),
            Way::NotRun(_) => continue,
        };
        let stage = Stage::new().await;
        let ran = stage.run(script).await;
        if ran.code != Some(known.code) || !check(&stage, &ran) {
            let names = stage.names();
            flaws.push(format!("`{}` has another effect: {ran:#?}\n{names:?}", known.command));
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n\n"));
}

/// A reason tells a reader why nothing runs it.
#[test]
fn what_is_not_run_has_a_reason() {
    for known in COMMANDS {
        if let Way::NotRun(reason) = known.way {
            assert!(reason.contains(' '), "{}: {reason:?}", known.command);
        }
    }
}
