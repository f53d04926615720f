//! Log lines in the shape of Kafka's: `[2026-01-31 12:00:00,000] INFO [KafkaServer id=0] started (broker)`.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// Logs to standard output, as Kafka's scripts do. `OTTLA_LOG` takes filters such as `debug` or `ottla_log=trace`.
pub fn to_stdout() {
    start(std::io::stdout, "info");
}

/// Logs warnings to standard error: a tool's standard output belongs to its results.
pub fn to_stderr() {
    start(std::io::stderr, "warn");
}

fn start<W>(writer: W, default: &str)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_from_env("OTTLA_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).event_format(KafkaLine).with_writer(writer).init();
}

/// `[time] LEVEL message key=value (component)`.
struct KafkaLine;

impl<S, N> FormatEvent<S, N> for KafkaLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let now = jiff::ZonedDateTime::now();
        let level = match *event.metadata().level() {
            Level::ERROR => "ERROR",
            Level::WARN => "WARN",
            Level::INFO => "INFO",
            Level::DEBUG => "DEBUG",
            Level::TRACE => "TRACE",
        };
        write!(out, "[{}] {level} ", now.strftime("%Y-%m-%d %H:%M:%S,%3f"))?;
        let mut line = Line { out: &mut out, outcome: Ok(()) };
        event.record(&mut line);
        line.outcome?;
        let component = event.metadata().target();
        let component = component.strip_prefix("ottla_").unwrap_or(component);
        writeln!(out, " ({component})")
    }
}

/// Writes the message first, since it is recorded first, and each field behind it.
struct Line<'a, 'w> {
    out: &'a mut Writer<'w>,
    outcome: fmt::Result,
}

impl Visit for Line<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.outcome.is_ok() {
            self.outcome = match field.name() {
                "message" => write!(self.out, "{value:?}"),
                name => write!(self.out, " {name}={value:?}"),
            };
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if self.outcome.is_ok() {
            self.outcome = write!(self.out, " {}={value}", field.name());
        }
    }
}
