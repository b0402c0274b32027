//! Fire drills: a fault that nobody saw, and a device that somebody has seen to.

use sluice::wire::pb;
use sluice::wire::pb::inject_fault_request::Fault;
use sluice_core::sample::PciAddress;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use crate::health::{Injected, Request};
use crate::report::Reporter;

/// Hands requests on to the owner of the devices' health.
#[derive(Debug, Clone)]
pub(crate) struct Drills {
    /// Where it takes them.
    pub(crate) requests: mpsc::Sender<Request>,
    /// The agent was started with `--allow-fault-injection`.
    pub(crate) is_injection_allowed: bool,
}

impl Drills {
    /// Takes a fault as if the kernel had told it.
    pub(super) async fn inject(
        &self,
        reporter: &Reporter,
        asked: pb::InjectFaultRequest,
    ) -> Result<pb::InjectFaultResponse, Status> {
        if !self.is_injection_allowed {
            return Err(Status::failed_precondition(
                "this agent takes no injected faults; start it with --allow-fault-injection for a fire drill",
            ));
        }
        let pci = address(reporter, &asked.device)?;
        let fault = match asked.fault {
            Some(Fault::Xid(xid)) => Injected::new(pci, xid, asked.pid, asked.text),
            Some(Fault::RecoveryAction(action)) => Ok(Injected::recovery_action(pci, action)),
            None => {
                return Err(Status::invalid_argument("neither xid nor recovery_action is given"));
            }
        };
        let fault = fault.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let (reply, record) = oneshot::channel();
        self.ask(Request::Inject { fault, reply }).await?;
        let record = record.await.map_err(|_| stopping())?;
        Ok(pb::InjectFaultResponse { record })
    }

    /// Forgets what stands against a device.
    pub(super) async fn clear(
        &self,
        reporter: &Reporter,
        device: &str,
    ) -> Result<pb::ClearFaultsResponse, Status> {
        let pci = address(reporter, device)?;
        let (reply, cleared) = oneshot::channel();
        self.ask(Request::Clear { pci, reply }).await?;
        let cleared = cleared.await.map_err(|_| stopping())?;
        Ok(pb::ClearFaultsResponse { cleared })
    }

    async fn ask(&self, request: Request) -> Result<(), Status> {
        self.requests.send(request).await.map_err(|_| stopping())
    }
}

fn stopping() -> Status {
    Status::unavailable("the agent is being stopped")
}

/// Where a device is on the PCI bus.
fn address(reporter: &Reporter, device: &str) -> Result<PciAddress, Status> {
    let sample = reporter.sensors.sample();
    let devices = sample.devices.value.unwrap_or_default();
    let Some(known) = devices.iter().find(|known| known.id == device) else {
        let shown: String = device.chars().take(64).collect();
        return Err(Status::not_found(format!(
            "this node has no device {shown:?}; sluice get devices shows them"
        )));
    };
    known.pci.ok_or_else(|| {
        Status::failed_precondition(format!(
            "device {device} is not on the PCI bus, so the kernel's log cannot speak of it"
        ))
    })
}
