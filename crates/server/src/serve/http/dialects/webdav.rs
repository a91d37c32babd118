//! The part of `WebDAV` that sccache needs: files by any path, and folders that always exist.
//!
//! sccache looks at a folder before it writes into it, and creates it after a 404. Folders have no
//! content here: a PROPFIND answers for the path itself, whatever `Depth` asks for.

use http::{Method, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::serve::body::ResponseBody;
use crate::serve::http::upload::Upload;
use crate::serve::http::values::value_name;
use crate::serve::http::{Call, HttpCache, Reply, reply};

/// The dialect in keys.
const DIALECT: &str = "webdav";
/// The characters of a path that have a meaning in XML.
const XML: &AsciiSet = &CONTROLS.add(b'<').add(b'>').add(b'&').add(b'"').add(b'\'');
/// The store keeps no time of a change. Clients require the property.
const MODIFIED: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

impl HttpCache {
    pub(super) async fn webdav_file(
        &self,
        call: &Call<'_>,
        path: &str,
        upload: &mut Upload,
    ) -> Reply {
        let name = value_name(call.tenant(), DIALECT, &[path]);
        match call.parts.method.as_str() {
            "PUT" => {
                self.put_value(call, &name, upload).await?;
                Ok(reply::empty(StatusCode::CREATED))
            }
            "DELETE" => {
                if !self.has_value(&name).await? {
                    return Ok(reply::not_found());
                }
                self.store.remove_value(&name).await?;
                Ok(reply::empty(StatusCode::NO_CONTENT))
            }
            "PROPFIND" => match self.store.value(&name).await? {
                Some((len, _)) => {
                    let length = format!("<D:getcontentlength>{len}</D:getcontentlength>");
                    let properties = format!("{length}<D:resourcetype/>");
                    Ok(multistatus(call, &properties))
                }
                None => Ok(reply::not_found()),
            },
            _ => self.get_value(call, &name).await,
        }
    }
}

/// A folder: it exists, and it can be created.
pub(super) fn folder(call: &Call<'_>) -> Response<ResponseBody> {
    if call.parts.method == Method::from_bytes(b"MKCOL").unwrap_or(Method::GET) {
        return reply::empty(StatusCode::CREATED);
    }
    multistatus(call, "<D:resourcetype><D:collection/></D:resourcetype>")
}

fn multistatus(call: &Call<'_>, properties: &str) -> Response<ResponseBody> {
    let path = utf8_percent_encode(call.parts.uri.path(), XML);
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>{path}</D:href><D:propstat><D:prop>\
         {properties}<D:getlastmodified>{MODIFIED}</D:getlastmodified></D:prop>\
         <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>\n"
    );
    reply::full(StatusCode::MULTI_STATUS, "application/xml; charset=utf-8", text.into())
}
