//! Turns faults into actions: the only place that defines the effect of each fault.

use crate::{
    blob::Blob,
    fault::{ContentRangeLie, Fault, PartLie},
    gate::Gate,
};

/// How one response is built and sent. The default has no fault.
#[derive(Debug, Default)]
pub(crate) struct Treatment {
    pub(crate) delay_ms: u64,
    /// Replaces the request's blob before the request is processed.
    pub(crate) replace: Option<Blob>,
    pub(crate) instead: Option<Instead>,
    pub(crate) ignore_range: bool,
    pub(crate) range_bytes_max: Option<u64>,
    pub(crate) length_delta: i64,
    pub(crate) content_range: Option<ContentRangeLie>,
    pub(crate) opening: Opening,
    pub(crate) stop: Stop,
    pub(crate) ending: Ending,
    /// Offset in the blob of a byte with a flipped bit.
    pub(crate) flip: Option<u64>,
    pub(crate) swap: Option<(u64, Blob)>,
    pub(crate) hold: Option<(u64, Gate)>,
    /// Bytes per write, and milliseconds between writes.
    pub(crate) drip: Option<(u64, u64)>,
    pub(crate) request: RequestFaults,
}

/// How the request itself is treated. The default has no fault.
#[derive(Debug, Default)]
pub(crate) struct RequestFaults {
    pub(crate) after_body: Option<Instead>,
    pub(crate) after_effect: Option<Instead>,
    pub(crate) loses_response: bool,
    pub(crate) hold_before: Option<Gate>,
    pub(crate) hold_after: Option<Gate>,
    pub(crate) cut_after: Option<u64>,
    pub(crate) stall_after: Option<u64>,
    /// Offset in the body of a byte with a flipped bit.
    pub(crate) flip: Option<u64>,
    /// The code of the error in the body, and whether the request has its effect.
    pub(crate) error_in_body: Option<(&'static str, bool)>,
    pub(crate) lie_checksum: bool,
    pub(crate) parts_lie: Option<(u64, PartLie)>,
}

impl RequestFaults {
    /// The number of bytes of the body after which a fault is due.
    pub(crate) fn stop_after(&self) -> Option<u64> {
        self.cut_after.into_iter().chain(self.stall_after).min()
    }
}

/// A response without bytes of the blob.
#[derive(Debug)]
pub(crate) enum Instead {
    Status { code: u16, retry_after: Option<String>, body: String },
    Coded { status: u16, code: &'static str },
    Redirect { status: u16, location: String, linked_etag: Option<String> },
    NotSatisfiable,
}

/// The first bytes on the wire.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    #[default]
    Head,
    Nothing,
    Garbage,
    HalfAHead,
}

/// The point at which the body stops.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    #[default]
    AtEnd,
    After(u64),
    BeforeEnd(u64),
}

impl Stop {
    /// The number of bytes sent out of `body_bytes`.
    pub(crate) fn bytes(self, body_bytes: u64) -> u64 {
        match self {
            Self::AtEnd => body_bytes,
            Self::After(bytes) => bytes.min(body_bytes),
            Self::BeforeEnd(bytes) => body_bytes.saturating_sub(bytes),
        }
    }
}

/// The state of the connection after the body.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The next request.
    #[default]
    KeepAlive,
    /// The orderly end that was announced.
    Close,
    /// The same, while the rest of a request that was not read is dropped.
    Linger,
    /// FIN alone, as from a cut line.
    Fin,
    Reset,
    Silence,
}

impl Treatment {
    pub(crate) fn of(faults: &[Fault]) -> Self {
        let mut treatment = Self::default();
        for fault in faults.iter().cloned() {
            treatment.apply(fault);
        }
        treatment
    }

    fn apply(&mut self, fault: Fault) {
        match fault {
            Fault::Latency(ms) => self.delay_ms = self.delay_ms.saturating_add(ms),
            Fault::CutAfter(bytes) => self.break_off(Stop::After(bytes), Ending::Fin),
            Fault::ResetAfter(bytes) => self.break_off(Stop::After(bytes), Ending::Reset),
            Fault::OneByteBody => self.break_off(Stop::After(1), Ending::Fin),
            Fault::BodyShortByOne => self.break_off(Stop::BeforeEnd(1), Ending::Fin),
            Fault::Stall(bytes) => self.break_off(Stop::After(bytes), Ending::Silence),
            Fault::CloseBeforeFirstByte => self.open_with(Opening::Nothing),
            Fault::GarbageHead => self.open_with(Opening::Garbage),
            Fault::TruncatedHead => self.open_with(Opening::HalfAHead),
            Fault::Status { code, retry_after, body } => {
                self.instead = Some(Instead::Status { code, retry_after, body });
            }
            Fault::NotSatisfiable => self.instead = Some(Instead::NotSatisfiable),
            Fault::Coded { status, code } => self.instead = Some(Instead::Coded { status, code }),
            Fault::Redirect(location) => self.redirect(302, location, None),
            Fault::LinkedRedirect { location, etag } => self.redirect(302, location, Some(etag)),
            Fault::TemporaryRedirect(location) => self.redirect(307, location, None),
            Fault::ShortRange(bytes) => self.range_bytes_max = Some(bytes),
            Fault::WrongContentRange(lie) => self.content_range = Some(lie),
            Fault::FlipBit(offset) => self.flip = Some(offset),
            Fault::ChangedVersion(blob) => self.replace = Some(blob),
            Fault::ChangeDuringBody { after, blob } => self.swap = Some((after, blob)),
            Fault::NoRangeSupport => self.ignore_range = true,
            Fault::HoldAfter { bytes, gate } => self.hold = Some((bytes, gate)),
            Fault::LieAboutLength(delta) => self.length_delta = delta,
            Fault::AfterBody(fault) => self.request.after_body = refusal(*fault),
            Fault::AfterEffect(fault) => self.request.after_effect = refusal(*fault),
            Fault::LoseResponse => self.request.loses_response = true,
            Fault::HoldRequest(gate) => self.request.hold_before = Some(gate),
            Fault::HoldAnswer(gate) => self.request.hold_after = Some(gate),
            Fault::CutRequestAfter(bytes) => self.request.cut_after = Some(bytes),
            Fault::StallRequestAfter(bytes) => self.request.stall_after = Some(bytes),
            Fault::FlipRequestByte(offset) => self.request.flip = Some(offset),
            Fault::ErrorInBody { code, has_effect } => {
                self.request.error_in_body = Some((code, has_effect));
            }
            Fault::LieChecksum => self.request.lie_checksum = true,
            Fault::WrongPartsList { part, lie } => self.request.parts_lie = Some((part, lie)),
            Fault::SlowDrip { bytes, interval_ms } => self.drip = Some((bytes, interval_ms)),
        }
    }

    fn break_off(&mut self, stop: Stop, ending: Ending) {
        self.stop = stop;
        self.ending = ending;
    }

    fn redirect(&mut self, status: u16, location: String, linked_etag: Option<String>) {
        self.instead = Some(Instead::Redirect { status, location, linked_etag });
    }

    fn open_with(&mut self, opening: Opening) {
        self.opening = opening;
        self.ending = Ending::Fin;
    }
}

/// The refusal that a fault is; `None` if it is not one.
fn refusal(fault: Fault) -> Option<Instead> {
    Treatment::of(&[fault]).instead
}
