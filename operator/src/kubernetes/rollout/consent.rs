//! Whether pods may be taken down now for why they differ: in a window, and with somebody's approval where that is asked for.

use k8s_openapi::jiff::Timestamp;

use super::plan::{Block, Rule};
use super::window::Window;
use crate::crd::cluster::Reason;
use crate::kubernetes::names::Node;
use crate::kubernetes::revision::Cause;

/// What has to be agreed to before pods are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// When; always if there are none.
    pub windows: Vec<Window>,
    /// Generation of the spec whose plan waits for approval; `None` if none is needed, or it is there.
    pub unapproved: Option<i64>,
}

/// The reason that a window knows a cause by.
const fn reason(cause: Cause) -> Reason {
    match cause {
        Cause::Image => Reason::Version,
        Cause::Config | Cause::Resources | Cause::Template | Cause::Rack | Cause::Listeners => Reason::Config,
        Cause::Storage | Cause::Restart | Cause::Stop => Reason::Restart,
        Cause::Unknown => Reason::OperatorUpgrade,
    }
}

impl Consent {
    /// What keeps `node` from being replaced for these causes now. A reason that no window is about is free.
    pub fn withheld(&self, node: Node, causes: &[Cause], now_ms: i64) -> Option<Block> {
        if causes.is_empty() {
            return None;
        }
        if let Some(generation) = self.unapproved {
            let detail = format!("agree to status.plan by rollout.approvedGeneration: {generation}");
            return Some(Block::node(Rule::NotApproved, node, detail));
        }
        let closed = causes.iter().copied().map(reason).find(|reason| {
            let mut about = self.windows.iter().filter(|window| window.is_about(*reason)).peekable();
            about.peek().is_some() && !about.any(|window| window.is_open(now_ms))
        })?;
        let about = self.windows.iter().filter(|window| window.is_about(closed));
        let opens = about.filter_map(|window| window.opens_ms(now_ms)).min();
        let opens = opens.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let when = opens.map_or_else(|| "never opens".to_owned(), |at| format!("opens at {at}"));
        Some(Block::node(Rule::WindowClosed, node, format!("the window for {closed:?} {when}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::cluster::Window as RawWindow;

    /// 2026-11-30T02:30:00Z.
    const NOW_MS: i64 = 1_796_005_800_000;

    fn window(cron: &str, reasons: &[Reason]) -> Window {
        let raw = RawWindow { cron: cron.to_owned(), duration: "1h".to_owned(), reasons: reasons.to_vec() };
        Window::read(&raw).unwrap()
    }

    fn said(consent: &Consent, causes: &[Cause]) -> Option<String> {
        consent.withheld(Node::broker(1), causes, NOW_MS).map(|block| block.to_string())
    }

    #[test]
    fn every_cause_needs_an_open_window_if_there_is_one_for_it() {
        let consent = Consent {
            windows: vec![window("0 2 * * *", &[Reason::Config]), window("0 4 * * *", &[Reason::Version])],
            unapproved: None,
        };
        assert_eq!(said(&consent, &[Cause::Config]), None);
        assert_eq!(said(&consent, &[Cause::Restart]), None, "no window is about it");
        let expected = "WindowClosed, broker 1: the window for Version opens at 2026-11-30T04:00:00Z";
        assert_eq!(said(&consent, &[Cause::Image]).as_deref(), Some(expected));
        assert_eq!(said(&consent, &[Cause::Image, Cause::Config]).as_deref(), Some(expected));
        assert_eq!(said(&consent, &[]), None);
        let all = Consent { windows: vec![window("0 2 * * *", &[])], unapproved: None };
        assert_eq!(said(&all, &[Cause::Image, Cause::Restart]), None);
        assert_eq!(said(&Consent::default(), &[Cause::Image]), None);
    }

    #[test]
    fn a_plan_that_needs_approval_names_what_to_agree_to() {
        let consent = Consent { windows: Vec::new(), unapproved: Some(7) };
        let said = said(&consent, &[Cause::Config]).unwrap();
        assert_eq!(said, "NotApproved, broker 1: agree to status.plan by rollout.approvedGeneration: 7");
    }
}
