//! The agent is killed a few times while pods come, run and go; `cargo xtask
//! chaos agent` does it a hundred times, with a new script each time.

use anyhow::Result;
use testkit::chaos::Plan;
use testkit::lab::{Agent, Lab};

#[test]
fn an_agent_that_is_killed_touches_no_container_makes_none_twice_and_leaves_nothing() -> Result<()>
{
    let plan = Plan {
        agent: Agent::Ferrolet,
        kills: 10,
        seed: 10,
    };
    let report = plan.run(&Lab::shared()?, "chaos-short")?;
    println!("{report}");
    Ok(())
}
