//! Resource groups with their flavors and quotas, of a ClusterQueue or a Cohort.

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::kueue::model::{FlavorQuotas, Quota, ResourceGroup};
use sluice_core::kueue::name::{FlavorName, ResourceName};
use sluice_core::kueue::weight::FairWeight;

use super::field::Field;
use super::findings::Kind;
use super::name::{qualified_name, required_object_name};
use super::problem::{NoteKind, ProblemKind};
use super::quantity::{Amount, Quantity, QuantityError, Unit, amount_of};

/// Most groups of a queue, and most resources or flavors of a group: Kueue's limits.
const GROUPS_MAX: usize = 16;
const MEMBERS_MAX: usize = 64;
/// Most flavors, and most resources, of all groups together: Kueue's limit.
const TOTAL_MAX: usize = 256;

/// Whom the groups belong to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    /// Whether there is a cohort above it, so that limits mean something.
    pub(super) has_cohort: bool,
    /// The field that names the cohort above it.
    pub(super) cohort_field: &'static str,
    /// Whether it may lend more than its own quota: a cohort passes on what those below it lend.
    pub(super) passes_on: bool,
}

/// Reads `resourceGroups`.
pub(super) fn groups(field: &Field<'_>, owner: Owner) -> Vec<ResourceGroup> {
    let mut seen = Seen { owner, resources: BTreeSet::new(), flavors: BTreeSet::new() };
    let groups = field.list(GROUPS_MAX).iter().map(|group| seen.group(group)).collect();
    for (what, count) in [("flavors", seen.flavors.len()), ("resources", seen.resources.len())] {
        if count > TOTAL_MAX {
            field.problem(ProblemKind::TooMany, || {
                format!("have {count} {what} together; at most {TOTAL_MAX} are possible")
            });
        }
    }
    groups
}

/// What the groups read so far have.
struct Seen {
    owner: Owner,
    resources: BTreeSet<ResourceName>,
    flavors: BTreeSet<FlavorName>,
}

impl Seen {
    fn group(&mut self, field: &Field<'_>) -> ResourceGroup {
        let mut group = field.object();
        let covered_field = group.take("coveredResources");
        let flavors_field = group.take("flavors");
        group.finish();
        let covered = self.covered(&covered_field);
        if flavors_field.is_empty() {
            let expected = "a list of at least one flavor";
            flavors_field.must_be(ProblemKind::MissingField, expected);
        }
        let flavors = flavors_field.list(MEMBERS_MAX);
        let flavors = flavors.iter().filter_map(|flavor| self.flavor(flavor, covered.as_deref()));
        let flavors = flavors.collect();
        ResourceGroup { resources: covered.unwrap_or_default(), flavors }
    }

    /// The resources of a group; `None` where something is wrong with them, so that it is not told again per flavor.
    fn covered(&mut self, field: &Field<'_>) -> Option<Vec<ResourceName>> {
        if field.is_empty() {
            field.must_be(ProblemKind::MissingField, "a list of at least one resource");
        }
        let mut covered = Vec::new();
        let elements = field.list(MEMBERS_MAX);
        for element in &elements {
            let Some(name) = qualified_name(element).map(ResourceName::from) else { continue };
            if !self.resources.insert(name.clone()) {
                element.problem(ProblemKind::DuplicateEntry, || {
                    format!("is {name:?} again; a resource belongs to one group, and there once")
                });
                continue;
            }
            covered.push(name);
        }
        let is_sound = !elements.is_empty() && covered.len() == elements.len();
        is_sound.then_some(covered)
    }

    fn flavor(
        &mut self,
        field: &Field<'_>,
        covered: Option<&[ResourceName]>,
    ) -> Option<FlavorQuotas> {
        let mut object = field.object();
        let name_field = object.take("name");
        let resources_field = object.take("resources");
        object.finish();
        let name = required_object_name(&name_field);
        if let Some(name) = name {
            name_field.refers_to(Kind::ResourceFlavor, name);
            if !self.flavors.insert(FlavorName::from(name)) {
                name_field.problem(ProblemKind::DuplicateEntry, || {
                    format!("is {name:?} again; a flavor belongs to one group, and there once")
                });
            }
        }
        let quotas = self.quotas(&resources_field, covered);
        Some(FlavorQuotas { flavor: FlavorName::from(name?), quotas })
    }

    fn quotas(
        &self,
        field: &Field<'_>,
        covered: Option<&[ResourceName]>,
    ) -> BTreeMap<ResourceName, Quota> {
        let mut quotas = BTreeMap::new();
        let mut order = Vec::new();
        for element in field.list(MEMBERS_MAX) {
            let mut object = element.object();
            let name_field = object.take("name");
            let name = qualified_name(&name_field).map(ResourceName::from);
            let limits = [object.take("borrowingLimit"), object.take("lendingLimit")];
            let quota = self.quota(name.as_ref(), &object.take("nominalQuota"), &limits);
            object.finish();
            let Some(name) = name else { continue };
            if let Some(covered) = covered.filter(|covered| !covered.contains(&name)) {
                name_field.problem(ProblemKind::ResourcesDiffer, || {
                    let covered = listed(covered);
                    format!("is {name:?}, which the group does not cover; coveredResources are {covered}")
                });
            } else if quotas.insert(name.clone(), quota).is_some() {
                name_field.problem(ProblemKind::DuplicateEntry, || {
                    format!("is {name:?} again; a flavor has one quota of a resource")
                });
            }
            order.push(name);
        }
        if let Some(covered) = covered {
            compare(field, covered, &order);
        }
        quotas
    }

    fn quota(
        &self,
        resource: Option<&ResourceName>,
        nominal_field: &Field<'_>,
        [borrowing_field, lending_field]: &[Field<'_>; 2],
    ) -> Quota {
        if nominal_field.is_absent() {
            nominal_field.must_be(ProblemKind::MissingField, "a quantity; 0 is possible");
        }
        let read = |field| resource.and_then(|resource| amount(field, resource));
        let nominal = read(nominal_field);
        let (borrowing_limit, lending_limit) = (read(borrowing_field), read(lending_field));
        for field in [borrowing_field, lending_field] {
            if !field.is_absent() && !self.owner.has_cohort {
                field.problem(ProblemKind::LimitWithoutCohort, || {
                    let above = self.owner.cohort_field;
                    format!("is set, but there is no cohort to share with; set spec.{above} or take this out")
                });
            }
        }
        if let (Some(lending), Some(nominal), Some(resource)) = (lending_limit, nominal, resource)
            && lending > nominal
            && !self.owner.passes_on
        {
            lending_field.problem(ProblemKind::LendingAboveNominal, || {
                let unit = Unit::of(resource);
                let (lending, nominal) = (unit.show(lending), unit.show(nominal));
                format!(
                    "is {lending}, but nominalQuota is {nominal}; a queue lends at most what it has"
                )
            });
        }
        Quota { nominal: nominal.unwrap_or(0), borrowing_limit, lending_limit }
    }
}

/// Kueue wants the resources to be those covered, in that order.
fn compare(field: &Field<'_>, covered: &[ResourceName], given: &[ResourceName]) {
    let missing = covered.iter().filter(|name| !given.contains(name));
    let missing: Vec<ResourceName> = missing.cloned().collect();
    if !missing.is_empty() {
        field.problem(ProblemKind::ResourcesDiffer, || {
            let missing = listed(&missing);
            format!("lack a quota for {missing}, which the group covers; add one (0 is possible)")
        });
    } else if given.len() == covered.len() && given != covered {
        let message = "are not in the order of coveredResources: Kueue would refuse that";
        field.note(NoteKind::ResourceOrder, message);
    }
}

fn listed(names: &[ResourceName]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// An amount of `resource`; `None` where it is absent or bad.
pub(super) fn amount(field: &Field<'_>, resource: &ResourceName) -> Option<i64> {
    let text = field.scalar()?;
    let amount = told(field, amount_of(resource, &text))?;
    if !amount.is_exact && Unit::of(resource) == Unit::Whole {
        let (shown, value) = (field.shown(), amount.value);
        let message = format!("is {shown}, which counts as {value}: {resource} has no parts");
        field.note(NoteKind::RoundedUp, &message);
    }
    Some(amount.value)
}

/// `fairSharing.weight`; 1 where it is absent.
pub(super) fn fair_weight(field: &Field<'_>) -> FairWeight {
    let mut object = field.object();
    let weight_field = object.take("weight");
    object.finish();
    let Some(text) = weight_field.scalar() else { return FairWeight::ONE };
    let nano = Quantity::parse(&text).and_then(|weight| weight.count(1_000_000_000));
    let Some(nano) = told(&weight_field, nano) else { return FairWeight::ONE };
    if nano.value == 1 {
        // Kueue would divide by it.
        weight_field.must_be(ProblemKind::BadValue, "0 or more than a billionth");
    }
    FairWeight::from_nano_units(nano.value.unsigned_abs())
}

/// The amount, or `None` once it is told why there is none.
fn told(field: &Field<'_>, amount: Result<Amount, QuantityError>) -> Option<Amount> {
    match amount {
        Ok(amount) => Some(amount),
        Err(error) => {
            let kind = match error {
                QuantityError::Malformed | QuantityError::TooLong => ProblemKind::BadQuantity,
                QuantityError::Negative => ProblemKind::NegativeQuantity,
                QuantityError::TooLarge => ProblemKind::QuantityTooLarge,
            };
            field.problem(kind, || format!("is {} but {error}", field.shown()));
            None
        }
    }
}
