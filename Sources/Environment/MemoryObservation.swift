/// What the process really takes, against what is counted for its peers: the allocator's gaps, buffers that grew, copies on their way, and
/// whatever else nobody counts. The more that is, the earlier the budget counts as used up.
extension MemoryBudget {
    struct Observation {
        /// What the process took while peers made it hold next to nothing; nil before the first such look.
        var atRest: Int?
        /// What was counted at the last look.
        var countedThen = 0
        /// What the process takes beside what is counted.
        var uncounted = 0
    }

    /// A look at the process costs microseconds, so one is taken whenever what is counted has changed by so much.
    private var step: Int { limit / 64 }

    /// Counted bytes may be so few before somebody has to go, whatever is not counted: what an agent takes for other reasons, such as a
    /// new database, must not put off peers that hold little.
    private var least: Int { limit / 8 * 3 }

    /// Above this somebody has to go. Where the process is looked at, an eighth is left for what comes between two looks: a small frame
    /// may inflate to megabytes, and what somebody held who has to go is still there for a moment.
    func most(_ state: State) -> Int {
        resident == nil ? limit : max(least, limit - limit / 8 - state.observation.uncounted)
    }

    /// Everything up to this is nobody's business.
    func calm(_ state: State) -> Int { most(state) - limit / 4 }

    func observe(_ state: inout State) {
        guard let resident, let atRest = state.observation.atRest, abs(state.used - state.observation.countedThen) >= step else { return }
        state.observation.countedThen = state.used
        state.observation.uncounted = max(0, resident() - atRest - state.used)
    }

    /// What the process takes beside what is counted and what it takes at rest, as it is now; 0 where it is not looked at.
    public var uncounted: Int {
        guard let resident else { return 0 }
        return state.withLock { state in state.observation.atRest.map { max(0, resident() - $0 - state.used) } ?? 0 }
    }

    /// Takes what the process has in memory now for what it takes by itself, unless peers make it hold much.
    public func noteRest() {
        guard let resident else { return }
        state.withLock { state in
            guard state.used <= limit / 16 else { return }
            state.observation = Observation(atRest: resident(), countedThen: state.used)
        }
    }
}
