import Environment
import Replication

/// What one run consists of, all of which follows from the seed.
package struct SimulationPlan: Sendable {
    package enum Topology: String, CaseIterable, Sendable {
        case pair, chain, star, ring, hubs
        /// A ring with a hub beside it, to which one of its machines connects. No seed chooses it by itself.
        case lasso
        /// Two machines that connect to two hubs, which do not connect to each other. No seed chooses it by itself.
        case unlinkedHubs
    }

    package var seed: UInt64
    package var topology: Topology
    package var machines: Int
    /// Who connects to whom.
    package var links: [(from: Int, to: Int)]
    package var rounds = 2
    /// How many edits all machines together make in one round.
    package var edits = 40
    /// Nothing fails: there are no cuts, crashes or faults, and policies stay as they are. The checks can then expect more.
    package var isCalm = false
    package var hasCrashes = true
    package var hasDiskFaults = true
    package var hasPolicies = true
    package var hasBursts = true
    /// Queues and the memory for peers are as small as they can be and still work, so that they are full all the time.
    package var isTight = false
    fileprivate var wantsTightLimits = false
    /// Disks corrupt what they store.
    package var damages = false
    /// Damage was asked for, and does not follow from the seed.
    fileprivate var wantsDamage = false
    /// In the middle of a burst, the connections of its machine break.
    package var cutsBursts = false
    /// Listeners bind their peers to a channel, which documents enter and leave.
    package var hasChannels = false
    /// Conflicts are resolved by combining the edits of both sides; otherwise the default rule decides.
    package var unites = true
    /// Documents are deleted on one machine while others write them.
    package var deletesInConflict = false
    /// Slow resolvers take their time before they fail.
    package var resolversTimeOut = false
    /// Some versions of the sync function fail or are slow.
    package var changesSyncFunctions = false
    /// Replicators and listeners get another configuration, and later their original one again.
    package var reconfigures = false
    /// Operators make replicators start over without their checkpoints, or run just once.
    package var restarts = false
    /// Branches end on one machine, and others begin.
    package var branches = false
    /// Documents of the same id are created on one machine, and created and deleted on another, at the same time.
    package var recreates = false
    /// All machines create, edit and delete the same few documents at once.
    package var churns = false
    /// Machines that have had clients of CouchDB's API, so that the losing branch of a decision is kept and ends in a tombstone.
    package var branchKeepers: Set<Int> = []
    package var planted: PlantedFault?
    /// Machines that name revisions by versions to each other; the others know only revision trees.
    package var versions: Set<Int> = []
    /// Those of them that give every edit a version; the others give one only to an edit of a revision that has a version.
    package var versionsEdits: Set<Int> = []

    /// - Parameter topology: nil lets the seed choose; large fleets are rare.
    /// - Parameter withVersions: some machines or all of them have version vectors.
    /// - Parameter withDamage: disks corrupt what they store, which is rare otherwise.
    /// - Parameter withTightLimits: queues are short and memory is scarce, which is rare otherwise.
    package init(seed: UInt64, topology: Topology? = nil, planted: PlantedFault? = nil, withVersions: Bool = false, withDamage: Bool = false, withTightLimits: Bool = false) {
        self.seed = seed
        self.planted = planted
        let random = SeededRandom(seed: seed ^ 0x5EED)
        let dice = random.below(20)
        let chosen = topology ?? (dice < 12 ? .pair : dice < 15 ? .chain : dice < 17 ? .ring : dice < 19 ? .hubs : .star)
        self.topology = chosen
        switch chosen {
        case .pair: (machines, links) = (2, [(0, 1)])
        case .chain: (machines, links) = (3, [(0, 1), (1, 2)])
        case .ring: (machines, links) = (3, [(0, 1), (1, 2), (2, 0)])
        case .hubs: (machines, links) = (5, [(0, 1), (2, 0), (2, 1), (3, 0), (4, 1)])
        case .lasso: (machines, links) = (4, [(1, 0), (2, 1), (3, 2), (1, 3)])
        case .unlinkedHubs: (machines, links) = (4, [(2, 0), (2, 1), (3, 0), (3, 1)])
        case .star: (machines, links) = (20, (1..<20).map { ($0, 0) })
        }
        edits = 10 + random.below(50)
        isCalm = random.chance(0.25)
        hasCrashes = random.chance(0.5)
        hasDiskFaults = random.chance(0.3)
        hasPolicies = random.chance(0.5)
        hasBursts = random.chance(0.15)
        unites = random.chance(0.7)
        hasChannels = (chosen == .pair || chosen == .star) && random.chance(0.2)
        if hasChannels { hasPolicies = false }
        if isCalm { (hasCrashes, hasDiskFaults, hasPolicies) = (false, false, hasPolicies) }
        deletesInConflict = random.chance(0.5)
        reconfigures = !isCalm && random.chance(0.3)
        // Each of these takes its chances from a source of its own, so that everything else that a seed makes happen stays the same.
        // The numbers are chosen so that the seeds that found faults (SeedTests) still show what they are kept for.
        damages = planted == nil && !isCalm && !hasChannels && SeededRandom(seed: seed ^ 0xDA4A6B).chance(0.1)
        cutsBursts = planted == nil && hasBursts && !isCalm && SeededRandom(seed: seed ^ 0xB0254).chance(0.5)
        isTight = planted == nil && SeededRandom(seed: seed ^ 0x716A7).chance(0.1)
        restarts = planted == nil && !isCalm && SeededRandom(seed: seed ^ 0x4E5E7).chance(0.25)
        branches = planted == nil && SeededRandom(seed: seed ^ 0xB4A72).chance(0.2)
        recreates = planted == nil && SeededRandom(seed: seed ^ 0x2EC4EA7E).chance(0.3)
        churns = planted == nil && (chosen == .lasso || SeededRandom(seed: seed ^ 0xC4127).chance(0.1))
        let keeping = SeededRandom(seed: seed ^ 0xC0ED8)
        if planted == nil, keeping.chance(0.2) { branchKeepers = Set((0..<machines).filter { _ in keeping.chance(0.6) }) }
        resolversTimeOut = planted == nil && SeededRandom(seed: seed ^ 0x10BF).chance(0.5)
        changesSyncFunctions = planted == nil && hasChannels && !isCalm && SeededRandom(seed: seed ^ 0x1004).chance(0.5)
        if withVersions {
            let isMixed = random.chance(0.4)
            versions = Set((0..<machines).filter { _ in !isMixed || random.chance(0.6) })
            versionsEdits = Set(versions.sorted().filter { _ in random.chance(0.7) })
        }
        if withTightLimits { (isTight, wantsTightLimits) = (true, true) }
        if withDamage { (damages, isCalm, hasChannels, wantsDamage) = (true, false, false, true) }
        // Each run of a planted fault has what the fault needs to show itself.
        switch planted {
        case .twoUnderWay: (isCalm, hasBursts) = (false, true)
        case .forgottenParent: (isCalm, hasBursts, cutsBursts) = (false, true, true)
        // A policy may be the one thing that is still busy when nothing else happens.
        case .idleWhileOwed: (isCalm, hasPolicies) = (false, true)
        case .unansweredWrite: (isCalm, hasDiskFaults) = (false, true)
        case .hopedForPull: if chosen == .pair { (hasChannels, hasPolicies) = (true, false) }
        default: break
        }
    }
}

/// A run that broke an invariant.
package struct SimulationFailure: Error, CustomStringConvertible {
    package var plan: SimulationPlan
    /// The first invariant that was broken, described in words.
    package var violation: String

    package var description: String {
        let planted = plan.planted.map { " NIGHTJAR_SIMULATION_FAULT=\($0.rawValue)" } ?? ""
        let versions = plan.versions.isEmpty ? "" : " NIGHTJAR_SIMULATION_VERSIONS=1"
        let damage = plan.wantsDamage ? " NIGHTJAR_SIMULATION_DAMAGE=1" : ""
        let tight = plan.wantsTightLimits ? " NIGHTJAR_SIMULATION_TIGHT=1" : ""
        return """
            seed \(plan.seed), topology \(plan.topology.rawValue): \(violation)
            With a full trace: NIGHTJAR_SIMULATION_TOPOLOGY=\(plan.topology.rawValue)\(planted)\(versions)\(damage)\(tight) Tests/run --simulate-seed \(plan.seed)
            """
    }
}
