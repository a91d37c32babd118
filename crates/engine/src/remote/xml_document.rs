//! Reading an XML document of an object store. Pure.

use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Operation, Result};

/// Reads a document. The error does not show it, because it may repeat headers of the request.
pub(super) fn read<T: DeserializeOwned>(
    text: &[u8],
    operation: Operation,
    target: &str,
) -> Result<T> {
    let failed = |message: &str| Error::new(ErrorKind::Remote, operation, target, message);
    let text =
        str::from_utf8(text).map_err(|error| failed("the response is no text").caused_by(error))?;
    // Azure's documents begin with a byte order mark.
    quick_xml::de::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| failed("the response is not the document expected").caused_by(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Named {
        #[serde(rename = "Name")]
        name: String,
    }

    #[test]
    fn a_byte_order_mark_and_spaces_in_names_are_no_obstacle() {
        let text = "\u{feff}<?xml version=\"1.0\"?><A><Name> a &amp; b </Name></A>";
        let read: Named = read(text.as_bytes(), Operation::List, "az://b/k").unwrap();
        assert_eq!(read.name, " a & b ");
    }

    #[test]
    fn what_is_no_document_is_an_error_that_does_not_show_it() {
        for text in ["", "secret", "<a>", "<A><Part>secret</Part></A>"] {
            let error = read::<Named>(text.as_bytes(), Operation::Stat, "az://b/k").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Remote);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
