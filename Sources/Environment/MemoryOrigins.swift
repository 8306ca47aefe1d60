/// Where connections come from. What those of one origin hold and owe is added up: otherwise an address with many connections, none of which stands
/// out, would have those of other addresses ended.
extension MemoryBudget {
    /// Whose part of the budget a connection counts towards.
    enum Origin: Hashable {
        /// The address of a peer, or the group of addresses that counts as one.
        case address(String)
        /// A connection that counts with no other, by the number of its place: one that we opened ourselves, for example.
        case own(Int)
    }

    /// What one connection adds to the sums of its origin.
    struct Load: Equatable {
        static let nothing = Load(bytes: 0, owed: 0)
        /// Bytes that it holds.
        var bytes: Int
        /// Bytes that its peer owes; 0 if they are too few to count.
        var owed: Int
    }

    /// The sums of all origins, kept as they change: there may be thousands of connections, and each reports many times a second.
    struct Origins {
        private struct Sum {
            /// Number of connections that hold anything, and what they hold together.
            var holders = 0
            var bytes = 0
            /// Number of connections whose peers owe a significant amount, and what these owe together.
            var debtors = 0
            var owed = 0
        }

        /// An origin that holds nothing is not remembered: there may be any number of them, one after the other.
        private var sums: [Origin: Sum] = [:]
        private var bytes = 0
        private var owing = 0

        /// Number of origins that hold or owe anything.
        var count: Int { sums.count }

        /// What the connections of an origin hold and owe together.
        func load(of origin: Origin) -> Load { sums[origin].map { Load(bytes: $0.bytes, owed: $0.owed) } ?? .nothing }

        /// The part of what all connections may hold together that each origin may hold, with the given one, which may hold nothing yet.
        func share(of most: Int, besides origin: Origin) -> Int { most / (sums.count + (sums[origin] == nil ? 1 : 0)) }

        mutating func change(_ origin: Origin, from old: Load, to new: Load) {
            guard old != new else { return }
            var sum = sums[origin] ?? Sum()
            owing -= sum.debtors > 0 ? 1 : 0
            sum.holders += (new.bytes > 0 ? 1 : 0) - (old.bytes > 0 ? 1 : 0)
            sum.bytes += new.bytes - old.bytes
            sum.debtors += (new.owed > 0 ? 1 : 0) - (old.owed > 0 ? 1 : 0)
            sum.owed += new.owed - old.owed
            owing += sum.debtors > 0 ? 1 : 0
            bytes += new.bytes - old.bytes
            sums[origin] = sum.holders > 0 || sum.debtors > 0 ? sum : nil
        }

        /// Whether a connection that holds this many bytes has more than its part of what its origin may hold, while the origin has more than its own.
        /// At half of these parts, since what is being read for the connection comes on top.
        ///
        /// - Parameter most: the bytes that all connections may hold together.
        func isCrowded(_ origin: Origin, _ held: Int, most: Int) -> Bool {
            guard held > 0, let sum = sums[origin] else { return false }
            // If work takes up most of the budget, no origin has much of it: those above the average are slowed down all the same.
            let (share, average) = (most / sums.count, bytes / sums.count)
            let ofConnection = max(MemoryBudget.smallestShare, share / sum.holders)
            return sum.bytes > min(share, average) / 2 && held > ofConnection / 2
        }

        /// Whether the connections of an origin owe more than a fair share of what all connections may hold together.
        func owesTooMuch(_ origin: Origin, most: Int) -> Bool { load(of: origin).owed > most / max(1, owing) }
    }

    /// The debtors of which one has to go: those of the origin that owes the most, out of the origins that owe too much. All of them if there is no
    /// such origin. If a single debtor makes no progress and weighs more than all debtors of that origin together, those without progress.
    ///
    /// - Parameters:
    ///   - weight: how much a debtor owes, and for how long; at least 0.
    ///   - isStale: whether it has been owed for so long that its peer cannot be transferring anything. Weight alone does not tell: an origin
    ///     that replaces its connections as they are dropped has only new debts, and all of them weigh less than a steady reader's.
    ///   - owesTooMuch: whether an origin owes more than its fair share.
    /// - Returns: the debtors in the same order.
    package static func accused<Debtor, Source: Hashable>(
        _ debtors: [Debtor], origin: (Debtor) -> Source, weight: (Debtor) -> Double, isStale: (Debtor) -> Bool, owesTooMuch: (Source) -> Bool
    ) -> [Debtor] {
        var totals: [Source: Double] = [:]
        var heaviest = 0.0
        for debtor in debtors {
            totals[origin(debtor), default: 0] += weight(debtor)
            if isStale(debtor) { heaviest = max(heaviest, weight(debtor)) }
        }
        let largest = totals.reduce(0.0) { $1.value > $0 && owesTooMuch($1.key) ? $1.value : $0 }
        guard largest > 0 else { return debtors }
        guard largest >= heaviest else { return debtors.filter(isStale) }
        // Equal debts, added up in another order, may differ in their last digits.
        let least = largest * (1 - 1e-9)
        return debtors.filter { debtor in
            let source = origin(debtor)
            return totals[source, default: 0] >= least && owesTooMuch(source)
        }
    }

    /// The fair share of an address, in bytes: what all connections may hold, divided among all that hold anything, and this one.
    public func share(for address: String) -> Int { state.withLock { $0.origins.share(of: evictionThreshold($0), besides: .address(address)) } }

    /// Number of origins that hold or owe anything.
    package var origins: Int { state.withLock { $0.origins.count } }

    /// What the connections of an address hold, and what their peers owe, in bytes.
    package func sums(of address: String) -> (bytes: Int, owed: Int) {
        let load = state.withLock { $0.origins.load(of: .address(address)) }
        return (load.bytes, load.owed)
    }
}
