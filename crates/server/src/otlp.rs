//! Spans of requests for a collector of `OpenTelemetry`, by OTLP over HTTP.
//!
//! The variables of OpenTelemetry say where the collector is: `OTEL_EXPORTER_OTLP_ENDPOINT` or
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`; without them nothing is sent. `OTEL_SERVICE_NAME`,
//! `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS` and the `OTEL_BSP_` variables work, too.
//!
//! Spans wait in a bounded queue for a thread of their own. Spans that do not fit are dropped, so a
//! collector that does not answer delays no request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Runtime;
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// The variables that name a collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// How long the collector may take for one request.
const RESPONSE_MAX: Duration = Duration::from_secs(10);

/// The longest response that is read: it says only how many spans were refused.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// TLS cannot be used.
    #[error("TLS cannot be used")]
    Tls(#[source] rustls::Error),
    /// The thread of the exporter cannot be started.
    #[error("the thread of the exporter cannot be started")]
    Thread(#[source] std::io::Error),
    /// A variable has a value that the exporter does not accept.
    #[error("a variable of OpenTelemetry is invalid")]
    Settings(#[source] opentelemetry_otlp::ExporterBuildError),
}

/// Sends spans until it is dropped, which sends those that wait.
#[derive(Debug)]
pub struct SpanSender(SdkTracerProvider);

impl SpanSender {
    /// Starts to send spans to the collector that the environment names. `None` if it names none.
    pub fn start() -> Result<Option<Self>, OtlpError> {
        if ENDPOINTS.iter().all(|name| std::env::var_os(name).is_none_or(|url| url.is_empty())) {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_http().with_http_client(Collector::new()?);
        let exporter = exporter.build().map_err(OtlpError::Settings)?;
        let resource = Resource::builder();
        let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
        let resource = if named { resource } else { resource.with_service_name("tidegate") };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Some(Self(provider)))
    }

    /// Takes the spans of a subscriber.
    pub fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer().with_tracer(self.0.tracer("tidegate"))
    }
}

impl Drop for SpanSender {
    fn drop(&mut self) {
        // A collector that does not answer must not keep the process.
        let _ = self.0.shutdown_with_timeout(RESPONSE_MAX);
    }
}

/// The connection to the collector. The exporter has no runtime, so there is one with a single thread.
struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Option<Arc<Runtime>>,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

impl Collector {
    fn new() -> Result<Self, OtlpError> {
        let connector = crate::cache_client::connector().map_err(OtlpError::Tls)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("otlp")
            .enable_all()
            .build()
            .map_err(OtlpError::Thread)?;
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, runtime: Some(Arc::new(runtime)) })
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // A runtime that is dropped within another one would panic.
        if let Some(runtime) = self.runtime.take().and_then(Arc::into_inner) {
            runtime.shutdown_background();
        }
    }
}

#[async_trait::async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let Some(runtime) = &self.runtime else { return Err("the exporter has ended".into()) };
        // The caller's thread has no runtime, so the timer starts within the task.
        let exchange = runtime.spawn(async move {
            let exchange = async move {
                let response = client.request(request.map(Full::new)).await?;
                let (parts, body) = response.into_parts();
                let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await?;
                Ok::<_, HttpError>(Response::from_parts(parts, body.to_bytes()))
            };
            tokio::time::timeout(RESPONSE_MAX, exchange).await?
        });
        exchange.await?
    }
}
