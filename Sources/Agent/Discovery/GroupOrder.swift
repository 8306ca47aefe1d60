import Documents

/// In which order the listeners of a group are tried. Anybody on the local network can announce any number of them, with any text, so nobody is tried
/// before everybody else for ever, except those that were reached: each of the others waits for its turn, and after its turn goes to the end.
struct GroupOrder: Sendable {
    /// `discovered_peers`: maximum number of candidates in a group at a time. Those that do not fit have their turn the next time.
    static let most = 64
    /// `discovered_peers_per_address`: of the candidates with one address, those beyond come after all others.
    static let mostPerAddress = 4
    /// `reached_peers`: maximum number of listeners that are remembered as reached.
    static let mostReached = 8
    /// Places for candidates that announce no pinned key, while there are such: anybody can copy a pin.
    private static let placesForOthers = most / 4

    struct Candidate: Sendable {
        var key: ExactName
        var address: String
        /// Whether it announces a pinned key.
        var isPinned: Bool
        /// Decides between candidates that have waited equally long.
        var weight: String
    }

    /// The keys of those that were reached, the last one first.
    private(set) var reached: [ExactName]
    /// For each candidate, when it began to wait: when it was first announced, or had its turn. Times are counted, not measured.
    private var waitingSince: [ExactName: UInt64] = [:]
    private var now: UInt64 = 0

    /// - Parameter reached: by an earlier run.
    init(reached: [ExactName] = []) { self.reached = Array(reached.prefix(Self.mostReached)) }

    /// The places in the list of the candidates to try, the first one first: those that were reached, then those with a pinned key, then the others.
    mutating func order(_ candidates: [Candidate]) -> [Int] {
        meet(candidates)
        let recency = Dictionary(reached.enumerated().map { ($0.element, $0.offset) }, uniquingKeysWith: { first, _ in first })
        func age(_ index: Int) -> Int { recency[candidates[index].key] ?? Int.max }
        let known = candidates.indices.filter { recency[candidates[$0].key] != nil }.sorted { (age($0), $0) < (age($1), $1) }
        let unknown = candidates.indices.filter { recency[candidates[$0].key] == nil }.sorted { isBefore(candidates[$0], candidates[$1]) }
        let pinned = Self.spread(unknown.filter { candidates[$0].isPinned }, candidates)
        let others = Self.spread(unknown.filter { !candidates[$0].isPinned }, candidates)
        let room = max(0, Self.most - known.count)
        let forPinned = min(pinned.count, max(0, room - min(others.count, Self.placesForOthers)))
        var order = Array(known.prefix(Self.most))
        order += pinned.prefix(forPinned)
        order += others.prefix(room - forPinned)
        return order
    }

    /// Only current candidates are remembered: anyone can announce any number of names.
    private mutating func meet(_ candidates: [Candidate]) {
        now += 1
        var waiting: [ExactName: UInt64] = [:]
        for candidate in candidates { waiting[candidate.key] = waitingSince[candidate.key] ?? now }
        waitingSince = waiting
    }

    private func isBefore(_ left: Candidate, _ right: Candidate) -> Bool {
        let (leftSince, rightSince) = (waitingSince[left.key] ?? now, waitingSince[right.key] ?? now)
        if leftSince != rightSince { return leftSince < rightSince }
        return left.weight == right.weight ? left.key.text.utf8.lexicographicallyPrecedes(right.key.text.utf8) : left.weight > right.weight
    }

    /// Puts those of an address that has had its share behind all others.
    private static func spread(_ sorted: [Int], _ candidates: [Candidate]) -> [Int] {
        var counts: [String: Int] = [:]
        var (within, beyond): ([Int], [Int]) = ([], [])
        for index in sorted {
            let count = counts[candidates[index].address, default: 0]
            counts[candidates[index].address] = count + 1
            if count < mostPerAddress { within.append(index) } else { beyond.append(index) }
        }
        return within + beyond
    }

    /// It had its turn without being reached: it failed, or was passed over.
    mutating func hadTurn(_ key: ExactName) {
        guard waitingSince[key] != nil else { return }
        now += 1
        waitingSince[key] = now
    }

    mutating func noteReached(_ key: ExactName) {
        reached.removeAll { $0 == key }
        reached.insert(key, at: 0)
        reached.removeLast(max(0, reached.count - Self.mostReached))
    }
}
