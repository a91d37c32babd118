//! [`StateFolder`]: where what this user keeps from run to run lies, apart from any target.

use std::path::{Path, PathBuf};

/// Where Tidegate keeps what belongs to the user and not to one target: the key of the journals in
/// part files (`key`, 32 random bytes, for its owner alone). It is made when it is first needed.
///
/// A journal is believed only if it was made with this key, as a server could send bytes that look
/// like one. Runs that are to go on with each other's part files need the same folder.
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
    /// The user's own, by the XDG Base Directory Specification: `$XDG_STATE_HOME/tidegate`, or
    /// `~/.local/state/tidegate` where the variable is not set to an absolute path. The default.
    pub fn of_user() -> Self {
        Self(Place::OfUser)
    }

    /// This folder; it is made if it does not exist, as are those above it.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(Place::At(path.into()))
    }

    /// None: nothing is read, and nothing is kept. An interrupted download is then resumed only
    /// where a hash of the whole blob, given by the remote or the caller, proves the result.
    pub fn none() -> Self {
        Self(Place::None)
    }

    /// Its path, where there is one. Blocks: the user's home may have to be looked up.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match &self.0 {
            Place::OfUser => of_user(std::env::var_os("XDG_STATE_HOME"), std::env::home_dir()),
            Place::At(path) => Some(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            Place::None => None,
        }
    }
}

fn of_user(variable: Option<std::ffi::OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    // The specification has relative paths passed over.
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
