//! This node among the others: its connections, and who answers, shown to every shard.

use crate::config::{Config, Place};
use crate::limits::LOAD_PAUSE;
use crate::operator::ClientPort;
use crate::start::StartError;
use admin::NativeTransport;
use cluster::{Folder, Group0};
use coordinator::Coordinator;
use core::net::SocketAddr;
use query::Engine;
use rpc::{Event, Facts, Gatekeeper, Hello, Identity, Links, Refusal, Registry, Target};
use runtime::Group;
use schema::Schema;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use tls::Encryption;
use topology::{Member, Snapshot};

/// The connections of this node, on shard 0. Installed there.
pub(crate) struct Internode {
    links: Rc<Links>,
    changed: runtime::sync::Event,
    /// Bytes of live data on this node, as they were counted last.
    load: Rc<Cell<u64>>,
}

/// The other nodes, however this one knows of them.
#[derive(Clone)]
pub(crate) enum Others {
    /// It is alone.
    None,
    /// They are named in its configuration.
    Fixed(Rc<Internode>),
    /// The cluster's log says who they are.
    Cluster(Rc<Group0>),
}

/// What the node is when it begins to look for others.
pub(crate) struct Beginning<'a> {
    pub(crate) config: &'a Arc<Config>,
    /// What it has so far.
    pub(crate) schema: &'a Schema,
    /// Seconds since the epoch.
    pub(crate) started_at_s: u64,
}

impl Others {
    /// Finds them. A node of a cluster is a member when this returns.
    pub(crate) async fn open(
        clients: &ClientPort,
        member: Member,
        folder: Option<Folder>,
        Beginning { config, schema, started_at_s }: Beginning<'_>,
    ) -> Result<Others, StartError> {
        let Some(folder) = folder else {
            return Ok(match config.peers.is_empty() {
                true => Others::None,
                false => Others::Fixed(Internode::open(config, clients, started_at_s).await?),
            });
        };
        let (rules, here, clients) = (config.clone(), member.clone(), clients.clone());
        let port = clients.clone();
        let settings = cluster::Settings {
            folder: config.data_directory.join("group0"),
            member,
            listens: SocketAddr::new(config.listen_address, config.storage_port),
            cluster_name: config.cluster_name.clone(),
            seeds: seeds(config),
            auto_bootstrap: config.auto_bootstrap,
            replaces: config.replaces,
            started_at_s,
            schema: Arc::new(cluster::builtin::logged(schema)),
            roles: Box::new(|| {
                Box::pin(async {
                    let roles = runtime::local::<Engine>().roles_to_found_with().await;
                    roles.map_err(|error| error.to_string())
                })
            }),
            encrypts: Box::new(move |there| target(&rules, &here, there).encrypt),
            clients_open: Box::new(move || clients.is_running()),
            hints: Box::new(|| Box::pin(hints::held())),
            close_clients: Box::new(move |reason| port.close_for(reason)),
        };
        let group0 = Group0::start(settings, folder).await?;
        runtime::install(group0.clone());
        listen(group0.links(), config).await?;
        group0.enter().await?;
        Ok(Others::Cluster(group0))
    }

    /// Whether this node is alone.
    pub(crate) fn are_none(&self) -> bool {
        matches!(self, Others::None)
    }

    /// The connections to them.
    pub(crate) fn links(&self) -> Option<&Rc<Links>> {
        match self {
            Others::None => None,
            Others::Fixed(internode) => Some(&internode.links),
            Others::Cluster(group0) => Some(group0.links()),
        }
    }

    /// Returns once this node cannot write its part of the cluster's log any more, with file and error; with nothing where it has none, or stops.
    pub(crate) async fn ended(&self) -> Option<String> {
        match self {
            Others::None | Others::Fixed(_) => None,
            Others::Cluster(group0) => group0.ended().await.map(|error| error.to_string()),
        }
    }

    /// Tells them that this node stops.
    pub(crate) async fn say_goodbye(&self) {
        match self {
            Others::None => {}
            Others::Fixed(internode) => internode.say_goodbye().await,
            Others::Cluster(group0) => group0.say_goodbye().await,
        }
    }

    /// Tells them that this node is gone; or makes connections anew, so that they find it back.
    pub(crate) async fn talk(&self, on: bool) {
        match self {
            Others::None => {}
            Others::Fixed(internode) if on => internode.links.return_to_peers(),
            Others::Fixed(internode) => internode.say_goodbye().await,
            Others::Cluster(group0) => group0.talk(on).await,
        }
    }

    /// Ends all connections with them.
    pub(crate) async fn close(&self) {
        match self {
            Others::None => {}
            Others::Fixed(internode) => internode.close(),
            Others::Cluster(group0) => group0.stop().await,
        }
    }
}

fn seeds(config: &Config) -> Vec<(String, u16)> {
    let own = config.storage_port;
    config.seeds.iter().map(|seed| (seed.host.clone(), seed.port.unwrap_or(own))).collect()
}

/// Says who this node is, and who may speak with it.
struct Gate {
    identity: Identity,
    clients: ClientPort,
    load: Rc<Cell<u64>>,
    started_at_s: u64,
}

impl Gatekeeper for Gate {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn check(&self, theirs: &Hello) -> Result<(), Refusal> {
        theirs.judge(&self.identity, None, runtime::unix_micros())
    }

    fn facts(&self) -> Facts {
        Facts {
            native_open: self.clients.is_running(),
            load: self.load.get(),
            schema_version: runtime::local::<Coordinator>().schema().version,
            started_at_s: self.started_at_s,
            ..Facts::default()
        }
    }
}

impl Internode {
    /// Starts listening for other members, and connects to them.
    pub(crate) async fn open(
        config: &Config,
        clients: &ClientPort,
        started_at_s: u64,
    ) -> Result<Rc<Internode>, StartError> {
        let coordinator = runtime::local::<Coordinator>();
        let snapshot = coordinator.topology();
        let local = snapshot.local();
        let identity = Identity {
            cluster_name: config.cluster_name.clone(),
            host: local.host_id,
            shards: local.shards,
            ignore_msb: local.ignore_msb,
            features: local.features,
            address: Some(local.internode),
            release: local.release.clone(),
            ..Identity::default()
        };
        let changed = runtime::sync::Event::new();
        let told = changed.clone();
        let tell = Rc::new(move |_: Event| told.notify());
        let load = Rc::new(Cell::new(0));
        let gate = Gate { identity, clients: clients.clone(), load: load.clone(), started_at_s };
        let links = Links::start(Rc::new(gate), Registry::new(), tell);
        let internode = Rc::new(Internode { links, changed, load });
        listen(&internode.links, config).await?;
        for member in snapshot.others() {
            internode.links.add(member.host_id, target(config, local, member)).await;
        }
        let (watch, counted) = (internode.clone(), internode.clone());
        let counting = coordinator.clone();
        drop(runtime::spawn(Group::CONTROL, async move { watch.watch(&coordinator).await }));
        drop(runtime::spawn(Group::ADMIN, async move { counted.count_load(&counting).await }));
        Ok(internode)
    }

    /// Shows every shard who answers, for as long as the node runs.
    async fn watch(&self, coordinator: &Coordinator) {
        while !coordinator.is_closed() {
            let snapshot = coordinator.topology();
            let serves = |host| self.links.facts(host).is_some_and(|facts| facts.native_open);
            let up = snapshot.others().map(|member| member.host_id).filter(|host| self.links.is_up(*host));
            let said = |host| self.links.facts(host).map(|facts| (host, facts.schema_version));
            let said = snapshot.others().filter_map(|member| said(member.host_id));
            let liveness = topology::Liveness::with_ports(up.map(|host| (host, serves(host))))
                .with_schemas(snapshot.liveness(), said.filter(|(_, version)| *version != 0));
            if liveness != *snapshot.liveness() {
                publish(snapshot.with_liveness(liveness)).await;
                continue;
            }
            self.changed.wait().await;
        }
    }

    /// Counts from time to time what this node holds: others are told with every ping.
    async fn count_load(&self, coordinator: &Coordinator) {
        while !coordinator.is_closed() {
            self.load.set(coordinator.local().live_bytes().await);
            runtime::sleep(LOAD_PAUSE).await;
        }
    }

    /// Tells the others that this node stops.
    pub(crate) async fn say_goodbye(&self) {
        self.links.say_goodbye().await;
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        self.links.close();
        self.changed.notify();
    }
}

/// Listens for other nodes on every port that the configuration says.
async fn listen(links: &Rc<Links>, config: &Config) -> Result<(), StartError> {
    let rules = &config.internode;
    if let Some((server, client)) = rules.tls() {
        links.use_keys(server, client).await.map_err(StartError::InternodeKeys)?;
    }
    let ports =
        [(Some(config.storage_port), rules.port_encryption()), (rules.ssl_port(), Encryption::Required)];
    for (port, encryption) in ports {
        let Some(port) = port else { continue };
        for ip in config.internode_listeners() {
            let address = SocketAddr::new(ip, port);
            let listening = links.listen(address, encryption).await;
            listening.map_err(|source| StartError::Internode { address, source })?;
        }
    }
    Ok(())
}

fn target(config: &Config, here: &Member, member: &Member) -> Target {
    fn place(member: &Member) -> Place<'_> {
        Place { dc: &member.dc, rack: &member.rack }
    }
    Target { address: member.internode, encrypt: config.internode.encrypts(place(here), place(member)) }
}

/// Shows a snapshot to every shard.
async fn publish(snapshot: Snapshot) {
    let snapshot = Arc::new(snapshot);
    runtime::on_every_shard(Group::CONTROL, move || {
        let snapshot = snapshot.clone();
        async move {
            if let Some(coordinator) = runtime::try_local::<Coordinator>() {
                coordinator.set_topology(snapshot);
            }
        }
    })
    .await;
}
