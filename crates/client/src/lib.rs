//! A CQL client on the Messina runtime, for the tools, the benches and the simulator.
#![forbid(unsafe_code)]
