//! A ClusterQueue's spec.

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::id::{QueueName, ResourceName};
use sluice_core::queue::{Queue, Quota};

use super::Version;
use super::field::{Field, FieldError, Object};
use super::quantity::Quantity;

const POLICIES: [&str; 3] = ["Never", "LowerPriority", "LowerOrNewerEqualPriority"];
const RECLAIM_POLICIES: [&str; 3] = ["Never", "LowerPriority", "Any"];

/// A ClusterQueue, and what was taken otherwise than written.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The queue.
    pub queue: Queue,
    /// The flavors it names.
    pub flavors: BTreeSet<String>,
    /// What people should know.
    pub warnings: Vec<String>,
}

/// Reads `spec`.
pub(super) fn parse(
    name: QueueName,
    version: Version,
    mut spec: Object<'_>,
) -> Result<Parsed, FieldError> {
    let mut warnings = Vec::new();
    let cohort = spec.take(match version {
        Version::V1Beta1 => "cohort",
        Version::V1Beta2 => "cohortName",
    });
    let cohort = cohort.text()?.filter(|text| !text.is_empty()).map(str::to_owned);
    let (within, reclaim) = preemption(&spec.take("preemption"), &mut warnings)?;
    let groups = spec.take("resourceGroups");
    let mut quotas = Quotas::default();
    for group in groups.list()? {
        quotas.group(&group)?;
    }
    if quotas.by_resource.is_empty() {
        return Err(groups.error("is empty: the queue would never admit anything; add a group"));
    }
    refuse_what_would_change_decisions(&mut spec)?;
    spec.finish()?;
    warnings.extend(quotas.warnings);
    let queue = Queue {
        name,
        aliases: Vec::new(),
        cohort,
        quotas: quotas.by_resource,
        preempts_lower_priority: within,
        reclaims_within_cohort: reclaim,
    };
    Ok(Parsed { queue, flavors: quotas.flavors, warnings })
}

/// Whether lower priorities of the queue itself and borrowers of the cohort may be preempted.
fn preemption(field: &Field<'_>, warnings: &mut Vec<String>) -> Result<(bool, bool), FieldError> {
    let mut preemption = field.object()?;
    let within = preemption.take("withinClusterQueue").word(&POLICIES, "Never")?;
    let reclaim = preemption.take("reclaimWithinCohort").word(&RECLAIM_POLICIES, "Never")?;
    let borrow = preemption.take("borrowWithinCohort");
    let mut borrowing = borrow.object()?;
    let policy = borrowing.take("policy");
    if policy.word(&["Never", "LowerPriority"], "Never")? != "Never" {
        return Err(policy.error(
            "is LowerPriority, which is not done here: a queue that borrows preempts nobody \
             outside of itself; use Never",
        ));
    }
    borrowing.take("maxPriorityThreshold");
    borrowing.finish()?;
    preemption.finish()?;
    if within == "LowerOrNewerEqualPriority" {
        warnings.push(
            "withinClusterQueue LowerOrNewerEqualPriority is taken as LowerPriority: a newer \
             workload of equal priority is left alone"
                .to_owned(),
        );
    }
    if reclaim == "Any" {
        warnings.push(
            "reclaimWithinCohort Any is taken as LowerPriority: a borrower of equal or higher \
             priority is left alone"
                .to_owned(),
        );
    }
    Ok((within != "Never", reclaim != "Never"))
}

/// Fields of Kueue that mean something here only at some values.
fn refuse_what_would_change_decisions(spec: &mut Object<'_>) -> Result<(), FieldError> {
    let strategy = spec.take("queueingStrategy");
    if strategy.word(&["BestEffortFIFO", "StrictFIFO"], "BestEffortFIFO")? == "StrictFIFO" {
        return Err(strategy.error(
            "is StrictFIFO, which is not done here: a workload that does not fit lets others \
             pass; use BestEffortFIFO",
        ));
    }
    super::refuse_stop(&spec.take("stopPolicy"))?;
    for (name, why) in [
        ("admissionChecks", "there are no admission checks here; remove it"),
        ("admissionChecksStrategy", "there are no admission checks here; remove it"),
        ("admissionScope", "admission fair sharing is not done here; remove it"),
        ("concurrentAdmissionPolicy", "it is not done here; remove it"),
        ("namespaceSelector", "there are no namespaces here; write {}, which means all"),
    ] {
        let field = spec.take(name);
        if !field.is_empty() {
            return Err(field.error(format!("is set, but {why}")));
        }
    }
    // Which flavor is tried first decides nothing where flavors are summed, and weights nothing
    // without fair sharing.
    spec.take("flavorFungibility");
    spec.take("fairSharing");
    Ok(())
}

#[derive(Default)]
struct Quotas {
    by_resource: BTreeMap<ResourceName, Quota>,
    flavors: BTreeSet<String>,
    warnings: Vec<String>,
}

impl Quotas {
    fn group(&mut self, field: &Field<'_>) -> Result<(), FieldError> {
        let mut group = field.object()?;
        let covered_field = group.take("coveredResources");
        let mut covered = BTreeSet::new();
        for resource in covered_field.list()? {
            let name = resource_name(&resource)?;
            if self.by_resource.contains_key(&name) || !covered.insert(name) {
                return Err(resource.error("is covered twice; a resource belongs to one group"));
            }
        }
        let flavors_field = group.take("flavors");
        let flavors = flavors_field.list()?;
        if flavors.is_empty() {
            return Err(flavors_field.must_be("a list of at least one flavor"));
        }
        for flavor in &flavors {
            self.flavor(flavor, &covered)?;
        }
        if flavors.len() > 1 {
            let names: Vec<_> = covered.iter().map(ToString::to_string).collect();
            self.warnings.push(format!(
                "the quotas of the {} flavors of {} are summed: the flavors are not told apart",
                flavors.len(),
                names.join(", ")
            ));
        }
        group.finish()
    }

    fn flavor(
        &mut self,
        field: &Field<'_>,
        covered: &BTreeSet<ResourceName>,
    ) -> Result<(), FieldError> {
        let mut flavor = field.object()?;
        let name = flavor.take("name");
        let resources = flavor.take("resources");
        if !self.flavors.insert(name.required_text()?.to_owned()) {
            return Err(name.must_be("named once in the queue"));
        }
        let mut seen = BTreeSet::new();
        for resource in resources.list()? {
            let name = self.resource(&resource, covered)?;
            if !seen.insert(name) {
                return Err(resource.error("gives a quota for the same resource again"));
            }
        }
        if let Some(missing) = covered.difference(&seen).next() {
            return Err(
                resources.error(format!("has no quota for \"{missing}\", which is covered"))
            );
        }
        flavor.finish()
    }

    fn resource(
        &mut self,
        field: &Field<'_>,
        covered: &BTreeSet<ResourceName>,
    ) -> Result<ResourceName, FieldError> {
        let mut resource = field.object()?;
        let name_field = resource.take("name");
        let name = resource_name(&name_field)?;
        if !covered.contains(&name) {
            return Err(name_field.must_be("one of coveredResources"));
        }
        let nominal_field = resource.take("nominalQuota");
        let nominal = quantity(&nominal_field)?;
        let nominal = nominal.ok_or_else(|| nominal_field.must_be(QUANTITY_EXPECTED))?;
        let borrowing_limit = quantity(&resource.take("borrowingLimit"))?;
        let lending = resource.take("lendingLimit");
        if quantity(&lending)?.is_some_and(|limit| limit < nominal) {
            return Err(lending.error(
                "is below nominalQuota, which is not done here: all that is unused is lent; \
                 remove it",
            ));
        }
        resource.finish()?;
        self.add(&name, Quota { nominal, borrowing_limit });
        Ok(name)
    }

    fn add(&mut self, name: &ResourceName, quota: Quota) {
        let Some(sum) = self.by_resource.get_mut(name) else {
            self.by_resource.insert(name.clone(), quota);
            return;
        };
        sum.nominal = sum.nominal.saturating_add(quota.nominal);
        let limits = sum.borrowing_limit.zip(quota.borrowing_limit);
        sum.borrowing_limit = limits.map(|(a, b)| a.saturating_add(b));
    }
}

fn resource_name(field: &Field<'_>) -> Result<ResourceName, FieldError> {
    let expected = "the name of a resource, such as \"nvidia.com/gpu\"";
    field.required_text()?.parse().map_err(|_| field.must_be(expected))
}

const QUANTITY_EXPECTED: &str = "a quantity of whole units, such as 4, \"16Gi\" or \"2k\"";

fn quantity(field: &Field<'_>) -> Result<Option<u64>, FieldError> {
    let Some(text) = field.scalar()? else { return Ok(None) };
    let Some(quantity) = Quantity::parse(&text) else {
        return Err(field.must_be(QUANTITY_EXPECTED));
    };
    let whole = quantity.whole();
    let problem = || field.error(format!("is {text:?}, which is not a whole number of units"));
    whole.map(Some).ok_or_else(problem)
}
