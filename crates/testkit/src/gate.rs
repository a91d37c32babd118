//! A gate that holds a response until a test opens it.
//!
//! With a gate, a test can act at a known point of a transfer (kill it, replace the blob, read the
//! part file) without a sleep. A response at a closed gate ends with its connection.

use std::sync::Arc;

use tokio::sync::watch;

/// Shared between a test and the [`Fault::HoldAfter`](crate::Fault::HoldAfter) that waits at it.
#[derive(Debug, Clone)]
pub struct Gate {
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    open: bool,
    arrived: u64,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self { state: Arc::new(watch::Sender::new(State::default())) }
    }

    /// Opens the gate for all waiting and later responses.
    pub fn open(&self) {
        self.state.send_modify(|state| state.open = true);
    }

    /// Waits until `count` responses in total have reached the gate. Cancel-safe.
    pub async fn reached(&self, count: u64) {
        self.wait(|state| state.arrived >= count).await;
    }

    /// Arrives and waits for the gate to open.
    pub(crate) async fn pass(&self) {
        self.state.send_modify(|state| state.arrived = state.arrived.saturating_add(1));
        self.wait(|state| state.open).await;
    }

    async fn wait(&self, holds: impl Fn(&State) -> bool) {
        // An error means that the sender is gone, and `self` holds it.
        let _ = self.state.subscribe().wait_for(holds).await;
    }
}
