//! The figures of `shedlock prove`, as lines and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::duration::{brief, format};
use crate::prove::{Figures, Latency};
use crate::report::messages::printable;
use crate::report::secrets::without_secrets;

/// What `prove` reports beside the findings.
pub(crate) struct ProofReport<'a> {
    pub(crate) address: &'a str,
    pub(crate) seed: u64,
    pub(crate) lasting: Duration,
    pub(crate) clients: usize,
    pub(crate) figures: &'a Figures,
    pub(crate) forgotten: u64,
    pub(crate) rounds: u64,
}

impl ProofReport<'_> {
    /// Returns the figures as lines.
    pub(super) fn text(&self) -> String {
        let figures = self.figures;
        let mut lines = vec![
            format!(
                "{} requests, {} of them cut, delayed or kept back; seed {}",
                figures.requests, figures.cuts, self.seed
            ),
            format!("takings   {}, {:.0} a second", latency(&figures.takings), figures.rate()),
            format!("skips     {}", latency(&figures.skips)),
            format!("releases  {}", latency(&figures.releases)),
            format!("the longest stall: {}, from {} on", brief(figures.stall.lasted), brief(figures.stall_began())),
        ];
        if figures.errors.count > 0 {
            lines.push(format!("errors    {}", figures.errors.count));
            let all = figures
                .errors
                .by_message
                .iter()
                .map(|(message, count)| format!("  {count} x {}", printable(&without_secrets(message))));
            lines.extend(all);
            if figures.errors.others > 0 {
                lines.push(format!("  {} others", figures.errors.others));
            }
        }
        if self.forgotten > 0 || figures.errors.count > 0 {
            lines.push(String::new());
            lines.push(self.summary());
        }
        lines.join("\n") + "\n"
    }

    /// Says what a failover has cost.
    fn summary(&self) -> String {
        let stall = format!("For at most {} no request for a lock was answered.", brief(self.figures.stall.lasted));
        match self.forgotten {
            0 => format!("{stall} No lock was forgotten."),
            1 => format!(
                "{stall} 1 lock was forgotten: its holder was alive and had time left, and lost it. Two jobs can run at once then."
            ),
            many => format!(
                "{stall} {many} locks were forgotten: their holders were alive and had time left, and lost them. Two jobs can run at once then."
            ),
        }
    }

    /// Returns everything as JSON.
    pub(super) fn json(&self, findings: &[Value]) -> Value {
        let figures = self.figures;
        let errors: Vec<Value> = figures
            .errors
            .by_message
            .iter()
            .map(|(message, count)| json!({ "message": without_secrets(message), "count": count }))
            .collect();
        json!({
            "backend": self.address,
            "seed": self.seed.to_string(),
            "for": format(self.lasting),
            "clients": self.clients,
            "findings": findings,
            "figures": {
                "requests": figures.requests,
                "rounds": self.rounds,
                "cuts": figures.cuts,
                "takings": latency_json(&figures.takings),
                "takings_per_second": figures.rate(),
                "skips": latency_json(&figures.skips),
                "releases": latency_json(&figures.releases),
                "longest_stall": figures.stall.lasted.as_secs_f64(),
                "longest_stall_began": figures.stall_began().as_secs_f64(),
                "errors": figures.errors.count,
                "errors_by_message": errors,
                "other_errors": figures.errors.others,
            },
            "forgotten": self.forgotten,
        })
    }
}

fn latency(latency: &Latency) -> String {
    match (latency.percentile(50), latency.percentile(99)) {
        (Some(median), Some(most)) => {
            format!("{}, median {}, 99 % within {}", latency.count, brief(median), brief(most))
        }
        _ => latency.count.to_string(),
    }
}

fn latency_json(latency: &Latency) -> Value {
    let seconds = |percent| latency.percentile(percent).map(|time| time.as_secs_f64());
    json!({ "count": latency.count, "median": seconds(50), "p99": seconds(99) })
}
