//! The conditions under which a buffer is filled, and the buffers that are measured.

use serde::Serialize;

/// The hint that the buffer gets about the blob's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Hint {
    Whole,
    Half,
    None,
}

/// The length of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Call {
    /// 32 KiB, as Go's `io.Copy`.
    Small,
    /// The whole shard.
    Shard,
}

/// One blob, written one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Condition {
    pub(crate) hint: Hint,
    /// Count and length, as both programs name them.
    pub(crate) shards: &'static str,
    pub(crate) call: Call,
    /// Threads that write.
    pub(crate) threads: u32,
}

/// The measured buffer or copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Subject {
    /// Our buffer, in new memory for each operation.
    Fresh,
    /// Our buffer, in memory that an earlier buffer has touched.
    Recycled,
    /// The AWS SDK's buffer behind its mutex: Kraken's current buffer.
    KrakenBefore,
    /// A slice behind an `RWMutex` with an atomic length: the buffer of Kraken's proposal.
    KrakenAfter,
    /// The same, growing to twice the length: not proposed, but better than both.
    KrakenDoubling,
    /// A plain copy into a fresh map of huge pages.
    CopyFreshHuge,
    /// A plain copy into a fresh map of 4 KiB pages.
    CopyFresh4k,
    /// A plain copy into touched huge pages.
    CopyReused,
}

const SINGLE: &str = "1x4MiB";
const SHARDS: [&str; 4] = [SINGLE, "4x4MiB", "10x4MiB", "32x1MiB"];

impl Condition {
    /// 18 conditions of Kraken's harness and six with more, smaller shards, all with that harness's
    /// number of threads. Also the whole hint with one thread, for the limit of one thread.
    pub(crate) fn all() -> Vec<Self> {
        let mut conditions = Vec::new();
        for hint in [Hint::Whole, Hint::Half, Hint::None] {
            for shards in SHARDS {
                for call in [Call::Small, Call::Shard] {
                    let threads = if shards == SINGLE { 1 } else { 2 };
                    conditions.push(Self { hint, shards, call, threads });
                    if hint == Hint::Whole && threads > 1 {
                        conditions.push(Self { hint, shards, call, threads: 1 });
                    }
                }
            }
        }
        conditions
    }

    /// Whether it is compared with Kraken's buffers; if not, only with a copy.
    pub(crate) fn is_krakens(self) -> bool {
        self.threads > 1 || self.shards == SINGLE
    }

    /// Whether the hint is the whole length.
    pub(crate) fn is_hinted_whole(self) -> bool {
        self.hint == Hint::Whole
    }

    /// The subjects that run under it.
    pub(crate) fn subjects(self, kraken: bool) -> Vec<Subject> {
        let mut subjects = vec![Subject::Fresh, Subject::Recycled];
        if kraken && self.is_krakens() {
            subjects.extend(Subject::KRAKEN);
        }
        if self.is_hinted_whole() {
            subjects.extend(Subject::COPIES);
        }
        subjects
    }

    /// Label in tables.
    pub(crate) fn call_label(self) -> &'static str {
        match self.call {
            Call::Small => "32 KiB",
            Call::Shard => "a shard",
        }
    }

    /// Label in tables.
    pub(crate) fn hint_label(self) -> &'static str {
        match self.hint {
            Hint::Whole => "whole",
            Hint::Half => "half",
            Hint::None => "none",
        }
    }
}

impl Subject {
    pub(crate) const KRAKEN: [Self; 3] =
        [Self::KrakenBefore, Self::KrakenAfter, Self::KrakenDoubling];
    pub(crate) const COPIES: [Self; 3] = [Self::CopyFreshHuge, Self::CopyFresh4k, Self::CopyReused];

    /// Its name in the Go harness, if that harness runs it.
    pub(crate) fn kraken_name(self) -> Option<&'static str> {
        match self {
            Self::KrakenBefore => Some("before"),
            Self::KrakenAfter => Some("after"),
            Self::KrakenDoubling => Some("after2x"),
            _ => None,
        }
    }

    /// The pattern that selects exactly this benchmark in the Go harness.
    pub(crate) fn kraken_pattern(self, condition: Condition) -> Option<String> {
        let name = self.kraken_name()?;
        let function = match condition.call {
            Call::Small => "BenchmarkCalls32K",
            Call::Shard => "BenchmarkCalls4M",
        };
        let hint = match condition.hint {
            Hint::Whole => "presized",
            Hint::Half => "half_presized",
            Hint::None => "dynamic",
        };
        let shards = condition.shards;
        Some(format!("^{function}$/^impl={name}$/^hint={hint}$/^shards={shards}$"))
    }

    /// The case's name in our own harness, if that harness runs it.
    pub(crate) fn case_name(self, condition: Condition) -> Option<String> {
        let memory = match self {
            Self::Fresh => "fresh",
            Self::Recycled => "recycled",
            Self::CopyFreshHuge => "copy-fresh-huge",
            Self::CopyFresh4k => "copy-fresh-4k",
            Self::CopyReused => "copy-reused",
            Self::KrakenBefore | Self::KrakenAfter | Self::KrakenDoubling => return None,
        };
        let call = match condition.call {
            Call::Small => "32KiB",
            Call::Shard => "4MiB",
        };
        let Condition { shards, threads, .. } = condition;
        Some(format!("{memory}/{}/{shards}/{call}/{threads}t", condition.hint_label()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_18_cases_of_kraken_are_there_and_six_more() {
        let conditions = Condition::all();
        let krakens = conditions.iter().filter(|condition| condition.is_krakens());
        let (more, own): (Vec<&Condition>, _) =
            krakens.partition(|condition| condition.shards == "32x1MiB");
        assert_eq!((own.len(), more.len()), (18, 6));
        for condition in own {
            let subjects = condition.subjects(true);
            assert!(Subject::KRAKEN.iter().all(|subject| subjects.contains(subject)));
            assert!(subjects.contains(&Subject::Fresh) && subjects.contains(&Subject::Recycled));
        }
    }

    #[test]
    fn without_go_ours_runs_alone() {
        for condition in Condition::all() {
            let subjects = condition.subjects(false);
            assert!(subjects.iter().all(|subject| subject.kraken_name().is_none()));
            assert!(subjects.iter().all(|subject| subject.case_name(condition).is_some()));
        }
    }

    #[test]
    fn a_pattern_names_one_case_of_go() {
        let condition =
            Condition { hint: Hint::None, shards: "10x4MiB", call: Call::Small, threads: 2 };
        assert_eq!(
            Subject::KrakenDoubling.kraken_pattern(condition).as_deref(),
            Some("^BenchmarkCalls32K$/^impl=after2x$/^hint=dynamic$/^shards=10x4MiB$")
        );
        assert_eq!(
            Subject::CopyReused.case_name(condition).as_deref(),
            Some("copy-reused/none/10x4MiB/32KiB/2t")
        );
    }
}
