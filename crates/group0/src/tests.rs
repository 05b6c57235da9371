//! The state under commands: every rule by name, random commands over several replicas, founding and joining.

mod fixture;
mod founding;
mod joining;
mod random;
mod rules;
