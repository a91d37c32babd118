//! [`Counter`]: how many messages a body has, however it is cut into frames.
//!
//! A message is (gRPC over HTTP/2, "Length-Prefixed-Message") a flag of one byte, a length of four,
//! and so many bytes.

/// Bytes before a message.
const PREFIX_BYTES: usize = 5;

/// Counts the messages that have begun. Holds no bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    messages: usize,
    /// The prefix that is arriving, and how much of it has arrived.
    prefix: [u8; PREFIX_BYTES],
    arrived: usize,
    /// Bytes of the message that are still to come.
    left: usize,
}

impl Counter {
    /// Takes the next bytes; gives how many messages have begun so far.
    pub(super) fn count(&mut self, mut data: &[u8]) -> usize {
        while !data.is_empty() {
            if self.left > 0 {
                let here = self.left.min(data.len());
                self.left -= here;
                data = &data[here..];
                continue;
            }
            if self.arrived == 0 {
                self.messages += 1;
            }
            self.prefix[self.arrived] = data[0];
            self.arrived += 1;
            data = &data[1..];
            if self.arrived == PREFIX_BYTES {
                let [_, length @ ..] = self.prefix;
                self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                self.arrived = 0;
            }
        }
        self.messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        let body =
            [&[0, 0, 0, 0, 3][..], b"abc", &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 1], b"x"].concat();
        for cut in 1..=body.len() {
            let mut counter = Counter::default();
            let counts: Vec<usize> = body.chunks(cut).map(|data| counter.count(data)).collect();
            assert_eq!(counts.last(), Some(&3), "{cut}");
            assert_eq!(Counter::default().count(&body[..8]), 1);
            assert_eq!(Counter::default().count(&body[..9]), 2);
        }
    }
}
