//! [`StateFolder`]: the folder for data that this user keeps from run to run, separate from any
//! target.

use std::path::{Path, PathBuf};

/// The folder for data that belongs to the user and not to one target: the key of the journals in
/// part files (`key`, 32 random bytes, for its owner alone). The key is created when it is first
/// needed.
///
/// A server could send bytes that look like a journal, so a journal is accepted only if it was made
/// with this key. Runs that resume each other's part files need the same folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateFolder(Place);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    OfUser,
    At(PathBuf),
    None,
}

impl StateFolder {
    /// The user's own folder, by the XDG Base Directory Specification: `$XDG_STATE_HOME/tidegate`,
    /// or `~/.local/state/tidegate` if the variable is not set to an absolute path. The default.
    pub fn of_user() -> Self {
        Self(Place::OfUser)
    }

    /// This folder. It and its parents are created if they do not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(Place::At(path.into()))
    }

    /// No folder: nothing is read, and nothing is kept. An interrupted download is then resumed
    /// only if the remote or the caller provides a hash of the whole blob to verify the result.
    pub fn none() -> Self {
        Self(Place::None)
    }

    /// Its path, if there is one. Blocks, because it may look up the user's home folder.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match &self.0 {
            Place::OfUser => of_user(std::env::var_os("XDG_STATE_HOME"), std::env::home_dir()),
            Place::At(path) => Some(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            Place::None => None,
        }
    }
}

fn of_user(variable: Option<std::ffi::OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    // The specification says to ignore relative paths.
    let is_usable = |path: &PathBuf| path.is_absolute();
    let state = variable.map(PathBuf::from).filter(is_usable);
    let state = state.or_else(|| Some(home.filter(is_usable)?.join(".local/state")));
    state.map(|state| state.join(Path::new("tidegate")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_and_must_be_absolute() {
        let (home, at) = (Some(PathBuf::from("/home/u")), PathBuf::from);
        assert_eq!(of_user(Some("/state".into()), home.clone()), Some(at("/state/tidegate")));
        for unusable in [None, Some("".into()), Some("state".into())] {
            let found = of_user(unusable, home.clone());
            assert_eq!(found, Some(at("/home/u/.local/state/tidegate")));
        }
        assert_eq!(of_user(None, None), None);
        assert_eq!(of_user(None, Some(at(""))), None);
    }
}
