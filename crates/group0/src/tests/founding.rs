//! Founding: every order of starts, with answers lost and late, over every way to name seeds.

use crate::{Answer, Decision, Fill, Folder, Node, Seed, SeedAnswer, Standing, decide};
use base::HostId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

fn address(at: usize) -> SocketAddr {
    ([10, 0, 0, at as u8 + 1], 7000).into()
}

fn node(at: usize, seeds: &[usize]) -> Node {
    let seed = |at: &usize| Seed { name: format!("node{at}"), addresses: vec![address(*at)] };
    Node {
        host_id: HostId(at as u128 + 1),
        name: "c".into(),
        broadcast: address(at),
        own: [address(at)].into(),
        seeds: seeds.iter().map(seed).collect(),
        fill: Fill::Proven,
    }
}

fn answer(from: &Node, what: SeedAnswer) -> Answer {
    Answer { host_id: from.host_id, name: from.name.clone(), seeds: from.list(), what }
}

fn cluster(id: u128, you: Standing) -> SeedAnswer {
    SeedAnswer::Cluster { id, you, has_address: false }
}

const NONE: SeedAnswer = SeedAnswer::NoCluster { lone: false };

/// A node of the model: off, empty, or a member of the cluster that this node founded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Off,
    Empty,
    Member(u8),
}

/// What each node is, and which answers may be under way from one to another: none is ever late enough to be forgotten, so that every
/// combination of losses, delays and repetitions is a choice among them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    phases: Vec<Phase>,
    /// By asker, then by who answers.
    under_way: Vec<Vec<BTreeSet<Phase>>>,
}

struct Model {
    nodes: Vec<Node>,
    lone: Vec<bool>,
}

impl Model {
    fn new(seeds: &[Vec<usize>]) -> Model {
        let nodes = seeds.iter().enumerate().map(|(at, seeds)| node(at, seeds)).collect();
        Model { nodes, lone: vec![false; seeds.len()] }
    }

    fn start(&self) -> World {
        let count = self.nodes.len();
        let mut world =
            World { phases: vec![Phase::Off; count], under_way: vec![vec![BTreeSet::new(); count]; count] };
        self.send(&mut world);
        world
    }

    fn send(&self, world: &mut World) {
        for asker in 0..self.nodes.len() {
            for from in 0..self.nodes.len() {
                if asker != from && world.phases[asker] != Phase::Off && world.phases[from] != Phase::Off {
                    let phase = world.phases[from];
                    world.under_way[asker][from].insert(phase);
                }
            }
        }
    }

    fn decide(&self, at: usize, heard: &BTreeMap<usize, Phase>) -> Decision {
        let answers = heard.iter().filter_map(|(from, phase)| {
            let what = match phase {
                Phase::Off => return None,
                Phase::Empty => SeedAnswer::NoCluster { lone: self.lone[*from] },
                Phase::Member(founder) => cluster(u128::from(*founder), Standing::Unknown),
            };
            Some((address(*from), answer(&self.nodes[*from], what)))
        });
        let folder = if self.lone[at] { Folder::Lone } else { Folder::Empty };
        decide(&self.nodes[at], folder, &answers.collect())
    }

    /// Every choice of what an empty node may have heard last from each other one.
    fn hearings(&self, world: &World, at: usize) -> Vec<BTreeMap<usize, Phase>> {
        let mut all = vec![BTreeMap::new()];
        for (from, phases) in world.under_way[at].iter().enumerate() {
            let mut next = all.clone();
            for phase in phases {
                next.extend(all.iter().cloned().map(|mut heard: BTreeMap<usize, Phase>| {
                    heard.insert(from, *phase);
                    heard
                }));
            }
            all = next;
        }
        all
    }

    fn next(&self, world: &World) -> Vec<World> {
        let mut worlds = Vec::new();
        for at in 0..self.nodes.len() {
            let become_ = |phase: Phase| {
                let mut next = world.clone();
                next.phases[at] = phase;
                self.send(&mut next);
                next
            };
            match world.phases[at] {
                Phase::Off => worlds.push(become_(Phase::Empty)),
                Phase::Empty => {
                    for heard in self.hearings(world, at) {
                        match self.decide(at, &heard) {
                            Decision::Found => worlds.push(become_(Phase::Member(at as u8))),
                            Decision::Join { cluster, .. } => {
                                worlds.push(become_(Phase::Member(cluster as u8)))
                            }
                            Decision::Wait { .. } | Decision::Refuse(_) => {}
                            other => panic!("{other:?} of an empty node"),
                        }
                    }
                }
                Phase::Member(_) => {}
            }
        }
        worlds
    }

    /// All worlds that can come about.
    fn explore(&self) -> BTreeSet<World> {
        let mut seen = BTreeSet::new();
        let mut open = vec![self.start()];
        while let Some(world) = open.pop() {
            if seen.insert(world.clone()) {
                open.extend(self.next(&world));
            }
        }
        seen
    }

    /// Once everybody has started and hears the newest answers: what each decides, when nothing changes any more.
    fn settle(&self, world: &World) -> (World, Vec<Option<Decision>>) {
        let mut world = world.clone();
        for phase in &mut world.phases {
            *phase = if *phase == Phase::Off { Phase::Empty } else { *phase };
        }
        loop {
            let mut changed = false;
            let mut decisions = Vec::new();
            for at in 0..self.nodes.len() {
                if world.phases[at] != Phase::Empty {
                    decisions.push(None);
                    continue;
                }
                let heard = (0..self.nodes.len()).filter(|from| *from != at);
                let heard: BTreeMap<usize, Phase> = heard.map(|from| (from, world.phases[from])).collect();
                let decision = self.decide(at, &heard);
                match decision {
                    Decision::Found => world.phases[at] = Phase::Member(at as u8),
                    Decision::Join { cluster, .. } => world.phases[at] = Phase::Member(cluster as u8),
                    _ => {}
                }
                changed |= world.phases[at] != Phase::Empty;
                decisions.push(Some(decision));
            }
            if !changed {
                return (world, decisions);
            }
        }
    }

    /// Whether every seed of a list is named the same way by everybody in it.
    fn agrees(&self, at: usize) -> bool {
        let list = self.nodes[at].list();
        self.nodes.iter().filter(|node| list.contains(&node.broadcast)).all(|node| node.list() == list)
    }

    fn clusters(&self, world: &World) -> BTreeSet<u8> {
        let of = |phase: &Phase| if let Phase::Member(cluster) = phase { Some(*cluster) } else { None };
        world.phases.iter().filter_map(of).collect()
    }

    fn check(&self) {
        let worlds = self.explore();
        let all_agree =
            (0..self.nodes.len()).all(|at| self.agrees(at) && self.nodes[at].list() == self.nodes[0].list());
        for world in &worlds {
            for one in 0..self.nodes.len() {
                for two in 0..one {
                    let same = self.nodes[one].list() == self.nodes[two].list() && self.agrees(one);
                    if let (true, Phase::Member(a), Phase::Member(b)) =
                        (same, world.phases[one], world.phases[two])
                    {
                        assert_eq!(a, b, "two clusters: {world:?}");
                    }
                }
            }
            // ⚔ Whatever the lists: who names another among its seeds does not found beside it.
            let founders = self.clusters(world);
            for (one, two) in founders.iter().flat_map(|one| founders.iter().map(move |two| (*one, *two))) {
                let named = self.nodes[usize::from(one)].others().contains(&address(usize::from(two)));
                assert!(!named, "{one} founded beside {two}, which it names: {world:?}");
            }
            let (settled, decisions) = self.settle(world);
            if all_agree {
                assert_eq!(self.clusters(&settled).len(), 1, "{world:?}");
                assert!(decisions.iter().all(Option::is_none), "everybody is in: {decisions:?}");
            }
            for decision in decisions.into_iter().flatten() {
                match decision {
                    Decision::Wait { whom, why } => assert!(!whom.is_empty() && !why.is_empty()),
                    Decision::Refuse(why) => assert!(!why.is_empty()),
                    other => panic!("{other:?} is not an end"),
                }
            }
        }
    }
}

/// Every list of seeds that names someone.
fn lists(count: usize) -> Vec<Vec<usize>> {
    (1..1usize << count).map(|set| (0..count).filter(|at| set >> at & 1 == 1).collect()).collect()
}

/// ⚔ Never two clusters among nodes that name the same seeds; the others end with a reason.
#[test]
fn two_or_three_nodes_with_any_lists_of_seeds() {
    for count in [2, 3] {
        let lists = lists(count);
        let mut choice = vec![0; count];
        loop {
            let seeds: Vec<Vec<usize>> = choice.iter().map(|at| lists[*at].clone()).collect();
            Model::new(&seeds).check();
            let Some(at) = choice.iter().position(|at| at + 1 < lists.len()) else { break };
            choice[..at].fill(0);
            choice[at] += 1;
        }
    }
}

/// ⚔ The same for four nodes that agree, and for four of which one names others.
#[test]
fn four_nodes() {
    for list in lists(4) {
        Model::new(&vec![list.clone(); 4]).check();
    }
    for other in [vec![0], vec![3], vec![0, 3], vec![1, 2]] {
        Model::new(&[vec![0, 1, 2], vec![0, 1, 2], vec![0, 1, 2], other]).check();
    }
}

/// One that holds data founds, whatever its address.
#[test]
fn a_lone_folder_among_empty_ones_founds() {
    for lone in 0..3 {
        let mut model = Model::new(&vec![vec![0, 1, 2]; 3]);
        model.lone[lone] = true;
        model.check();
        let founders =
            model.explore().iter().flat_map(|world| model.clusters(world)).collect::<BTreeSet<u8>>();
        assert_eq!(founders, [lone as u8].into());
    }
}

#[test]
fn two_lone_folders_refuse_each_other() {
    let (one, two) = (node(0, &[0, 1]), node(1, &[0, 1]));
    let answers = [(address(1), answer(&two, SeedAnswer::NoCluster { lone: true }))].into();
    let Decision::Refuse(why) = decide(&one, Folder::Lone, &answers) else { panic!("must refuse") };
    assert!(why.contains("node1 holds data of a node that stood alone, too"), "{why}");
    assert_eq!(
        decide(&node(0, &[0]), Folder::Lone, &BTreeMap::new()),
        Decision::Found,
        "alone it founds at once"
    );
}

/// ⚔ It waits for one that does not answer, and says for whom.
#[test]
fn a_seed_that_does_not_answer_is_waited_for_by_name() {
    let one = node(0, &[0, 1, 2]);
    let answers = [(address(1), answer(&node(1, &[0, 1, 2]), NONE))].into();
    let Decision::Wait { whom, why } = decide(&one, Folder::Empty, &answers) else { panic!("must wait") };
    assert_eq!((&whom[..], why.contains("has not answered")), (&["node2".to_owned()][..], true));
}

/// ⚔ A seed with another list may found by it: it is waited for, and the reason names both lists.
#[test]
fn a_seed_with_another_list_is_waited_for_with_the_reason() {
    let heard = [(address(1), answer(&node(1, &[1]), NONE))].into();
    let Decision::Wait { whom, why } = decide(&node(0, &[0, 1]), Folder::Empty, &heard) else {
        panic!("must wait")
    };
    assert_eq!(whom, ["node1"]);
    assert!(why.contains("its seeds are {10.0.0.2:7000}, ours {10.0.0.1:7000, 10.0.0.2:7000}"), "{why}");
}

/// ⚔ A folder with a cluster id never joins another cluster.
#[test]
fn a_folder_that_began_to_join_joins_no_other_cluster() {
    let one = node(0, &[1]);
    let heard = |what| [(address(1), answer(&node(1, &[1]), what))].into();
    let begun = Folder::Joining(5);
    assert!(matches!(decide(&one, begun, &heard(cluster(6, Standing::Unknown))), Decision::Refuse(_)));
    assert!(matches!(decide(&one, begun, &heard(NONE)), Decision::Wait { .. }));
    assert_eq!(
        decide(&one, begun, &heard(cluster(5, Standing::Unknown))),
        Decision::Join { at: address(1), cluster: 5, fill: Fill::Proven }
    );
    assert_eq!(decide(&one, begun, &heard(cluster(5, Standing::Member))), Decision::Serve);
    assert!(matches!(decide(&one, begun, &heard(cluster(5, Standing::Refused))), Decision::Refuse(_)));
}

/// ⚔ The only seed was wiped and founded again; a member of the old cluster answers: the cluster of one gives way.
#[test]
fn a_cluster_of_one_gives_way_to_an_equally_named_one_that_knows_its_address() {
    let one = node(0, &[0, 1]);
    let old = SeedAnswer::Cluster { id: 6, you: Standing::Unknown, has_address: true };
    let heard: BTreeMap<SocketAddr, Answer> = [(address(1), answer(&node(1, &[0, 1]), old))].into();
    let decided = decide(&one, Folder::Member { cluster: 5, alone: true }, &heard);
    assert!(matches!(decided, Decision::CloseNative(why) if why.contains("two clusters are called \"c\"")));
    assert_eq!(decide(&one, Folder::Member { cluster: 5, alone: false }, &heard), Decision::Serve);

    let log = super::fixture::Log::founded();
    let called =
        |other, name| crate::must_close_native(&log.state, one.broadcast, (HostId(9), other, name), true);
    assert!(called(6, "c").is_some());
    assert!(called(super::fixture::CLUSTER, "c").is_none() && called(6, "d").is_none());
    assert!(crate::must_close_native(&log.state, one.broadcast, (HostId(9), 6, "c"), false).is_none());
    let more = super::fixture::Log::of(&[2]);
    assert!(crate::must_close_native(&more.state, one.broadcast, (HostId(9), 6, "c"), true).is_none());
}

#[test]
fn an_empty_folder_whose_host_id_is_known_has_lost_what_it_held() {
    let heard = [(address(1), answer(&node(1, &[1]), cluster(5, Standing::Member)))].into();
    assert!(
        matches!(decide(&node(0, &[1]), Folder::Empty, &heard), Decision::Refuse(why) if why.contains("has lost"))
    );
}

#[test]
fn a_copied_folder_and_a_foreign_name_are_refused() {
    let copy = Node { host_id: HostId(1), ..node(1, &[0, 1]) };
    let heard = [(address(1), answer(&copy, NONE))].into();
    assert!(
        matches!(decide(&node(0, &[0, 1]), Folder::Empty, &heard), Decision::Refuse(why) if why.contains("copy"))
    );
    let foreign = Node { name: "d".into(), ..node(1, &[1]) };
    let heard = [(address(1), answer(&foreign, cluster(5, Standing::Unknown)))].into();
    assert!(
        matches!(decide(&node(0, &[1]), Folder::Empty, &heard), Decision::Refuse(why) if why.contains("\"d\""))
    );
}

/// Host names: one name of all seeds, and an address that is the node's own under another name.
#[test]
fn names_of_several_addresses_stand_for_every_one_of_them() {
    let name = Seed { name: "seeds".into(), addresses: vec![address(0), address(1)] };
    let one = Node { seeds: vec![name.clone()], ..node(0, &[]) };
    let two = Node { seeds: vec![name], ..node(1, &[]) };
    assert!(
        matches!(decide(&one, Folder::Empty, &BTreeMap::new()), Decision::Wait { whom, .. } if whom == ["seeds (10.0.0.2:7000)"])
    );
    let heard = [(address(1), answer(&two, NONE))].into();
    assert_eq!(decide(&one, Folder::Empty, &heard), Decision::Found);

    let loopback: SocketAddr = ([127, 0, 1, 1], 7000).into();
    let listens = Node {
        own: [address(0), loopback].into(),
        seeds: vec![Seed { name: "me".into(), addresses: vec![loopback] }],
        ..node(0, &[])
    };
    assert_eq!(listens.list(), [address(0)].into());
    assert_eq!(decide(&listens, Folder::Empty, &BTreeMap::new()), Decision::Found);
    let unresolved = Node { seeds: vec![Seed { name: "gone".into(), addresses: vec![] }], ..node(0, &[0]) };
    assert!(
        matches!(decide(&unresolved, Folder::Empty, &BTreeMap::new()), Decision::Wait { whom, .. } if whom == ["gone"])
    );
}

#[test]
fn a_removed_node_is_refused_by_its_own_state_and_by_its_seeds() {
    let one = node(0, &[1]);
    assert!(matches!(decide(&one, Folder::Refused(5), &BTreeMap::new()), Decision::Refuse(_)));
    let heard = [(address(1), answer(&node(1, &[1]), cluster(5, Standing::Refused)))].into();
    assert!(matches!(decide(&one, Folder::Member { cluster: 5, alone: false }, &heard), Decision::Refuse(_)));
}

#[test]
fn a_node_answers_what_its_state_says() {
    let log = super::fixture::Log::of(&[2]);
    let of = |asker: u8, at: u8| {
        let internode = super::fixture::member(at).internode;
        log.state.seed_answer(HostId(1), false, super::fixture::host(asker), &[internode])
    };
    let id = super::fixture::CLUSTER;
    assert_eq!(of(2, 9), SeedAnswer::Cluster { id, you: Standing::Member, has_address: false });
    assert_eq!(of(7, 2), SeedAnswer::Cluster { id, you: Standing::Unknown, has_address: true });
    let joining = log.state.seed_answer(HostId(5), false, HostId(1), &[]);
    assert_eq!(joining, SeedAnswer::Joining(id));
    let nothing = crate::State::new().seed_answer(HostId(1), true, HostId(2), &[]);
    assert_eq!(nothing, SeedAnswer::NoCluster { lone: true });
}
