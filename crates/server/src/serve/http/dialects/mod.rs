//! Protocols of single tools over opaque values, each with its exact status codes.
//!
//! | file | tool |
//! |---|---|
//! | `ccache` | ccache in the layouts `flat` and `subdirs`; its layout `bazel` uses `/ac/` |
//! | `webdav` | sccache, and any client of simple files |
//! | `gradle` | Gradle |
//! | `turborepo` | Turborepo |
//! | `artifact` | an artifact of Turborepo with its headers |
//! | `nx` | Nx |
//! | `moon` | moon; its values are in `/ac/` and `/cas/` |

mod artifact;
mod ccache;
mod gradle;
mod moon;
mod nx;
mod turborepo;
mod webdav;

use super::route::Dialect;
use super::upload::Upload;
use super::{Call, HttpCache, Reply};

impl HttpCache {
    pub(super) async fn dialect(
        &self,
        call: &Call<'_>,
        dialect: Dialect<'_>,
        upload: &mut Upload,
    ) -> Reply {
        match dialect {
            Dialect::MoonStatus => Ok(moon::status()),
            Dialect::TurborepoStatus => Ok(turborepo::status()),
            Dialect::TurborepoEvents => Ok(turborepo::events()),
            Dialect::TurborepoQuery => self.turborepo_query(call, upload).await,
            Dialect::Turborepo(hash) => self.turborepo(call, hash, upload).await,
            Dialect::Nx(hash) => self.nx(call, hash, upload).await,
            Dialect::Gradle(key) => self.gradle(call, key, upload).await,
            Dialect::Ccache(key) => self.ccache(call, &key, upload).await,
            Dialect::WebDavFile(path) => self.webdav_file(call, &path, upload).await,
            Dialect::WebDavFolder => Ok(webdav::folder(call)),
        }
    }
}
