//! The little XML that uploads need: lists of parts in requests, documents in responses.
//!
//! The reader knows elements, text and the five entities. Attributes, comments and declarations are
//! skipped.

/// An event of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Open(String),
    Text(String),
    Close(String),
}

/// The events of a document; `None` if its tags do not match.
pub(crate) fn events(document: &str) -> Option<Vec<Event>> {
    let mut events = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = document.trim_start_matches('\u{feff}');
    while let Some(start) = rest.find('<') {
        let text = unescaped(rest.get(..start)?);
        if !text.trim().is_empty() {
            events.push(Event::Text(text));
        }
        let end = start + rest.get(start..)?.find('>')?;
        let tag = rest.get(start + 1..end)?;
        rest = rest.get(end + 1..)?;
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            let name = local(name);
            if open.pop()? != name {
                return None;
            }
            events.push(Event::Close(name));
            continue;
        }
        let name = local(tag.trim_end_matches('/'));
        events.push(Event::Open(name.clone()));
        if tag.ends_with('/') {
            events.push(Event::Close(name));
        } else {
            open.push(name);
        }
    }
    (open.is_empty() && !events.is_empty() && rest.trim().is_empty()).then_some(events)
}

/// The elements of this name, each as the names and texts of its children.
pub(crate) fn elements(document: &str, name: &str) -> Option<Vec<Vec<(String, String)>>> {
    let mut elements = Vec::new();
    let mut fields: Option<Vec<(String, String)>> = None;
    let mut child: Option<(String, String)> = None;
    for event in events(document)? {
        match event {
            Event::Open(opened) if opened == name => fields = Some(Vec::new()),
            Event::Open(opened) => child = Some((opened, String::new())),
            Event::Text(text) => {
                if let Some((_, value)) = &mut child {
                    value.push_str(&text);
                }
            }
            Event::Close(closed) if closed == name => elements.extend(fields.take()),
            Event::Close(_) => {
                if let Some(fields) = &mut fields {
                    fields.extend(child.take());
                }
            }
        }
    }
    Some(elements)
}

/// `<name>text</name>`, escaped.
pub(crate) fn element(name: &str, text: impl AsRef<str>) -> String {
    format!("<{name}>{}</{name}>", escaped(text.as_ref()))
}

/// `<name>children</name>`; the children are XML already.
pub(crate) fn group(name: &str, children: impl AsRef<str>) -> String {
    format!("<{name}>{}</{name}>", children.as_ref())
}

/// A document with this root.
pub(crate) fn document(root: &str, children: &str) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root}>{children}</{root}>")
}

/// `text` with XML's reserved characters escaped.
pub(crate) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    let text = text.replace("&#34;", "\"").replace("&#x22;", "\"").replace("&apos;", "'");
    text.replace("&amp;", "&")
}

/// The name of a tag without attributes and prefix.
fn local(tag: &str) -> String {
    let name = tag.split_whitespace().next().unwrap_or_default();
    name.rsplit(':').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read() {
        let document = "<?xml version=\"1.0\"?>\n<A xmlns=\"x\">\n <Part><PartNumber>1</PartNumber>\
                        <ETag>&quot;a&amp;b&quot;</ETag></Part><Part/></A>";
        let parts = elements(document, "Part").unwrap();
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(parts, [vec![field("PartNumber", "1"), field("ETag", "\"a&b\"")], vec![]]);
    }

    #[test]
    fn a_cut_document_is_none() {
        for document in ["", "text", "<A>", "<A></B>", "<A><B></A>", "<A", "<A></A>rest"] {
            assert_eq!(events(document), None, "{document}");
        }
    }
}
