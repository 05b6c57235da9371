//! What is kept for nodes that were away, and its switches.

use super::{Answer, Failure, Rest};
use crate::http::Request;
use base::HostId;
use serde_json::{Value, json};
use std::time::Duration;

impl Rest {
    /// The answer to a GET.
    pub(super) async fn hints(&self, path: &[&str]) -> Answer {
        let switches = ::hints::switches().await.ok_or_else(Failure::unknown)?;
        Ok(match path {
            ["storage_proxy", "hinted_handoff_enabled"] => json!(switches.is_enabled),
            ["storage_proxy", "max_hint_window"] => {
                json!(u64::try_from(switches.window.as_millis()).unwrap_or(u64::MAX))
            }
            ["messina", "hints", "disabled_dcs"] => json!(switches.disabled_dcs),
            ["messina", "hints"] => self.pending_hints().await,
            _ => return Err(Failure::unknown()),
        })
    }

    async fn pending_hints(&self) -> Value {
        let snapshot = self.coordinator().topology();
        let pending = ::hints::pending().await;
        let shown = pending.into_iter().map(|(host, pending)| {
            let member = snapshot.member(host);
            // What is in memory alone is of this moment.
            let now_ms = runtime::unix_micros() / 1000;
            json!({
                "host_id": host.to_string(),
                "address": member.map(|member| member.broadcast().to_string()),
                "rack": member.map(|member| &member.rack),
                "dc": member.map(|member| &member.dc),
                "up": member.map(|_| snapshot.is_alive(host)),
                "files": pending.files,
                "bytes": pending.bytes,
                "newest_ms": pending.newest_ms.unwrap_or(now_ms),
                "oldest_ms": pending.oldest_ms.unwrap_or(now_ms),
            })
        });
        shown.collect()
    }

    /// The answer to a POST or DELETE.
    pub(super) async fn switch_hints(&self, path: &[&str], request: &Request) -> Answer {
        let number = |name: &str| {
            let text = request.parameter(name).unwrap_or_default();
            text.parse::<u32>()
                .map_err(|_| Failure::new(400, format!("\"{text}\" is no number above or of 0")))
        };
        let post = request.method != "DELETE";
        match path {
            ["hinted_handoff", "hints"] => {
                let host = request.parameter("host").filter(|host| !host.is_empty());
                let target = host.map(|host| self.target_of(&host)).transpose()?;
                ::hints::throw_away(target).await.map_err(|error| Failure::new(500, error))?;
            }
            ["hinted_handoff", "pause"] => {
                let on = request.is_on("pause");
                ::hints::switch(move |switches| switches.is_paused = on).await;
            }
            ["storage_proxy", "hinted_handoff_enabled"] => {
                let on = request.is_on("enable");
                ::hints::switch(move |switches| switches.is_enabled = on).await;
            }
            ["storage_proxy", "max_hint_window"] => {
                let window = Duration::from_millis(number("ms")?.into());
                ::hints::switch(move |switches| switches.window = window).await;
            }
            ["messina", "hints", "throttle"] => {
                let throttle = u64::from(number("value")?) << 10;
                ::hints::switch(move |switches| switches.throttle = throttle).await;
            }
            ["messina", "hints", "disabled_dcs", dc] => {
                let dc = (*dc).to_string();
                ::hints::switch(move |switches| {
                    match post {
                        true => switches.disabled_dcs.insert(dc.clone()),
                        false => switches.disabled_dcs.remove(&dc),
                    };
                })
                .await;
            }
            _ => return Err(Failure::unknown()),
        }
        Ok(Value::Null)
    }

    /// The node of an address, also of one that has left, or of a host id.
    fn target_of(&self, host: &str) -> Result<HostId, Failure> {
        let snapshot = self.coordinator().topology();
        let is_it = |member: &topology::Member| {
            member.broadcast().to_string() == host || member.host_id.to_string() == host
        };
        let all = snapshot.members().ever();
        // Of several nodes that had an address the one that has it now.
        let found = all.iter().filter(|member| is_it(member)).max_by_key(|member| member.state.is_in());
        let unknown = || Failure::new(400, format!("Can't delete hints for unknown address {host}"));
        found.map(|member| member.host_id).ok_or_else(unknown)
    }
}
