//! Writes that must read first: list elements named by place or value.

use crate::bound::{ReadThenWrite, check_read_consistency, modification};
use crate::engine::Engine;
use crate::error::Error;
use crate::outcome::Answer;
use cql::{BoundValue, Plan, Prior};
use mutation::ReadCommand;
use types::Consistency;

impl Engine {
    pub(crate) async fn run_read_then_write(&self, work: &ReadThenWrite) -> Result<Answer, Error> {
        let values: Vec<BoundValue<'_>> = work.values.iter().map(|value| value.lent()).collect();
        let context = &work.context;
        let write = match &work.analysed.plan {
            Plan::Modify(plan) => {
                let reads = plan.prior_read(&values, context)?.into_iter().collect();
                let prior = self.read_prior(reads, work.consistency).await?;
                let mut mutations = Vec::with_capacity(1);
                plan.bind_into(&values, context, &prior, &mut mutations)?;
                modification(mutations, false, work.consistency, work.timeout)
            }
            Plan::Batch(plan) => {
                let reads = plan.prior_reads(&values, context)?;
                let prior = self.read_prior(reads, work.consistency).await?;
                let mutations = plan.bind(&values, context, &prior)?;
                self.batch_write(mutations, plan.logged, false, work.consistency)?
            }
            _ => return Err(Error::Server("a statement took the wrong way".into())),
        };
        self.run_write(write).await
    }

    /// Reads what writes must know, at the level of the write.
    pub(crate) async fn read_prior(
        &self,
        reads: Vec<ReadCommand>,
        consistency: Consistency,
    ) -> Result<Prior, Error> {
        let mut prior = Prior::default();
        if !reads.is_empty() {
            check_read_consistency(consistency).map_err(|_| {
                Error::Invalid(format!(
                    "Write operation require a read but consistency {consistency} is not supported on reads"
                ))
            })?;
        }
        for mut command in reads {
            loop {
                let answer = self.coordinator.read(&command, consistency, self.settings.read_timeout).await?;
                match prior.add(answer) {
                    Some(stopped) => command.resume = Some(stopped),
                    None => break,
                }
            }
        }
        Ok(prior)
    }
}
