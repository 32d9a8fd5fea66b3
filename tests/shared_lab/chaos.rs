//! The agent is killed a few times while pods come, run and go, and while their volumes
//! do; `cargo xtask chaos agent` and `cargo xtask chaos volumes` do it a hundred times,
//! with a new script each time.

use anyhow::Result;
use testkit::chaos::{Plan, World};
use testkit::lab::{Agent, Lab};

#[test]
fn an_agent_that_is_killed_touches_no_container_makes_none_twice_and_leaves_nothing() -> Result<()>
{
    let plan = Plan {
        agent: Agent::Ferrolet,
        kills: 10,
        seed: 10,
        world: World::Pods,
    };
    let report = plan.run(&Lab::shared()?, "chaos-short")?;
    println!("{report}");
    Ok(())
}

#[test]
fn an_agent_that_is_killed_amid_mounts_leaks_none_and_changes_no_file_of_others() -> Result<()> {
    let plan = Plan {
        agent: Agent::Ferrolet,
        kills: 10,
        seed: 11,
        world: World::Volumes,
    };
    let report = plan.run(&Lab::shared()?, "chaos-volumes")?;
    println!("{report}");
    Ok(())
}
