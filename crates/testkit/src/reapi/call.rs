//! One call, from its arrival to its end.
//!
//! The order is always the same: read the request; let the script pick faults; delay; gate;
//! evictions before the work; work; evictions after the work; response. A call ends at once, in any
//! step, when its client resets it.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Request, header};
use prost::Message;
use tokio::sync::mpsc::UnboundedSender;

use super::{
    answer::{Answer, Data, Gone},
    batches, capabilities,
    cas::Cas,
    counts::InFlight,
    find_missing,
    hostile::{Asked, Lie, Reply},
    manifests,
    messages::{Broken, Messages},
    plan::{Plan, Verdict},
    read,
    rpc::Rpc,
    shared::Shared,
    status::{Code, GrpcStatus},
    write,
};

/// The effects of a call on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Close it at once.
    Close,
    /// Finish the calls in flight and accept no more.
    GoAway,
    /// Keep it open without further activity.
    Silence,
}

/// The reasons for which a call fails.
#[derive(Debug)]
pub(crate) enum Stop {
    Gone,
    Status(GrpcStatus),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<GrpcStatus> for Stop {
    fn from(status: GrpcStatus) -> Self {
        Self::Status(status)
    }
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Gone => Self::Gone,
            Broken::Refused(status) => Self::Status(status),
        }
    }
}

/// A call in flight.
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    /// The caller's side of the cache.
    pub(crate) cas: Arc<Cas>,
    pub(crate) rpc: Rpc,
    pub(crate) messages: Messages,
    pub(crate) answer: Answer,
    /// The lies about the response as a whole.
    pub(crate) lies: Vec<Lie>,
    /// The facts that the response can acknowledge.
    pub(crate) asked: Asked,
    /// The honest messages, if the response is built before it is sent.
    built: Vec<Bytes>,
    hashes: Vec<String>,
    flight: InFlight,
    commands: UnboundedSender<Command>,
}

/// Responds to a call.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    connection: u64,
    commands: UnboundedSender<Command>,
    request: Request<RecvStream>,
    respond: SendResponse<Data>,
) {
    let mut answer = Answer::new(Arc::clone(&shared), respond);
    let (head, body) = request.into_parts();
    let Some(rpc) = Rpc::of_path(head.uri.path()) else {
        let message = format!("there is no {}", head.uri.path());
        let _ = answer.end(&GrpcStatus::new(Code::Unimplemented, message));
        return;
    };
    let (cas, refusal) = admission(&shared, rpc, &head.headers);
    let flight = InFlight::begin(&shared.ledger, rpc, connection, head.headers);
    let messages = Messages::new(body, shared.options.message_bytes_max);
    let mut call = Call {
        shared,
        cas,
        rpc,
        messages,
        answer,
        lies: Vec::new(),
        asked: Asked::default(),
        built: Vec::new(),
        hashes: Vec::new(),
        flight,
        commands,
    };
    let done = match refusal {
        Some(status) => Err(Stop::Status(status)),
        None => call.run().await,
    };
    let status = match done {
        Ok(()) => GrpcStatus::ok(),
        Err(Stop::Status(status)) => status,
        Err(Stop::Gone) => return,
    };
    call.flight.edit(|call| call.code = Some(status.code));
    if call.is_built() {
        call.deliver(&status).await;
        return;
    }
    let Call { mut answer, flight, .. } = call;
    // The call is counted as done before the client can see its end.
    drop(flight);
    // If this fails, the client is gone.
    let _ = answer.end(&status);
}

/// The caller's side of the cache, and why the call is refused, if it is.
fn admission(shared: &Shared, rpc: Rpc, headers: &HeaderMap) -> (Arc<Cas>, Option<GrpcStatus>) {
    let given = headers.get(header::AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let is = |token: &str| given == Some(format!("Bearer {token}").as_bytes());
    if let Some((_, cas)) = shared.tenants.iter().find(|(token, _)| is(token)) {
        return (Arc::clone(cas), None);
    }
    let is_open = rpc == Rpc::Capabilities && shared.options.open_capabilities;
    let refused = shared.options.token.as_deref().is_some_and(|token| !is(token)) && !is_open;
    let status = || GrpcStatus::new(Code::Unauthenticated, "expected another token");
    (Arc::clone(&shared.cas), refused.then(status))
}

impl Call {
    async fn run(&mut self) -> Result<(), Stop> {
        match self.rpc {
            Rpc::Capabilities => capabilities::serve(self).await,
            Rpc::FindMissing => find_missing::serve(self).await,
            Rpc::BatchUpdate => batches::update(self).await,
            Rpc::BatchRead => batches::read(self).await,
            Rpc::Split => manifests::split(self).await,
            Rpc::Splice => manifests::splice(self).await,
            Rpc::Read => read::serve(self).await,
            Rpc::Write => write::serve(self).await,
            Rpc::QueryWriteStatus => write::status(self).await,
            Rpc::GetTree => {
                let message = "trees are not kept here";
                Err(GrpcStatus::new(Code::Unimplemented, message).into())
            }
        }
    }

    /// Whether the response is built as a whole before it is sent.
    pub(crate) fn is_built(&self) -> bool {
        !self.lies.is_empty() || self.shared.options.acknowledgements
    }

    /// Adds a message to a response that is built.
    pub(crate) fn build(&mut self, message: Bytes) {
        self.built.push(message);
    }

    async fn deliver(mut self, status: &GrpcStatus) {
        let lies = std::mem::take(&mut self.lies);
        let mut reply = Reply::honest(std::mem::take(&mut self.built), status);
        reply.tell(&lies);
        if lies.contains(&Lie::Evict) {
            self.hashes.iter().for_each(|hash| self.cas.evict(hash));
        }
        let acknowledged = self.shared.acknowledged.lock();
        acknowledged.unwrap_or_else(PoisonError::into_inner).read(&self.asked, &reply);
        // It fails only if the client is gone.
        let _ = reply.deliver(&mut self).await;
    }

    /// The next message, decoded; `None` after the last.
    pub(crate) async fn next<T: Message + Default>(&mut self) -> Result<Option<T>, Stop> {
        let Some(body) = self.answer.or_gone(self.messages.next()).await?? else {
            return Ok(None);
        };
        decode(body).map(Some)
    }

    /// The only message, decoded.
    pub(crate) async fn request<T: Message + Default>(&mut self) -> Result<T, Stop> {
        decode(self.answer.or_gone(self.messages.only()).await??)
    }

    pub(crate) fn check_instance(&self, instance: &str) -> Result<(), Stop> {
        let expected = &self.shared.options.instance;
        if instance == expected {
            return Ok(());
        }
        let message = format!("expected the instance {expected:?}, got {instance:?}");
        Err(GrpcStatus::invalid(message).into())
    }

    /// Lets the script pick the faults and performs the steps before the work.
    pub(crate) async fn admit(&mut self, hashes: Vec<String>, offset: i64) -> Result<Plan, Stop> {
        let mut plan = Plan::of(self.shared.decide(self.rpc, &hashes));
        self.lies.clone_from(&plan.lies);
        self.hashes.clone_from(&hashes);
        self.flight.edit(|call| {
            call.hashes = hashes;
            call.offset = offset;
        });
        let delay = self.shared.delay() + Duration::from_millis(plan.delay_ms);
        if !delay.is_zero() {
            self.answer.or_gone(tokio::time::sleep(delay)).await?;
        }
        for gate in &plan.holds {
            self.answer.or_gone(gate.pass()).await?;
        }
        for hash in &plan.evict_before {
            self.cas.evict(hash);
        }
        for hash in &plan.haunt_before {
            self.cas.haunt(hash);
        }
        if plan.go_away {
            self.command(Command::GoAway);
        }
        if let Some(verdict) = plan.before.take() {
            return Err(self.condemn(verdict).await);
        }
        Ok(plan)
    }

    /// Sends the response of a call with a single response message.
    pub(crate) async fn give(&mut self, plan: Plan, answer: &impl Message) -> Result<(), Stop> {
        self.evict_after(&plan);
        if let Some(verdict) = plan.after {
            return Err(self.condemn(verdict).await);
        }
        if self.is_built() {
            self.build(answer.encode_to_vec().into());
            return Ok(());
        }
        Ok(self.answer.message(answer).await?)
    }

    pub(crate) fn evict_after(&self, plan: &Plan) {
        for hash in &plan.evict_after {
            self.cas.evict(hash);
        }
    }

    pub(crate) async fn condemn(&mut self, verdict: Verdict) -> Stop {
        match verdict {
            Verdict::Fail(status) => Stop::Status(status),
            other => self.condemned(other).await.into(),
        }
    }

    /// The same for a verdict without a status.
    pub(crate) async fn condemned(&mut self, verdict: Verdict) -> Gone {
        match verdict {
            Verdict::Fail(_) | Verdict::Lost => {}
            Verdict::Reset(code) => return self.answer.abandon(code).await,
            Verdict::Close => {
                self.answer.overtaken().await;
                self.command(Command::Close);
            }
            Verdict::Silence => self.command(Command::Silence),
        }
        self.answer.until_gone().await
    }

    pub(crate) fn command(&self, command: Command) {
        // Sending fails only if the connection is already gone.
        let _ = self.commands.send(command);
    }
}

fn decode<T: Message + Default>(body: Bytes) -> Result<T, Stop> {
    T::decode(body).map_err(|error| {
        GrpcStatus::new(Code::Internal, format!("no such message: {error}")).into()
    })
}
