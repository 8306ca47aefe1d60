/// The memory the process actually uses, compared with what is counted for its peers: allocator fragmentation, buffers that grew, copies in transit,
/// and anything else that is not counted. The more there is, the earlier the budget counts as used up. Pages of the program's file and of databases are
/// no part of it: they come and go with what the agent does, and the system can take them back at any time.
extension MemoryBudget {
    struct Observation {
        /// The memory of the process while peers made it hold next to nothing; nil before the first such observation.
        var atRest: Int?
        /// What was counted at the last observation.
        var countedAtObservation = 0
        /// The memory of the process beyond what is counted.
        var uncounted = 0
    }

    /// An observation costs microseconds, so one is made whenever the counted bytes have changed by this much.
    private var step: Int { limit / 64 }

    /// Below this number of counted bytes nobody is evicted, however much is uncounted: what an agent uses for other purposes, such as a new
    /// database, must not affect peers that hold little.
    private var least: Int { limit / 8 * 3 }

    /// Above this, somebody has to be evicted. If the process is observed, an eighth is left for what happens between two observations: a small frame
    /// may inflate to megabytes, and an evicted connection's memory remains for a moment.
    func evictionThreshold(_ state: State) -> Int {
        processMemory == nil ? limit : max(least, limit - limit / 8 - state.observation.uncounted)
    }

    /// Up to this, no restrictions apply.
    func restrictionThreshold(_ state: State) -> Int { evictionThreshold(state) - limit / 4 }

    func observe(_ state: inout State) {
        guard let processMemory, let atRest = state.observation.atRest, abs(state.used - state.observation.countedAtObservation) >= step else { return }
        state.observation.countedAtObservation = state.used
        state.observation.uncounted = max(0, processMemory() - atRest - state.used)
    }

    /// The current memory of the process beyond what is counted and what it uses at rest; 0 if it is not observed.
    public var uncounted: Int {
        guard let processMemory else { return 0 }
        return state.withLock { state in state.observation.atRest.map { max(0, processMemory() - $0 - state.used) } ?? 0 }
    }

    /// Takes the process's current memory as what it uses at rest, unless peers make it hold much.
    public func noteRest() {
        guard let processMemory else { return }
        state.withLock { state in
            guard state.used <= limit / 16 else { return }
            state.observation = Observation(atRest: processMemory(), countedAtObservation: state.used)
        }
    }
}
